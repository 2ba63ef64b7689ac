#include "results/analysis/fingerprint.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "results/analysis/copied_trials.hpp"
#include "results/analysis/statistics.hpp"

namespace tw::results {
namespace {

constexpr double enough_digits = 12;
constexpr double least_digits = 1;  ///< of one value

/// The logarithms of values that are all positive and finite; else empty.
std::vector<double> logs_of(std::span<const double> values) {
  std::vector<double> logs;
  for (const double value : values) {
    if (!(value > 0) || !std::isfinite(value)) return {};
    logs.push_back(std::log(value));
  }
  return logs;
}

double range_of(const std::vector<double>& values) { return quantile(values, 0.75) - quantile(values, 0.25); }

/// By how much values differ from those shortly before them, whichever distance shows least.
double noise_of(const std::vector<double>& logs) {
  constexpr std::size_t longest_period = 8;
  double noise = HUGE_VAL;
  for (std::size_t lag = 1; lag <= longest_period && 2 * lag < logs.size(); ++lag) {
    std::vector<double> changes;
    for (std::size_t i = lag; i < logs.size(); ++i) changes.push_back(logs[i] - logs[i - lag]);
    noise = std::min(noise, range_of(changes) / std::sqrt(2));
  }
  return std::isfinite(noise) ? noise : 0;
}

}  // namespace

Fingerprint::Line Fingerprint::line_of(const std::vector<double>& values) {
  constexpr std::size_t looked_at = 2000;
  const std::vector<double> first(values.begin(),
                                  values.begin() + static_cast<std::ptrdiff_t>(std::min(values.size(), looked_at)));
  Line line{logs_of(values), 0, 0};
  if (line.logs.empty()) return line;
  line.noise = noise_of({line.logs.begin(), line.logs.begin() + std::ssize(first)});
  line.tick = tick_of(first) / quantile(first, 0.5);
  return line;
}

void Fingerprint::add(Lines& lines, const std::vector<double>& values) {
  constexpr std::size_t fewest = 8;
  if (values.size() < fewest) return;
  if (Line line = line_of(values); !line.logs.empty()) lines.push_back(std::move(line));
}

Fingerprint::Fingerprint(const Record& record) {
  std::vector<double> all;
  for (const Trial& trial : record.trials) {
    add(steps_, trial.step_time_s);
    all.insert(all.end(), trial.step_time_s.begin(), trial.step_time_s.end());
    for (const SeriesRow& series : trial.series)
      if (series.quantity == "power_w") add(power_, series.mean);
    for (const EnergyRow& row : trial.energy)
      if (row.energy_j) totals_[row.domain].push_back(*row.energy_j);
    for (const auto& [phase, seconds] : trial.phase_s) totals_["phase " + phase].push_back(seconds);
  }
  if (record.trials.size() > 1) add(all_steps_, all);
}

std::optional<double> Fingerprint::ratio_of(const Line& a, const Line& b) {
  constexpr double finest = 1e-6, share_of_noise = 0.01, odd_share = 0.05;
  constexpr std::size_t at_first = 15;
  const std::size_t count = std::min(a.logs.size(), b.logs.size());
  const double noise = std::min(a.noise, b.noise);
  const double near = std::max({finest, share_of_noise * noise, a.tick, b.tick});
  const double digits = std::log10(noise / near);
  if (!(digits >= least_digits) || digits * (static_cast<double>(count) - 2) < enough_digits) return std::nullopt;
  std::vector<double> first;
  for (std::size_t i = 0; i < std::min(count, at_first); ++i) first.push_back(a.logs[i] - b.logs[i]);
  const double ratio = quantile(first, 0.5);
  double odd = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (std::abs(a.logs[i] - b.logs[i] - ratio) > 2 * near && ++odd > odd_share * static_cast<double>(count))
      return std::nullopt;
  return ratio;
}

bool Fingerprint::repeats_itself(const Lines& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (ratio_of(lines[i], lines[j])) return true;
  return false;
}

bool Fingerprint::have_common(const Lines& a, const Lines& b) {
  constexpr double near_one = 2e-3;
  for (const Line& one : a)
    for (const Line& other : b)
      if (const std::optional<double> ratio = ratio_of(one, other);
          ratio && (std::abs(*ratio) < near_one || !repeats_itself(a) || !repeats_itself(b)))
        return true;
  return false;
}

std::string Fingerprint::same_as(const Fingerprint& other) const {
  if (have_common(steps_, other.steps_) || have_common(all_steps_, other.all_steps_))
    return "their step times are in one ratio, step by step";
  if (have_common(power_, other.power_)) return "their power samples are in one ratio, sample by sample";
  constexpr double near = 2e-6;
  double digits = 0;
  for (const auto& [name, values] : totals_) {
    const auto found = other.totals_.find(name);
    if (found == other.totals_.end() || found->second.size() != values.size()) continue;
    const std::vector<double> mine = logs_of(values), its = logs_of(found->second);
    if (mine.empty() || its.empty()) continue;
    const double tick = tick_of(values) / quantile(values, 0.5);
    const double each = std::log10(range_of(mine) / std::max(near, tick));
    const bool equal = std::ranges::equal(mine, its, [](double a, double b) { return std::abs(a - b) <= near; });
    if (equal && each >= least_digits) digits += each * static_cast<double>(values.size());
  }
  return digits < enough_digits ? "" : "their joules and phases are equal to six digits";
}

}  // namespace tw::results
