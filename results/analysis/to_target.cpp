#include "results/analysis/to_target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "results/analysis/scopes.hpp"
#include "results/analysis/trials.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

constexpr double seconds_per_hour = 3600, joules_per_kwh = 3.6e6;

/// Why this trial has no first passage.
std::string why_missed(const Target& target, const TargetRun& run) {
  std::string text = "seed " + std::to_string(run.seed) + " did not reach " + target.metric + " " +
                     fmt::format("{:.4g}", target.value);
  if (run.evaluations.empty()) return text + ": it was never evaluated";
  const Evaluation& last = run.evaluations.back();
  const double metric = metric_of(target, last);
  text += " in " + text::count(last.step, "step");
  return text +
         (std::isfinite(metric) ? " (" + fmt::format("{:.4g}", metric) + " at the end)" : ": its loss is not finite");
}

Estimate widened(Estimate estimate, double relative_half_width) {
  widen(estimate, relative_half_width);
  return of_positive(estimate);
}

/// The widest of the scopes that include what trains and have joules; empty if none has.
Scope cost_scope_of(const Record& record) {
  for (Scope scope : telling_scopes(record))
    if (const auto found = record.summary.energy_j.find(scope); found != record.summary.energy_j.end() && found->second)
      return scope;
  return {};
}

/// Of the time and joules that are in `result` already, so that all trials reached the target; `resolution` as these
/// have it.
void add_cost(const Record& record, double resolution, IntervalRule rule, ToTarget& result) {
  if (!record.prices) {
    result.cost_reason = "no prices were given (--hour-price, --kwh-price)";
    return;
  }
  const JobPrices& prices = *record.prices;
  const Scope scope = prices.kwh_price > 0 ? cost_scope_of(record) : Scope::none;
  if (prices.kwh_price > 0 && scope == Scope::none) {
    result.cost_reason = "no joules that include the part that trains" +
                         (record.summary.energy_reason.empty() ? "" : ": " + record.summary.energy_reason);
    return;
  }
  std::vector<double> costs;
  double sensor = 0;  // the mean share of a cost that the sensor's own uncertainty is
  for (const Trial* trial : valid_trials(record)) {
    const Evaluation& first = *passage_of(record, *trial);
    const double of_joules = scope == Scope::none ? 0 : prices.kwh_price * joules_of(*trial, scope) / joules_per_kwh;
    const double cost = prices.hour_price * first.time_s / seconds_per_hour + of_joules;
    if (of_joules > 0) sensor += uncertainty_of(*trial, scope) / joules_of(*trial, scope) * of_joules / cost;
    costs.push_back(cost);
  }
  Estimate cost = estimate_of_all(costs, rule);
  widen(cost, sensor / static_cast<double>(costs.size()));
  result.cost = widened(cost, resolution);
  if (scope != Scope::none) result.cost_scope = scope;
  result.cost_of_runs = std::move(costs);
}

}  // namespace

double metric_of(const Target& target, const Evaluation& evaluation) {
  if (!std::isfinite(evaluation.loss)) return std::numeric_limits<double>::quiet_NaN();
  if (target.metric == TargetMetric::error) return evaluation.error.value_or(std::numeric_limits<double>::quiet_NaN());
  return evaluation.loss - target.floor;
}

const char* metric_words(TargetMetric metric) {
  return metric == TargetMetric::error ? "held-out error" : "excess loss";
}

std::string progress_words(const Target& target, const Evaluation& evaluation) {
  return fmt::format("step {}, {} {:#.3g} (target {:.4g})", evaluation.step, metric_words(target.metric),
                     metric_of(target, evaluation), target.value);
}

bool reaches(const Target& target, const Evaluation& evaluation) {
  return metric_of(target, evaluation) <= target.value;
}

double passage_uncertainty(const Target& target, double steps) {  // a uniform error of the interval
  return 1.96 / std::sqrt(12.0) * static_cast<double>(target.evaluation_interval) / steps;
}

std::optional<std::size_t> first_passage(const Target& target, const TargetRun& run) {
  const auto found =
      std::ranges::find_if(run.evaluations, [&](const Evaluation& evaluation) { return reaches(target, evaluation); });
  if (found == run.evaluations.end()) return std::nullopt;
  return static_cast<std::size_t>(found - run.evaluations.begin());
}

