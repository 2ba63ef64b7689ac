// From logarithms to what is claimed of two systems. Internal to the comparison.
#pragma once

#include <string>
#include <vector>

#include "results/compare/comparison.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/compare/contrast.hpp"

namespace tw::results {

/// What one system has of one figure in one workload.
struct RunSample {
  LogSample runs;    ///< the mean of each of its runs
  LogSample trials;  ///< of a system that was run once: its trials; else empty
  /// What it ran on (results/compare/run_variance.hpp): the runs of one system say how those of another differ on the
  /// same machine.
  std::string machine;
};
/// The n-th run with these logarithms of its trials: they are put into `sample`. `of_several`: runs of the system.
void add_run(RunSample& sample, const std::vector<double>& trial_logs, bool of_several);

/// Turns are taken where each block's runs are over before the next block's begin. `learned`: earlier reports say how
/// the runs of some system differ. `note`: what was found, in words.
Replicates replicates_of(const std::vector<SystemInput>& systems, bool learned, std::string& note);

/// b less a, over runs. Of runs that took turns the n-th of one belongs to the n-th of the other. A system that was run
/// once takes its spread from earlier runs of its machine, or from the other system's runs on the same machine; with
/// neither the contrast is one of a single run: of trials where both were run once.
Contrast contrast_of(const RunSample& a, const RunSample& b, Replicates replicates);
/// The weighted mean over rows; those of weight 0 may have no samples. Weights add up to 1.
Contrast contrast_of(const std::vector<const RunSample*>& a, const std::vector<const RunSample*>& b,
                     const std::vector<double>& weights, Replicates replicates);
/// A claim takes a spread over runs (`Contrast::single_run` has none), figures that are no lower bounds, and of single
/// runs a quiet machine and trials that do not drift.
Ratio judged(const Contrast& contrast, bool more_is_better, Replicates replicates, const words::Trials& trials);

}  // namespace tw::results
