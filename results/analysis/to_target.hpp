// Runs to a target: the first passage, what it took, and whether that is believable.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "results/analysis/statistics.hpp"
#include "results/record/record.hpp"

namespace tw::results {

/// What the target is compared with; not a number where the loss is none, or where an error is asked for and there is
/// none.
double metric_of(const Target& target, const Evaluation& evaluation);
/// "held-out error", "excess loss"
const char* metric_words(TargetMetric metric);
/// How far a run is: "step 30, held-out error 0.170 (target 0.1)".
std::string progress_words(const Target& target, const Evaluation& evaluation);
bool reaches(const Target& target, const Evaluation& evaluation);
/// The first evaluation at or under the target. Later ones count for nothing: a metric may cross the target again.
std::optional<std::size_t> first_passage(const Target& target, const TargetRun& run);
/// The evaluation at which a trial of the record reached its target; null if it did not, or the record has none.
const Evaluation* passage_of(const Record& record, const Trial& trial);

/// Half width, 95 %, as a share of `steps`, of when the target was reached: it is known to one evaluation interval.
double passage_uncertainty(const Target& target, double steps);

/// Fills summary.to_target of a record with a target from its trials: energy from summary.energy_j, which has the same
/// windows, and costs if the record has prices. A run that missed the target counts as infinite, and so does the mean.
/// Runs that are invalid for another cause (results/analysis/trials.hpp) are left out.
void summarise_target(Record& record, IntervalRule rule = IntervalRule::student);

/// Adds to record.verdict:
///   target_missed  a run did not reach the target: a reason, so that the record is invalid
///   off_reference  the mean number of steps lies outside the band of the reference (more steps than the same task
///   needs in
///                  float32 elsewhere, or unreasonably few): a reason, too
///   no_reference   there is none for this task, batch or target, or it is too weak to decide
///   extrapolated   the task was never trained before
void judge_target(Record& record);

/// Whether a band is so wide that half of the reference's steps lie in it: training that needs half of the steps, by
/// an easier target or data that was seen before, would pass. Few seeds that scatter make such a band; more runs of the
/// point make it narrower. What lies outside it is off all the same.
bool is_weak(const ConvergenceReference& reference);
/// "26 steps, 17 to 35 allowed; 8 seeds of JAX 0, float32"; with why it decides nothing, where it is weak or absent.
std::string reference_words(const Target& target);
/// "steps extrapolated from gpt2-tiny, not trained before": what is said beside each figure to the target; empty for a
/// task that was trained, and without a target.
std::string extrapolation_words(const Record& record);

}  // namespace tw::results
