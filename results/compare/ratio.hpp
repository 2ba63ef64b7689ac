// How far one system is from another, in logarithms, how sure that is, and what is claimed of it. Internal to the
// comparison.
//
// Ratios of positive figures have differences of logarithms; what moves a machine moves its figures by shares, so that
// these are the nearer to normal, and the interval of B ÷ A is the inverse of that of A ÷ B.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/compare/comparison.hpp"
#include "results/compare/comparison_words.hpp"

namespace tw::results {

/// Logarithms of one figure of one system, one for each replicate.
struct LogSample {
  std::vector<double> logs;
  /// Half width, 95 %, that all of them have in common, as a share (the sensor's own, when a target was reached).
  double common = 0;
  bool drop_extremes = false;  ///< from 10 replicates on best and worst are left out; not of runs to a target
  /// Of runs: groups of earlier runs of the same machine, whose spread replaces what these do not show. A group
  /// that lacks the figure is empty, so that each has the same place in all workloads.
  std::vector<std::vector<double>> earlier{};
  double within = 0;  ///< of one run: the variance of its mean by its trials, which its own spread cannot be less than
};

struct Contrast {
  double value = 0;            ///< mean of logs, of the one less that of the other
  double variance = 0;         ///< of value, from the spread of the replicates
  double freedom = 0;          ///< degrees of freedom of that; 0: one of the two has fewer than 2 replicates
  double common = 0;           ///< of both, in quadrature
  int replicates = 0;          ///< of the one that has fewer
  double least = 0, most = 0;  ///< of single replicates: the range
  /// One of the two was run once, and nothing is known of how its runs differ: the spread, where there is any, is of
  /// trials.
  bool single_run = false;
};

/// b less a, of independent replicates: Welch 1947; from 10 on trimmed by one at each end, Yuen 1974.
Contrast independent(const LogSample& a, const LogSample& b);
/// Likewise, of replicates that took turns and share what moved the machine meanwhile: Student's t of the differences;
/// from 10 on trimmed, Tukey and McLaughlin 1963. They have as many replicates each.
Contrast paired(const LogSample& a, const LogSample& b);
/// b less a, of the means of independent runs. A side's variance is pooled from its own runs and from `earlier` groups,
/// each about its own mean; with neither there are no degrees of freedom. Of the degrees of freedom of both sides the
/// fewer are taken: then the interval holds the truth in 95 % or more whatever the two variances are (Hsu 1938; Mickey
/// and Brown 1966), where Welch's approximation does so about, and a group that serves both sides is not counted twice.
Contrast of_runs(const LogSample& a, const LogSample& b);
/// Weighted mean of contrasts whose replicates are independent, degrees of freedom after Satterthwaite 1946; what is
/// common to the replicates of one may be common to all, and is added up. Weights add up to 1.
Contrast weighted(std::span<const Contrast> contrasts, std::span<const double> weights);

/// Half of the 95 % interval's width: Student's t × standard error, and in quadrature what the replicates have in
/// common. Needs degrees of freedom.
double half_width(const Contrast& contrast);
/// The least difference (a share: 0.05) that shows in 8 of 10 comparisons of as many replicates and of this spread.
double detectable_share(const Contrast& contrast);
/// How many replicates a side let the difference seen show in 8 of 10 comparisons, `most` where it takes as many or
/// more. Nullopt if no number does, since what the replicates have in common is too much.
std::optional<int> replicates_needed(const Contrast& contrast, int most);

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
