// Whether the joules of each meter are those of the power that the same window shows.
//
// An entry of a series sums up the samples from its time to the next entry's. Of a sensor whose power is read beside
// its counter they are moments. Of all others the sampler makes the power from the joules themselves: each entry then
// holds all joules up to the next, however late its samples came, and the last one goes on to the window's end.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "results/analysis/run_rules.hpp"
#include "results/analysis/statistics.hpp"
#include "results/record/text.hpp"
#include "results/validation/sensors.hpp"
#include "results/validation/checks.hpp"

namespace tw::results {
namespace {

using Power = DomainKind::Power;

bool is_power(const SeriesRow& series) { return series.is(Quantity::power); }

/// What no run writes; empty: nothing is wrong.
std::string fault_of(const SeriesRow& series, double window_s) {
  constexpr double beyond_seconds = 2;  // the sampler begins before the window, and ends after it
  constexpr double rounding = 1e-9;     // means are made by adding up
  const std::size_t count = series.time_s.size();
  if (count == 0) return "has no samples: a series without any is left out";
  if (series.minimum.size() != count || series.mean.size() != count || series.maximum.size() != count)
    return "has lists that differ in length";
  for (std::size_t i = 0; i < count; ++i) {
    const double least = series.minimum[i], mean = series.mean[i], most = series.maximum[i];
    if (i > 0 && !(series.time_s[i] > series.time_s[i - 1])) return "has times that are not ascending";
    if (!(least >= 0)) return "has a power below 0 W";
    if (!std::isfinite(most) || !(least <= mean * (1 + rounding)) || !(mean <= most * (1 + rounding)))
      return "has a mean that is not between its least and its greatest value";
  }
  if (series.time_s.back() > window_s + beyond_seconds) return "has a time after the end of its window";
  return {};
}

struct Stretch {
  double begin = 0, end = 0, low = 0, mean = 0, high = 0;
};
double joules_within(const std::vector<Stretch>& stretches, double Stretch::* watts, double from, double to) {
  double joules = 0;
  for (const Stretch& one : stretches)
    joules += one.*watts * std::max(0.0, std::min(one.end, to) - std::max(one.begin, from));
  return joules;
}

/// A series as it covers its window.
struct Cover {
  std::vector<Stretch> stretches;
  double unseen_s = 0;      ///< in no stretch
  double widest_s = 0;      ///< the longest stretch or hole
  double allowed_s = 0;     ///< a longer one is a hole, by the run rule `sampling`
  double before_s = 0;      ///< until the first
  double usual_s = 0;       ///< between two entries; 0 of a single one
};

/// A sample of a counter is taken over ten update periods, and at 10 Hz at most.
double sample_seconds(double period) { return 10 * period + 0.1; }

Cover cover_of(const SeriesRow& series, double window, double period) {
  /// The mean is over samples. Where these came unevenly, that over time is another: by no more than this share of what
  /// they are apart, and of the mean.
  constexpr double uneven = 0.25;
  Cover cover;
  const std::vector<double>& times = series.time_s;
  std::vector<double> distances;
  for (std::size_t i = 1; i < times.size(); ++i) distances.push_back(times[i] - times[i - 1]);
  if (!distances.empty()) cover.usual_s = quantile(distances, 0.5);
  const double pace = std::max(sample_seconds(period), cover.usual_s);
  cover.allowed_s = std::max(coarsest_sampling_s, widest_sampling_gap * pace);
  cover.before_s = cover.unseen_s = cover.widest_s = std::min(times[0], window);
  for (std::size_t i = 0; i < times.size(); ++i) {
    const double begin = std::min(times[i], window);
    double end = i + 1 < times.size() ? std::min(times[i + 1], window) : window;
    cover.widest_s = std::max(cover.widest_s, end - begin);
    if (kind_of(series.domain).power != Power::of_joules && end - begin > cover.allowed_s) {
      cover.unseen_s += end - begin - cover.allowed_s;
      end = begin + cover.allowed_s;
    }
    const double mean = series.mean[i], off = uneven * std::min(series.maximum[i] - series.minimum[i], mean);
    cover.stretches.push_back({begin, end, mean - off, mean, mean + off});
  }
  return cover;
}

struct Bounds {
  double low = 0, high = 0;
};

/// Between which joules those of a window lie. Sampler and ledger read the sensor one after another: what the series
/// has at each end, for two update periods, a quarter of a second and the clock skew, is in no lower bound, and once
/// more in the upper one. Behind the last sample may be as much as a sample takes, of which nothing is known: nothing,
/// or half more than the greatest power. Likewise what no entry covers.
Bounds bounds_of(const Cover& cover, const EnergyRow& row, double clock_skew_s, double factor) {
  constexpr double edge_seconds = 0.25, other_sensor_seconds = 1, beyond_seen = 1.5;
  const bool own = kind_of(row.domain).power == Power::of_joules;
  const double window = *row.window_s, period = *row.update_period_s;
  const double uncertainty = believed(row, own ? 0.02 : 0.1);
  const double edge = 2 * period + edge_seconds + clock_skew_s + (own ? 0 : other_sensor_seconds);
  const double behind = std::min(window, sample_seconds(period));
  double greatest = 0;
  for (const Stretch& one : cover.stretches) greatest = std::max(greatest, one.mean);
  const auto high = [&](double from, double to) { return joules_within(cover.stretches, &Stretch::high, from, to); };
  Bounds bounds;
  bounds.low = joules_within(cover.stretches, &Stretch::low, edge, window - edge - behind) / factor - uncertainty;
  bounds.high = factor * (high(0, window) + high(0, edge) + high(window - edge, window) +
                          beyond_seen * greatest * (behind + cover.unseen_s)) +
                uncertainty;
  return bounds;
}

void check_joules(const EnergyRow& row, const SeriesRow& series, double clock_skew_s, const std::string& at,
                  Findings& found) {
  /// NVML averages power over 25 of each 100 ms on some GPUs: what it reads may be far from the counter's mean.
  constexpr double often_apart = 1.25, most_apart = 2;
  const bool own = kind_of(row.domain).power == Power::of_joules;
  const Cover cover = cover_of(series, *row.window_s, *row.update_period_s);
  // The sampler leaves ten updates between two samples: a longer period would excuse what the counter did not show.
  if (own && cover.usual_s > 0 && 5 * *row.update_period_s > cover.usual_s)
    found.broken("meter_period", at + "/update_period_s",
                 "is " + text::duration(*row.update_period_s) + ", and power samples were taken every " +
                     text::duration(cover.usual_s));
  if (own && cover.before_s > cover.allowed_s)
    found.broken("power_series", at, "its series of power_w begins " + text::duration(cover.before_s) +
                                         " into the window, and that of a meter begins with it");
  else if (cover.widest_s > cover.allowed_s)
    found.note("power_series_gap", at,
               "its series of power_w shows nothing new for " + text::duration(cover.widest_s) +
                   (own ? "" : ": the joules are compared with the rest only"));
  const auto outside = [&](double factor) -> std::string {
    const Bounds bounds = bounds_of(cover, row, clock_skew_s, factor);
    if (*row.energy_j >= bounds.low && *row.energy_j <= bounds.high) return {};
    return "is " + text::si(*row.energy_j, "J") + ", and the window's power_w gives " +
           text::si(std::max(0.0, bounds.low), "J") + " to " + text::si(bounds.high, "J");
  };
  if (const std::string what = outside(own ? 1 : most_apart); !what.empty())
    found.broken("energy_differs_from_power", at + "/energy_j", what);
  else if (const std::string near = outside(own ? 1 : often_apart); !near.empty())
    found.note("energy_near_power", at + "/energy_j", near);
}

void check_missing(const EnergyRow& row, const std::set<Sensor>& with_series, const std::string& at, Findings& found) {
  /// Below, a sampler may not have come to its first sample.
  constexpr double least_seconds = 2, least_periods = 20;
  const char* what = "has joules, and its trial has no series of its power_w";
  if (*row.window_s <= least_seconds + least_periods * *row.update_period_s) return;
  if (kind_of(row.domain).power == Power::own_reading && !with_series.contains(sensor_of(row)))
    found.note("power_series_missing", at, what);
  else
    found.broken("power_series_missing", at, what);
}

void check_trial(const Trial& trial, const std::set<Sensor>& with_series, const std::string& at, Findings& found) {
  std::map<Sensor, const SeriesRow*> power;  // null: unusable, and said so
  for (std::size_t s = 0; s < trial.series.size(); ++s) {
    const SeriesRow& series = trial.series[s];
    if (!is_power(series)) continue;
    const std::string place = at + "/series/" + std::to_string(s);
    std::string fault = fault_of(series, trial.window_s);
    const auto [known, is_new] = power.try_emplace(sensor_of(series), &series);
    if (!is_new) fault = "occurs twice for " + name_of(sensor_of(series));
    if (fault.empty()) continue;
    found.broken("power_series", place, fault);
    known->second = nullptr;
  }
  for (std::size_t e = 0; e < trial.energy.size(); ++e) {
    const EnergyRow& row = trial.energy[e];
    const std::string place = at + "/energy/" + std::to_string(e);
    if (!has_counted_joules(row) || !row.window_s || !row.update_period_s) continue;
    if (const auto series = power.find(sensor_of(row)); series == power.end())
      check_missing(row, with_series, place, found);
    else if (series->second != nullptr)
      check_joules(row, *series->second, trial.clock_skew_s.value_or(0), place, found);
  }
}

}  // namespace

void check_power(const Report& report, Findings& found) {
  for (const RecordedLaunch& launch : launches_of(report)) {
    std::set<Sensor> with_series;
    for (const std::size_t place : launch.records)
      for (const Trial& trial : report.records[place].trials)
        for (const SeriesRow& series : trial.series)
          if (is_power(series)) with_series.insert(sensor_of(series));
    for (const std::size_t place : launch.records) {
      const Record& record = report.records[place];
      for (std::size_t t = 0; t < record.trials.size(); ++t)
        check_trial(record.trials[t], with_series, place_of(place, t), found);
    }
  }
}

}  // namespace tw::results
