#include "results/to_target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "results/statistics.hpp"
#include "results/trials.hpp"

namespace tw {
namespace {

/// Why this trial has no first passage.
std::string why_missed(const Target& target, const TargetRun& run) {
  std::string text = "seed " + std::to_string(run.seed) + " did not reach " + target.metric + " " +
                     fmt::format("{:.4g}", target.value);
  if (run.evaluations.empty()) return text + ": it was never evaluated";
  const Evaluation& last = run.evaluations.back();
  const double metric = metric_of(target, last);
  text += " in " + std::to_string(last.step) + " steps";
  return text +
         (std::isfinite(metric) ? " (" + fmt::format("{:.4g}", metric) + " at the end)" : ": its loss is not finite");
}

/// Of a trial of a record with this target.
std::optional<std::size_t> passage_of(const Target& target, const Trial& trial) {
  return trial.target_run ? first_passage(target, *trial.target_run) : std::nullopt;
}

/// When a target was reached is known to an evaluation interval: a uniform error of it, 95 %, as a share of the steps.
double resolution_of(const Target& target, double steps) {
  return 1.96 / std::sqrt(12.0) * static_cast<double>(target.evaluation_interval) / steps;
}

/// No run takes less than nothing, whatever Student's t makes of a few that differ.
Estimate widened(Estimate estimate, double relative_half_width) {
  widen(estimate, relative_half_width);
  if (estimate.low) estimate.low = std::max(0.0, *estimate.low);
  return estimate;
}

}  // namespace

double metric_of(const Target& target, const Evaluation& evaluation) {
  if (!std::isfinite(evaluation.loss)) return std::numeric_limits<double>::quiet_NaN();
  if (target.metric == "error") return evaluation.error.value_or(std::numeric_limits<double>::quiet_NaN());
  return evaluation.loss - target.floor;
}

bool reaches(const Target& target, const Evaluation& evaluation) {
  return metric_of(target, evaluation) <= target.value;
}

std::optional<std::size_t> first_passage(const Target& target, const TargetRun& run) {
  const auto found =
      std::ranges::find_if(run.evaluations, [&](const Evaluation& evaluation) { return reaches(target, evaluation); });
  if (found == run.evaluations.end()) return std::nullopt;
  return static_cast<std::size_t>(found - run.evaluations.begin());
}

void summarise_target(Record& record) {
  record.summary.to_target.reset();
  if (!record.target) return;
  ToTarget& result = record.summary.to_target.emplace();
  const auto missed =
      std::ranges::find_if(record.trials, [&](const Trial& trial) { return !passage_of(*record.target, trial); });
  if (missed != record.trials.end()) {
    result.reason =
        missed->target_run ? why_missed(*record.target, *missed->target_run) : "a trial without evaluations";
    return;
  }
  std::vector<double> seconds, steps, samples;
  for (const Trial* trial : valid_trials(record)) {
    const Evaluation& first = trial->target_run->evaluations[*passage_of(*record.target, *trial)];
    seconds.push_back(first.time_s);
    steps.push_back(static_cast<double>(first.step));
    samples.push_back(static_cast<double>(first.step) * static_cast<double>(record.workload.global_batch));
  }
  if (seconds.empty()) {
    result.reason = record.trials.empty() ? "not run" : "no valid trial";
    return;
  }
  // None is dropped: the slowest may be one that nearly failed.
  const Estimate mean_steps = estimate_of_all(steps);
  const double resolution = resolution_of(*record.target, mean_steps.value);
  result.steps = widened(mean_steps, resolution);
  result.time_s = widened(estimate_of_all(seconds), resolution);
  result.samples = widened(estimate_of_all(samples), resolution);
  for (const auto& [scope, joules] : record.summary.energy_j)
    result.energy_j[scope] = joules ? std::optional(widened(*joules, resolution)) : std::nullopt;
}

void judge_target(Record& record) {
  if (!record.target) return;
  Verdict& verdict = record.verdict;
  const Target& target = *record.target;
  const ToTarget& result = *record.summary.to_target;
  if (!target.reference) verdict.flags.emplace_back("no_reference");
  const auto arrives = [&](const Trial& trial) { return passage_of(target, trial).has_value(); };
  if (!result.steps && !record.trials.empty() && std::ranges::all_of(record.trials, arrives)) return;  // none is valid
  if (!result.steps) {
    verdict.flags.emplace_back("target_missed");
    verdict.reasons.push_back("target_missed: " + result.reason);
    return;
  }
  if (!target.reference) return;
  const double steps = result.steps->value;
  const bool slow = steps > target.reference->steps_high;
  if (!slow && steps >= target.reference->steps_low) return;
  verdict.flags.emplace_back("off_reference");
  verdict.reasons.push_back(
      fmt::format("off_reference: {:.4g} steps to the target, {} than the {:.4g} to {:.4g} of the reference", steps,
                  slow ? "more" : "fewer", target.reference->steps_low, target.reference->steps_high));
}

}  // namespace tw
