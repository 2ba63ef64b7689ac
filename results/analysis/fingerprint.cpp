#include "results/analysis/fingerprint.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <span>

#include "results/analysis/statistics.hpp"
#include "results/record/report_io.hpp"

namespace tw::results {
namespace {

constexpr double enough_digits = 12;
constexpr double agreeing_share = 0.95;
constexpr double finest = 1e-6, share_of_noise = 0.01;   ///< what is near: relative, and of a line's noise
constexpr double equal_within = 2e-6, least_digits = 1;  ///< of joules and phases
constexpr std::size_t most_lines = 16, most_values = 1024, most_totals = 64, fewest_values = 20, fewest_totals = 4;

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

/// At most so many, spread evenly.
template <class T>
std::vector<T> spread(const std::vector<T>& all, std::size_t most) {
  if (all.size() <= most) return all;
  std::vector<T> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(all[i * all.size() / most]);
  return some;
}

/// The changes between values that are `lag` apart.
std::vector<double> changes_of(const std::vector<double>& logs, std::size_t lag) {
  std::vector<double> changes;
  for (std::size_t i = lag; i < logs.size(); ++i) changes.push_back(logs[i] - logs[i - lag]);
  return changes;
}

/// What is left of a line without its trend.
struct Rest {
  std::vector<double> values;
  double spread = 1;  ///< its deviation where that of each value is 1 and they are independent
};
/// The changes over each distance of up to 8 values, the changes of these, and of those in turn, as long as half of the
/// line is left: no smooth trend is in the last.
std::vector<Rest> rests_of(const std::vector<double>& logs) {
  constexpr std::size_t longest_period = 8, fewest_periods = 5;
  constexpr double spreads[] = {std::numbers::sqrt2, 2.449489742783178, 4.47213595499958};  // of 1, 2 and 3 changes
  std::vector<Rest> rests;
  for (std::size_t lag = 1; lag <= std::min(longest_period, logs.size() / fewest_periods); ++lag) {
    std::vector<double> values = logs;
    for (std::size_t order = 1; order <= std::size(spreads) && 2 * order * lag <= logs.size(); ++order)
      rests.push_back({values = changes_of(values, lag), spreads[order - 1]});
  }
  return rests;
}

/// By how much values differ from those shortly before them, whichever way of looking at them shows least.
double noise_of(const std::vector<Rest>& rests) {
  double noise = HUGE_VAL;
  for (const Rest& rest : rests) noise = std::min(noise, range_of(rest.values) / rest.spread);
  return std::isfinite(noise) ? noise : 0;
}

/// Of all pairs of values.
std::size_t pairs_within(std::vector<double> values, double distance) {
  std::ranges::sort(values);
  std::size_t pairs = 0;
  for (std::size_t first = 0, i = 0; i < values.size(); ++i) {
    while (values[i] - values[first] > distance) ++first;
    pairs += i - first;
  }
  return pairs;
}

std::size_t pairs_of(const std::vector<double>& values) { return values.size() * (values.size() - 1) / 2; }

/// How often a value agrees with another of its line, whichever way of looking at them shows most: any two as they are;
/// those a few apart, less the usual change between them; or what is left of them without their trend.
double chance_of(const std::vector<double>& logs, const std::vector<Rest>& rests, double near) {
  double chance =
      static_cast<double>(pairs_within(logs, 2 * near) + 1) / static_cast<double>(pairs_of(logs) + 1);  // never 0
  for (const Rest& rest : rests) {
    const double usual = rest.spread == std::numbers::sqrt2 ? quantile(rest.values, 0.5) : 0;
    const double within = 2 * near * rest.spread / std::numbers::sqrt2;
    const auto agree = std::ranges::count_if(rest.values, [&](double v) { return std::abs(v - usual) <= within; });
    chance = std::max(chance, static_cast<double>(agree) / static_cast<double>(rest.values.size()));
  }
  return chance;
}

/// Of many values: how unlikely it is that the agreeing_share of them agrees, where each does by this chance, is 10 to
/// the minus this for each of them (Chernoff's bound).
double digits_of(double chance) {
  if (chance >= agreeing_share) return 0;
  return agreeing_share * std::log10(agreeing_share / chance) +
         (1 - agreeing_share) * std::log10((1 - agreeing_share) / (1 - chance));
}

/// The logarithm of the ratio of two lines, of which one value at least is in it: the median of some, from all along.
double ratio_of(std::span<const double> a, std::span<const double> b) {
  constexpr std::size_t looked_at = 15;
  const std::size_t count = std::min(a.size(), b.size()), some = std::min(count, looked_at);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < some; ++i) ratios.push_back(a[i * count / some] - b[i * count / some]);
  std::ranges::nth_element(ratios, ratios.begin() + std::ssize(ratios) / 2);
  return ratios[some / 2];
}

/// How often values of one trial agree with those of another of the same record, which are brought to one ratio; 1
/// where three of four do, in all pairs of trials or in one of two long ones. One value of a pair always agrees.
double chance_of_trials(const std::vector<std::span<const double>>& trials, double near) {
  constexpr double repeating_share = 0.75;
  constexpr std::size_t fewest = 3;
  std::size_t agree = 0, all = 0;
  for (std::size_t i = 0; i < trials.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const std::span<const double> a = trials[i], b = trials[j];
      const std::size_t count = std::min(a.size(), b.size());
      if (count < fewest) continue;
      const double ratio = ratio_of(a, b);
      std::size_t here = 0;
      for (std::size_t k = 0; k < count; ++k) here += std::abs(a[k] - b[k] - ratio) <= 2 * near ? 1 : 0;
      agree += here - 1, all += count - 1;
      if (count >= fewest_values && static_cast<double>(here) >= repeating_share * static_cast<double>(count)) return 1;
    }
  const double share = all == 0 ? 0 : static_cast<double>(agree) / static_cast<double>(all);
  return share >= repeating_share ? 1 : share;
}

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

std::string digest_of(const Record& record) {
  std::vector<std::string> trials;
  for (const Trial& trial : record.trials) {
    std::string bytes;
    const auto add = [&](double seconds) { bytes.append(reinterpret_cast<const char*>(&seconds), sizeof seconds); };
    add(trial.window_s);
    std::ranges::for_each(trial.step_time_s, add);
    trials.push_back(sha256_hex(bytes));
  }
  std::ranges::sort(trials);
  std::string all;
  for (const std::string& one : trials) all += one;
  return sha256_hex(all);
}

void Fingerprint::add(Lines& lines, const std::vector<double>& values) {
  if (values.size() < fewest_values) return;
  std::vector<double> first(std::min(values.size(), most_values));
  std::copy_n(values.begin(), first.size(), first.begin());
  Line line;
  line.logs = logs_of(first);
  if (line.logs.empty()) return;
  const std::vector<Rest> rests = rests_of(line.logs);
  line.noise = noise_of(rests);
  line.tick = tick_of(first) / quantile(first, 0.5);
  line.near = std::max({finest, share_of_noise * line.noise, line.tick});
  line.chance = chance_of(line.logs, rests, line.near);
  lines.push_back(std::move(line));
}

void Fingerprint::add_steps(const std::vector<Trial>& trials) {
  std::vector<const std::vector<double>*> any, long_ones;
  for (const Trial& trial : trials) {
    any.push_back(&trial.step_time_s);
    if (trial.step_time_s.size() >= fewest_values) long_ones.push_back(&trial.step_time_s);
  }
  for (const std::vector<double>* steps : spread(long_ones, most_lines)) add(steps_, *steps);
  std::vector<double> all;
  for (std::size_t t = 0; t < any.size() && all.size() < most_values; ++t)
    all.insert(all.end(), any[t]->begin(),
               any[t]->begin() + std::min(std::ssize(*any[t]), std::ptrdiff_t{most_values}));
  if (any.size() > 1) add(all_steps_, all);

  std::vector<std::vector<double>> logs;
  for (const std::vector<double>* steps : spread(any, most_lines))
    logs.push_back(logs_of(std::span(*steps).first(std::min(steps->size(), most_values))));
  double near = 0;
  for (const Lines* lines : {&all_steps_, &steps_})
    for (const Line& line : *lines) near = std::max(near, line.near);
  const double of_trials = chance_of_trials({logs.begin(), logs.end()}, near);
  for (Lines* lines : {&all_steps_, &steps_})
    for (Line& line : *lines) line.chance_of_trials = of_trials;
}

void Fingerprint::add_power(const std::vector<Trial>& trials) {
  std::map<std::pair<std::string, std::string>, std::vector<const std::vector<double>*>> found;
  for (const Trial& trial : trials)
    for (const SeriesRow& series : trial.series)
      if (series.is(Quantity::power) && series.mean.size() >= fewest_values)
        found[{series.host, series.domain}].push_back(&series.mean);
  std::vector<std::vector<const std::vector<double>*>> sensors;
  for (auto& [name, series] : found) sensors.push_back(std::move(series));
  // Of two trials of each sensor at least, since one does not show whether it repeats itself.
  const std::size_t of_each = std::max<std::size_t>(2, most_lines / std::max<std::size_t>(1, sensors.size()));
  for (const auto& series : spread(sensors, most_lines / of_each)) {
    Lines lines;
    for (const std::vector<double>* samples : spread(series, of_each)) add(lines, *samples);
    std::vector<std::span<const double>> logs;
    double near = 0;
    for (const Line& line : lines) logs.emplace_back(line.logs), near = std::max(near, line.near);
    const double of_trials = chance_of_trials(logs, near);
    for (Line& line : lines) line.chance_of_trials = of_trials, power_.push_back(std::move(line));
  }
}

void Fingerprint::add_totals(const std::vector<Trial>& trials) {
  std::vector<const Trial*> all;
  for (const Trial& trial : trials) all.push_back(&trial);
  std::map<std::string, std::vector<double>> found;
  for (const Trial* trial : spread(all, most_totals)) {
    for (const EnergyRow& row : trial->energy)
      if (row.energy_j) found[row.domain].push_back(*row.energy_j);
    for (const auto& [phase, seconds] : trial->phase_s) found["phase " + phase].push_back(seconds);
  }
  for (const auto& [name, values] : found) {
    Total total{logs_of(values), 0};
    if (total.logs.size() < fewest_totals) continue;
    const double near = std::max(equal_within, tick_of(values) / quantile(values, 0.5));
    const auto alike = static_cast<double>(pairs_within(total.logs, 2 * near));
    const double each = alike > 0 ? -std::log10(alike / static_cast<double>(pairs_of(total.logs)))
                                  : std::log10(range_of(total.logs) / near);
    if (each >= least_digits) total.digits = each * static_cast<double>(values.size());
    totals_[name] = std::move(total);
  }
}

Fingerprint::Fingerprint(const Record& record) {
  add_steps(record.trials), add_power(record.trials), add_totals(record.trials);
}

bool Fingerprint::are_in_one_ratio(const Line& a, const Line& b) {
  const std::size_t count = std::min(a.logs.size(), b.logs.size());
  const double chance = std::max({a.chance, b.chance, std::min(a.chance_of_trials, b.chance_of_trials)});
  if (digits_of(chance) * (static_cast<double>(count) - 2) < enough_digits) return false;
  const double near = std::max({finest, share_of_noise * std::min(a.noise, b.noise), a.tick, b.tick});
  const double ratio = ratio_of(a.logs, b.logs), may_be_odd = (1 - agreeing_share) * static_cast<double>(count);
  double odd = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (std::abs(a.logs[i] - b.logs[i] - ratio) > 2 * near && ++odd > may_be_odd) return false;
  return true;
}

bool Fingerprint::have_common(const Lines& a, const Lines& b) {
  for (const Line& one : a)
    for (const Line& other : b)
      if (are_in_one_ratio(one, other)) return true;
  return false;
}

std::string Fingerprint::same_as(const Fingerprint& other) const {
  if (have_common(steps_, other.steps_) || have_common(all_steps_, other.all_steps_))
    return "their step times are in one ratio, step by step";
  if (have_common(power_, other.power_)) return "their power samples are in one ratio, sample by sample";
  double digits = 0;
  for (const auto& [name, total] : totals_) {
    const auto found = other.totals_.find(name);
    if (found == other.totals_.end()) continue;
    const auto equal = [](double a, double b) { return std::abs(a - b) <= equal_within; };
    if (std::ranges::equal(total.logs, found->second.logs, equal))
      digits += std::min(total.digits, found->second.digits);
  }
  return digits < enough_digits ? "" : "their joules and phases are equal to six digits";
}

double tick_of(const std::vector<double>& values) {
  constexpr double finest_tick = 1e-12, rounding = 1e-3;  // of a tick: sums of ticks are not exact
  for (double tick = 1; tick > finest_tick * 1.5; tick /= 10)
    if (std::ranges::all_of(values, [&](double v) { return std::abs(v / tick - std::round(v / tick)) < rounding; }))
      return tick;
  return finest_tick;
}

std::vector<std::pair<std::size_t, std::size_t>> copied_trials(const Record& record) {
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
