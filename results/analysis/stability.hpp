// Whether what was measured belongs together: outlying trials, figures that move along a point or along a run.
// Nothing is left out for it: rows are flagged, never dropped.
#pragma once

#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// What was found, and the flag for it.
struct Instability {
  Flag flag;         ///< outlier or drift
  std::string text;  ///< "trial 3: 33.9 samples/s, 20 % below the others"
};
/// Of the record's valid trials (results/analysis/trials.hpp):
///   outlier  a trial's throughput, or its samples/J of a scope that has joules, does not belong to the other trials'
///            (outliers() of results/analysis/statistics.hpp)
///   drift    the step times, over all trials in order, rise or fall; or samples/J do from trial to trial, which takes
///            6 trials (drift() there)
/// By their construction about one record in a hundred has either without a cause, for each figure looked at.
std::vector<Instability> find_instability(const Record& record);
/// Adds those flags to record.verdict.
void judge_stability(Record& record);

/// A line on how far the machine moved along a run; empty if it did not. Points that differ in accumulation, say,
/// time the same products alone (ceiling_flops_per_s) under the same setting: where the first and the last of them are
/// more than 5 % apart, so may be what was measured on that machine between. Points whose products were timed once are
/// left out.
std::string run_drift(const std::vector<Record>& records);

}  // namespace tw::results
