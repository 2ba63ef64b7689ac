#include "results/analysis/trials.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>

namespace tw::results {
namespace {

constexpr double held_back_share = 0.01;
constexpr std::string_view thermal[] = {"throttle_thermal_s", "throttle_brake_s"};

}  // namespace

bool has_window(const Trial& trial) { return trial.window_s > 0 && std::isfinite(trial.window_s); }

bool has_steps(const Trial& trial) {
  return !trial.step_time_s.empty() &&
         std::ranges::all_of(trial.step_time_s, [](double t) { return std::isfinite(t) && t > 0; });
}

bool has_finite_losses(const Trial& trial) {
  return std::ranges::all_of(trial.loss, [](double loss) { return std::isfinite(loss); });
}

bool holds_back(const Trial& trial, const CounterRow& counter) {
  return std::ranges::find(thermal, counter.quantity) != std::end(thermal) && trial.window_s > 0 &&
         counter.change / trial.window_s > held_back_share;
}

bool lost_a_set_point(const Trial& trial) {
  return trial.setting_changes && std::ranges::any_of(*trial.setting_changes, [](const SettingChange& change) {
           return change.requested && change.found;
         });
}

bool is_valid(const Trial& trial) {
  const auto hot = [&](const CounterRow& counter) { return holds_back(trial, counter); };
  return has_window(trial) && has_steps(trial) && has_finite_losses(trial) && !lost_a_set_point(trial) &&
         std::ranges::none_of(trial.counters, hot);
}

std::vector<const Trial*> valid_trials(const Record& record) {
  std::vector<const Trial*> trials;
  if (record.verdict.status == Status::unsupported || record.verdict.status == Status::failed) return trials;
  for (const Trial& trial : record.trials)
    if (is_valid(trial)) trials.push_back(&trial);
  return trials;
}

double samples_of(const Record& record, const Trial& trial) {
  if (is_command(record)) return trial.samples.value_or(std::numeric_limits<double>::quiet_NaN());
  return static_cast<double>(record.workload.global_batch) * static_cast<double>(trial.step_time_s.size());
}

double throughput_of(const Record& record, const Trial& trial) {
  const double evaluations = trial.target_run ? trial.target_run->evaluation_s : 0;
  const double trained = trial.samples_s.value_or(trial.window_s - evaluations);
  return trained > 0 ? samples_of(record, trial) / trained : std::numeric_limits<double>::quiet_NaN();
}

double joules_of(const Trial& trial, Scope scope) {
  double sum = 0;
  for (const EnergyRow& row : trial.energy)
    if (row.scope == scope && row.counted) sum += row.energy_j.value_or(std::numeric_limits<double>::quiet_NaN());
  return sum;
}

double uncertainty_of(const Trial& trial, Scope scope) {
  double sum = 0;
  for (const EnergyRow& row : trial.energy)
    if (row.scope == scope && row.counted) sum += row.uncertainty_j.value_or(0);
  return sum;
}

std::vector<std::pair<std::string, double>> mean_phases(const Record& record) {
  std::map<std::string, double> seconds;
  double steps = 0;
  for (const Trial* trial : valid_trials(record)) {  // as the step time beside it
    const double n = static_cast<double>(trial->step_time_s.size());
    for (const auto& [phase, mean] : trial->phase_s) seconds[phase] += mean * n;
    steps += n;
  }
  if (seconds.empty() || !(steps > 0) || !record.summary.step_time_s) return {};
  double rest = record.summary.step_time_s->value;
  std::vector<std::pair<std::string, double>> ordered;
  for (const char* known : {"data", "forward", "backward", "communication", "optimizer"})  // as they happen
    if (const auto found = seconds.find(known); found != seconds.end()) {
      ordered.emplace_back(known, found->second / steps);
      seconds.erase(found);
    }
  for (const auto& [phase, total] : seconds) ordered.emplace_back(phase, total / steps);
  for (const auto& [phase, mean] : ordered) rest -= mean;
  ordered.emplace_back("rest", std::max(0.0, rest));
  return ordered;
}

}  // namespace tw::results
