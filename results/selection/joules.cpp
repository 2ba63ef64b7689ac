#include "results/selection/joules.hpp"

#include <cmath>

namespace tw::results {

Estimate joules_per_sample(const Estimate& samples_per_joule) {
  Estimate joules = samples_per_joule;
  const auto inverse = [](const std::optional<double>& v) {
    return v && *v > 0 ? std::optional(1 / *v) : std::nullopt;
  };
  joules.value = 1 / samples_per_joule.value;
  joules.low = inverse(samples_per_joule.high), joules.high = inverse(samples_per_joule.low);
  if (!joules.low || !joules.high) joules.low.reset(), joules.high.reset();
  return joules;
}

namespace {
bool is_above_zero(const Estimate& e) { return e.value > 0 && std::isfinite(e.value); }
}  // namespace

std::optional<Estimate> sample_joules(const Record& record, Scope scope) {
  const auto found = record.summary.samples_per_j.find(scope);
  if (found == record.summary.samples_per_j.end() || !found->second) return std::nullopt;
  const Estimate joules = joules_per_sample(*found->second);
  return is_above_zero(joules) ? std::optional(joules) : std::nullopt;
}

std::optional<Estimate> target_joules(const Record& record, Scope scope) {
  if (!record.summary.to_target) return std::nullopt;
  const auto found = record.summary.to_target->energy_j.find(scope);
  if (found == record.summary.to_target->energy_j.end() || !found->second || !is_above_zero(*found->second))
    return std::nullopt;
  return found->second;
}

}  // namespace tw::results
