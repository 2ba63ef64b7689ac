#include "results/analysis/copied_trials.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "results/analysis/statistics.hpp"

namespace tw::results {
namespace {

/// As copied_trials() has them: 0 where chance might well repeat the steps.
double free_digits(const std::vector<double>& seconds) {
  if (seconds.empty() || !std::ranges::all_of(seconds, [](double s) { return std::isfinite(s); })) return 0;
  const double range = quantile(seconds, 0.75) - quantile(seconds, 0.25);
  std::map<double, int> times;
  for (const double s : seconds) ++times[s];
  const auto alone = std::ranges::count_if(times, [](const auto& one) { return one.second == 1; });
  return static_cast<double>(alone) * std::log10(std::max(1.0, range / tick_of(seconds)));
}

/// Each phase as a share of all; empty if chance might well repeat them.
std::vector<double> phase_shares(const Trial& trial) {
  constexpr std::size_t fewest = 4;
  constexpr double coarsest = 1e-5, digits = 1e9;
  std::vector<double> phases;
  double sum = 0;
  for (const auto& [name, seconds] : trial.phase_s)
    if (seconds > 0 && std::isfinite(seconds)) phases.push_back(seconds), sum += seconds;
  if (phases.size() < fewest || tick_of(phases) > coarsest * std::ranges::min(phases)) return {};
  for (double& phase : phases) phase = std::round(phase / sum * digits);
  return phases;
}

/// A training goes on from trial to trial: its first four values, where they are not all one; else empty.
std::vector<double> course_of(const std::vector<double>& values) {
  constexpr std::ptrdiff_t enough = 4;
  if (std::ssize(values) < enough) return {};
  std::vector<double> first(values.begin(), values.begin() + enough);
  const bool is_one = std::ranges::all_of(first, [&](double v) { return v == first[0]; });
  const bool is_finite = std::ranges::all_of(first, [](double v) { return std::isfinite(v); });
  return is_one || !is_finite ? std::vector<double>() : first;
}

}  // namespace

double tick_of(const std::vector<double>& values) {
  constexpr double finest = 1e-12, rounding = 1e-3;  // of a tick: sums of ticks are not exact
  for (double tick = 1; tick > finest * 1.5; tick /= 10)
    if (std::ranges::all_of(values, [&](double v) { return std::abs(v / tick - std::round(v / tick)) < rounding; }))
      return tick;
  return finest;
}

std::vector<std::pair<std::size_t, std::size_t>> copied_trials(const Record& record) {
  constexpr double enough_digits = 12;
  std::vector<std::pair<std::size_t, std::size_t>> found;
  using Seen = std::map<std::vector<double>, std::size_t>;
  Seen steps, phases, losses, norms;
  for (std::size_t t = 0; t < record.trials.size(); ++t) {
    const Trial& trial = record.trials[t];
    std::optional<std::size_t> first;
    const auto look = [&](Seen& seen, const std::vector<double>& values) {
      if (const auto [known, is_new] = seen.try_emplace(values, t); !is_new && !first) first = known->second;
    };
    if (free_digits(trial.step_time_s) >= enough_digits) look(steps, trial.step_time_s);
    if (const std::vector<double> shares = phase_shares(trial); !shares.empty()) look(phases, shares);
    if (const std::vector<double> first_losses = course_of(trial.loss); !record.target && !first_losses.empty())
      look(losses, first_losses);
    if (const std::vector<double> first_norms = course_of(trial.gradient_norm); !record.target && !first_norms.empty())
      look(norms, first_norms);
    if (first) found.emplace_back(*first, t);
  }
  return found;
}

}  // namespace tw::results