const Evaluation* passage_of(const Record& record, const Trial& trial) {
  if (!record.target || !trial.target_run) return nullptr;
  const auto place = first_passage(*record.target, *trial.target_run);
  return place ? &trial.target_run->evaluations[*place] : nullptr;
}

void summarise_target(Record& record, IntervalRule rule) {
  record.summary.to_target.reset();
  if (!record.target) return;
  ToTarget& result = record.summary.to_target.emplace();
  const auto missed =
      std::ranges::find_if(record.trials, [&](const Trial& trial) { return passage_of(record, trial) == nullptr; });
  if (missed != record.trials.end()) {
    result.reason =
        missed->target_run ? why_missed(*record.target, *missed->target_run) : "a trial without evaluations";
    result.cost_reason = result.reason;
    return;
  }
  std::vector<double> seconds, steps, samples;
  for (const Trial* trial : valid_trials(record)) {
    const Evaluation& first = *passage_of(record, *trial);
    seconds.push_back(first.time_s);
    steps.push_back(static_cast<double>(first.step));
    samples.push_back(static_cast<double>(first.step) * static_cast<double>(record.workload.global_batch));
  }
  if (seconds.empty()) {
    result.reason = record.trials.empty() ? "not run" : "no valid trial";
    result.cost_reason = result.reason;
    return;
  }
  // None is dropped: the slowest may be one that nearly failed.
  const Estimate mean_steps = estimate_of_all(steps, rule);
  const double resolution = passage_uncertainty(*record.target, mean_steps.value);
  result.steps = widened(mean_steps, resolution);
  result.time_s = widened(estimate_of_all(seconds, rule), resolution);
  result.samples = widened(estimate_of_all(samples, rule), resolution);
  for (const auto& [scope, joules] : record.summary.energy_j)
    result.energy_j[scope] = joules ? std::optional(widened(*joules, resolution)) : std::nullopt;
  add_cost(record, resolution, rule, result);
}

void judge_target(Record& record) {
  if (!record.target) return;
  Verdict& verdict = record.verdict;
  const Target& target = *record.target;
  const ToTarget& result = *record.summary.to_target;
  if (target.extrapolated_from) verdict.flags.emplace_back(Flag::extrapolated);
  if (!target.reference || is_weak(*target.reference)) verdict.flags.emplace_back(Flag::no_reference);
  const auto arrives = [&](const Trial& trial) { return passage_of(record, trial) != nullptr; };
  if (!result.steps && !record.trials.empty() && std::ranges::all_of(record.trials, arrives)) return;  // none is valid
  if (!result.steps) {
    verdict.flags.emplace_back(Flag::target_missed);
    verdict.reasons.push_back("target_missed: " + result.reason);
    return;
  }
  if (!target.reference) return;
  const double steps = result.steps->value;
  const bool slow = steps > target.reference->steps_high;
  if (!slow && steps >= target.reference->steps_low) return;
  verdict.flags.emplace_back(Flag::off_reference);
  verdict.reasons.push_back(
      fmt::format("off_reference: {:.4g} steps to the target, {} than the {:.4g} to {:.4g} of the reference", steps,
                  slow ? "more" : "fewer", target.reference->steps_low, target.reference->steps_high));
}

bool is_weak(const ConvergenceReference& reference) { return reference.steps_low < reference.steps_mean / 2; }

std::string reference_words(const Target& target) {
  if (!target.reference) return "absent: " + target.reference_reason;
  const ConvergenceReference& r = *target.reference;
  return fmt::format("{:.4g} steps, {:.4g} to {:.4g} allowed; {} of {}{}", r.steps_mean, r.steps_low, r.steps_high,
                     text::count(r.seeds, "seed"), r.source,
                     is_weak(r) ? ": too weak to decide, since half of its steps would pass" : "");
}

std::string extrapolation_words(const Record& record) {
  if (!record.target || !record.target->extrapolated_from) return {};
  return "steps extrapolated from " + *record.target->extrapolated_from + ", not trained before";
}

}  // namespace tw::results
