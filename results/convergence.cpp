#include "results/convergence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <vector>

namespace tw {
namespace {

using Json = nlohmann::json;

/// Steps to the first evaluation at or under the target.
std::optional<double> passage_of(const Json& curve, const Target& target) {
  for (std::size_t i = 0; i < curve.size(); ++i)
    if (curve[i].get<double>() <= target.value)
      return static_cast<double>(i + 1) * static_cast<double>(target.evaluation_interval);
  return std::nullopt;
}

/// What the run does otherwise than the reference did; empty: nothing.
std::string difference(const Json& reference, const Target& target, const Workload& workload) {
  const Json found = {{"model", workload.model},
                      {"seq_len", workload.seq_len.value_or(0)},
                      {"global_batch", workload.global_batch},
                      {"metric", target.metric},
                      {"held_out_samples", target.held_out_samples},
                      {"evaluation_interval", target.evaluation_interval}};
  for (const auto& [key, value] : found.items())
    if (reference[key] != value)
      return "the reference has " + key + " " + reference[key].dump() + ", not " + value.dump();
  return workload.layers ? "the reference has all layers" : "";
}

}  // namespace

void find_reference(Target& target, const Workload& workload) {
  target.reference.reset();
  const std::string text = convergence_json(target.task);
  const Json reference = text.empty() ? Json() : Json::parse(text);
  target.reference_reason = text.empty() ? "no reference for this task" : difference(reference, target, workload);
  if (!target.reference_reason.empty()) return;
  const Json* run = nullptr;
  std::string sizes;
  for (const Json& one : reference["runs"]) {
    if (one["micro_batch"].is_null() || one["micro_batch"] == workload.micro_batch) run = &one;
    sizes += (sizes.empty() ? "" : ", ") + one["micro_batch"].dump();
  }
  if (run == nullptr) {
    target.reference_reason = "batch norm sees the micro-batch: the reference has it at " + sizes + ", not " +
                              std::to_string(workload.micro_batch);
    return;
  }
  std::vector<double> steps;
  for (const Json& curve : (*run)["curves"]) {
    const std::optional<double> passage = passage_of(curve, target);
    if (!passage) {
      target.reference_reason = fmt::format("a seed of the reference did not reach {:.4g}", target.value);
      return;
    }
    steps.push_back(*passage);
  }
  const auto n = static_cast<double>(steps.size());
  const double mean = std::accumulate(steps.begin(), steps.end(), 0.0) / n;
  double squares = 0;
  for (const double value : steps) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (n - 1));
  const double half = std::max(band_deviations * deviation, band_share * mean);
  target.reference = ConvergenceReference{reference["framework"].get<std::string>(),
                                          static_cast<int>(steps.size()),
                                          mean,
                                          deviation,
                                          std::max(0.0, mean - half),
                                          mean + half};
}

}  // namespace tw
