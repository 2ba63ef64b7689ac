#include "results/analysis/copied_trials.hpp"

#include <algorithm>
#include <cmath>
#include <map>

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
  std::map<std::vector<double>, std::size_t> seen;
  for (std::size_t t = 0; t < record.trials.size(); ++t) {
    const std::vector<double>& steps = record.trials[t].step_time_s;
    if (free_digits(steps) < enough_digits) continue;
    if (const auto [first, is_new] = seen.try_emplace(steps, t); !is_new) found.emplace_back(first->second, t);
  }
  return found;
}

}  // namespace tw::results
