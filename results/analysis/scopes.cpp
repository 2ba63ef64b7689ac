#include "results/analysis/scopes.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace tw::results {
namespace {

bool is_above_zero(const Estimate& e) { return e.value > 0 && std::isfinite(e.value); }

}  // namespace

std::vector<Scope> telling_scopes(const std::string& device, const std::vector<std::string>& settings) {
  std::set<Scope> drawn;
  const std::optional<DeviceKind> kind = named<DeviceKind>(device);
  if (kind == DeviceKind::cuda) drawn.insert(Scope::device);
  if (kind == DeviceKind::cpu || kind == DeviceKind::reference) drawn.insert(Scope::package);
  for (const std::string& name : settings) drawn.insert(name.starts_with("gpu_") ? Scope::device : Scope::package);
  if (drawn.empty()) return {training_scopes.begin(), training_scopes.end()};
  if (drawn.size() > 1) return {Scope::node};
  return {Scope::node, *drawn.begin()};
}

std::vector<Scope> telling_scopes(const Record& record) {
  std::vector<std::string> settings;
  for (const auto& [name, setting] : record.setting)
    if (setting.requested) settings.push_back(name);
  return telling_scopes(record.workload.device, settings);
}

std::vector<Scope> telling_scopes(const std::vector<const Record*>& records) {
  std::vector<Scope> common(training_scopes.begin(), training_scopes.end());
  for (const Record* record : records) {
    const std::vector<Scope> of_one = telling_scopes(*record);
    std::erase_if(common, [&](Scope scope) { return std::ranges::find(of_one, scope) == of_one.end(); });
  }
  return common;
}

Estimate inverse(const Estimate& e) {
  const auto of = [](const std::optional<double>& v) { return v && *v > 0 ? std::optional(1 / *v) : std::nullopt; };
  return {1 / e.value, of(e.high), of(e.low), e.statistic, e.count};
}

Estimate joules_per_sample(const Estimate& samples_per_joule) {
  Estimate joules = inverse(samples_per_joule);
  if (!joules.low || !joules.high) joules.low.reset(), joules.high.reset();
  return joules;
}

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
