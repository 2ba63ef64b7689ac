#include "results/analysis/convergence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <vector>

#include "results/record/text.hpp"

namespace tw::results {
namespace {

using Json = nlohmann::json;

/// Student's t, two-sided 99.5 % (quantile 0.9975), for 1 … 30 degrees of freedom; for more the last is a little wide.
constexpr std::array<double, 30> student_t_9975 = {
    127.321336, 14.089047, 7.453319, 5.597568, 4.773341, 4.316827, 4.029337, 3.832519, 3.689662, 3.581406,
    3.496614,   3.428444,  3.372468, 3.325696, 3.286039, 3.251993, 3.222450, 3.196574, 3.173725, 3.153401,
    3.135206,   3.118824,  3.103997, 3.090514, 3.078199, 3.066909, 3.056520, 3.046929, 3.038047, 3.029798};

/// Steps to the first evaluation at or under the target.
std::optional<double> passage_of(const Json& curve, const Target& target) {
  for (std::size_t i = 0; i < curve.size(); ++i)
    if (curve[i].get<double>() <= target.value)
      return static_cast<double>(i + 1) * static_cast<double>(target.evaluation_interval);
  return std::nullopt;
}

/// What the run does otherwise than the reference did; empty: nothing.
std::string difference(const Json& reference, const Target& target, const Workload& workload) {
  if (workload.layers) return "the reference has all layers";
  if (workload.table_rows_at_most) return "the reference has all rows of its tables";
  const Schedule& schedule = target.schedule;
  const Json found = {{"model", workload.model},
                      {"parameters", workload.parameters},
                      {"seq_len", workload.seq_len.value_or(0)},
                      {"drawn_tokens", target.drawn_tokens ? Json(*target.drawn_tokens) : Json()},
                      {"global_batch", workload.global_batch},
                      {"metric", to_string(target.metric)},
                      {"held_out_samples", target.held_out_samples},
                      {"evaluation_interval", target.evaluation_interval},
                      {"optimizer",
                       {{"kind", workload.optimizer},
                        {"learning_rate", schedule.learning_rate},
                        {"final_share", schedule.final_share},
                        {"warmup_steps", schedule.warmup_steps},
                        {"decay_steps", schedule.decay_steps}}}};
  for (const auto& [key, value] : found.items())
    if (const Json its = reference.value(key, Json()); its != value)
      return "the reference has " + key + " " + its.dump() + ", not " + value.dump();
  return {};
}

std::string band(const ConvergenceReference& r) {
  return fmt::format("{:.4g} to {:.4g} steps ({}, {})", r.steps_low, r.steps_high, r.source,
                     text::count(r.seeds, "seed"));
}

/// Text rounding and the compiler's order of operations, nothing more.
bool is_same(const ConvergenceReference& a, const ConvergenceReference& b) {
  const auto close = [](double x, double y) { return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y)); };
  return a.source == b.source && a.seeds == b.seeds && close(a.steps_mean, b.steps_mean) &&
         close(a.steps_sd, b.steps_sd) && close(a.steps_low, b.steps_low) && close(a.steps_high, b.steps_high);
}

}  // namespace

ReferenceFinding check_reference(const Record& record) {
  return record.target ? check_reference(record, convergence_json(record.target->task)) : ReferenceFinding();
}

ReferenceFinding check_reference(const Record& record, const std::string& curves) {
  if (!record.target || record.trials.empty()) return {};
  const std::optional<ConvergenceReference>& its = record.target->reference;
  Target own = *record.target;
  find_reference(own, record.workload, static_cast<int>(record.trials.size()), curves);
  if (!own.reference && !its) return {};
  if (!own.reference)
    return {"", fmt::format("is {}, which was not checked: this version has none for it: {}", band(*its),
                            own.reference_reason)};
  if (its && is_same(*its, *own.reference)) return {};
  const auto& reached = record.summary.to_target;
  const std::optional<Estimate> steps = reached ? reached->steps : std::nullopt;  // none: the target was missed
  const bool is_off = steps && (steps->value < own.reference->steps_low || steps->value > own.reference->steps_high);
  std::string found = fmt::format("is {}, that of this version is {}", its ? band(*its) : "null", band(*own.reference));
  if (steps)
    found += fmt::format(": the {:.4g} steps of these runs lie {} it", steps->value, is_off ? "outside" : "within");
  return its || is_off ? ReferenceFinding{found, ""} : ReferenceFinding{"", found};
}

void find_reference(Target& target, const Workload& workload, int runs) {
  find_reference(target, workload, runs, convergence_json(target.task));
}

void find_reference(Target& target, const Workload& workload, int runs, const std::string& curves) {
  target.reference.reset();
  const Json reference = curves.empty() ? Json() : Json::parse(curves);
  target.reference_reason = curves.empty() ? "no reference for this task" : difference(reference, target, workload);
  if (!target.reference_reason.empty()) return;
  const Json* run = nullptr;
  std::string sizes;
  for (const Json& one : reference.at("runs")) {
    const Json& micro_batch = one.at("micro_batch");
    if (micro_batch.is_null() || micro_batch == workload.micro_batch) run = &one;
    sizes += (sizes.empty() ? "" : ", ") + micro_batch.dump();
  }
  if (run == nullptr) {
    target.reference_reason =
        fmt::format("batch norm sees the micro-batch: the reference has it at {}, not {}", sizes, workload.micro_batch);
    return;
  }
  std::vector<double> steps;
  const Json& all = run->at("curves");
  for (const Json& curve : all)
    if (const std::optional<double> passage = passage_of(curve, target)) steps.push_back(*passage);
  if (steps.size() < all.size() || steps.size() < 2) {
    target.reference_reason =
        steps.size() < all.size()
            ? fmt::format("{} of the reference's {} curves end over {:.4g}: it was trained to {:.4g}",
                          all.size() - steps.size(), all.size(), target.value, reference.value("target", 0.0))
            : "the reference has too few seeds to know how much they scatter";
    return;
  }
  const auto n = static_cast<double>(steps.size());
  const double mean = std::accumulate(steps.begin(), steps.end(), 0.0) / n;
  double squares = 0;
  for (const double value : steps) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (n - 1));
  const double t = student_t_9975[std::min(steps.size() - 1, student_t_9975.size()) - 1];
  const double half =
      std::max(t * deviation * std::sqrt(1 / n + 1.0 / runs), static_cast<double>(target.evaluation_interval));
  target.reference = ConvergenceReference{reference.value("framework", "unknown"),
                                          static_cast<int>(steps.size()),
                                          mean,
                                          deviation,
                                          std::max(0.0, mean - half),
                                          mean + half};
}

}  // namespace tw::results
