#include "results/selection/joules.hpp"

#include <cmath>

namespace tw::results {

Estimate inverse(const Estimate& e) {
  const auto of = [](const std::optional<double>& v) { return v && *v > 0 ? std::optional(1 / *v) : std::nullopt; };
  return {1 / e.value, of(e.high), of(e.low), e.statistic, e.count};
}

Estimate joules_per_sample(const Estimate& samples_per_joule) {
  Estimate joules = inverse(samples_per_joule);
  if (!joules.low || !joules.high) joules.low.reset(), joules.high.reset();
  return joules;
}

namespace {
bool is_above_zero(const Estimate& e) { return e.value > 0 && std::isfinite(e.value); }
}  // namespace

std::optional<Estimate> sample_joules(const Record& record, Scope scope) {
  const auto per_joule = of_scope(record.summary.samples_per_j, scope);
  if (!per_joule) return std::nullopt;
  const Estimate joules = joules_per_sample(*per_joule);
  return is_above_zero(joules) ? std::optional(joules) : std::nullopt;
}

std::optional<Estimate> target_joules(const Record& record, Scope scope) {
  if (!record.summary.to_target) return std::nullopt;
  const auto joules = of_scope(record.summary.to_target->energy_j, scope);
  return joules && is_above_zero(*joules) ? joules : std::nullopt;
}

}  // namespace tw::results
