// Whether joules are those of the launch's meters, all of them, and of the power that the same window shows.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "results/checks.hpp"
#include "results/text.hpp"

namespace tw {
namespace {

using Sensor = std::pair<std::string, std::string>;  // host, domain
std::string name_of(const Sensor& sensor) { return sensor.second + " on " + sensor.first; }

bool is_kind(const std::string& domain, const char* kind) { return domain.starts_with(std::string(kind) + ":"); }
/// Counters whose series of power are the differences of the counter itself; all others may have a reading of their
/// own.
bool is_own_series(const std::string& domain) { return is_kind(domain, "rapl") || is_kind(domain, "perf"); }

/// GPUs whose power is a reading of telemetry, which may be unreadable where the counter is not. Of all other meters the
/// sampler makes the series from the meter itself, but for `external`, which is a file.
bool may_have_no_series(const std::string& domain) { return is_kind(domain, "nvml") || is_kind(domain, "amdgpu"); }

/// The scope that a domain's name alone says; empty where it may have several.
std::string scope_of_kind(const std::string& domain) {
  if (is_own_series(domain))
    return domain.find("psys") != std::string::npos   ? "node"
           : domain.find("dram") != std::string::npos ? "dram"
                                                      : "package";
  if (is_kind(domain, "nvml") || is_kind(domain, "nvml-power")) return "device";
  if (is_kind(domain, "ipmi") || domain == "external" || domain == "cray:node") return "node";
  return {};
}

/// What one row says by itself, but for its series.
void check_row(const EnergyRow& row, const Trial& trial, const std::string& at, Findings& found) {
  /// A meter is read just outside the barriers of its window.
  constexpr double edge_seconds = 1, edge_share = 0.05;
  const auto broken = [&](const char* key, const char* what) { found.broken("energy_row", at + key, what); };
  if (row.energy_j && row.window_s &&
      std::abs(*row.window_s - trial.window_s) > edge_seconds + edge_share * trial.window_s)
    found.broken("energy_window", at + "/window_s", "is not that of its trial");
  if (row.energy_j && row.counted && !row.reason.empty()) broken("/reason", "a counted row with joules has one");
  if (row.energy_j && !row.counted && row.reason.empty()) broken("/reason", "is empty though its joules are left out");
  if (row.counted && row.method == "estimate") broken("/counted", "is true of an estimate, which enters no total");
  if (row.energy_j && !(row.window_s.value_or(0) > 0)) broken("/window_s", "is absent beside joules");
  if (row.energy_j && !row.update_period_s) broken("/update_period_s", "is absent beside joules");
  const std::string scope = scope_of_kind(row.domain);
  if (!row.scope.empty() && !scope.empty() && row.scope != scope)
    found.broken("meter_scope", at + "/scope",
                 "is \"" + row.scope + "\", and " + row.domain + " is of the scope " + scope);
}

bool is_power(const SeriesRow& series) { return series.quantity == "power_w" && !series.time_s.empty(); }

struct Bounds {
  double low = 0, high = 0;
};

/// Between which joules those of a window lie by its series of power; nullopt where the series says too little.
///
/// Each entry sums up the samples of a stretch that lasts to the next entry, so that the joules of the stretch lie
/// between its least and its greatest value × its length: however long each sample was, and however far the series was
/// thinned. The stretch of the last entry ends somewhere in the window: it adds nothing to the lower bound, and the
/// rest of the window to the upper one. A sample is taken over ten update periods or 0.1 s, so that as much of the
/// window's end may be in no sample, at up to half more than the greatest power seen. At the edges the sampler and the
/// ledger read the counter one after another: the greatest power × two update periods, 0.1 s and the clock skew. A
/// sensor with a reading of power beside its counter averages over up to a second, and the two may be `factor` apart.
std::optional<Bounds> bounds_of(const SeriesRow& series, const EnergyRow& row, double clock_skew_s, double factor) {
  constexpr double sample_seconds = 0.1, periods_a_sample = 10, beyond_seen = 0.5, other_sensor_seconds = 1;
  const std::vector<double>& times = series.time_s;
  const double window = *row.window_s, period = *row.update_period_s;
  const std::size_t count = times.size();
  if (count == 0 || series.minimum.size() != count || series.maximum.size() != count || !std::ranges::is_sorted(times))
    return std::nullopt;
  const double peak = std::ranges::max(series.maximum);
  Bounds bounds;
  bounds.high = peak * std::clamp(times[0], 0.0, window);
  for (std::size_t i = 0; i < count; ++i) {
    const double begin = std::clamp(times[i], 0.0, window),
                 end = i + 1 < count ? std::clamp(times[i + 1], 0.0, window) : window;
    bounds.high += series.maximum[i] * (end - begin);
    if (i + 1 < count) bounds.low += series.minimum[i] * (end - begin);
  }
  const bool own = is_own_series(row.domain);
  bounds.high += beyond_seen * peak * std::min(window, periods_a_sample * period + sample_seconds);
  const double edges = peak * (2 * period + sample_seconds + clock_skew_s + (own ? 0 : other_sensor_seconds));
  if (!own) bounds.low /= factor, bounds.high *= factor;
  bounds.low -= edges + row.uncertainty_j.value_or(0);
  bounds.high += edges + row.uncertainty_j.value_or(0);
  if (!std::isfinite(bounds.low) || !std::isfinite(bounds.high)) return std::nullopt;
  return bounds;
}

/// Power with nothing of ours running, less its uncertainty: the least of what was measured before and after.
std::map<Sensor, double> idle_watts(const Context& context) {
  std::map<Sensor, double> watts;
  for (const IdleRow& row : context.idle_power) {
    if (!row.power_w) continue;
    const double least = *row.power_w - row.uncertainty_w.value_or(0);
    const auto [known, is_new] = watts.try_emplace({row.host, row.domain}, least);
    if (!is_new) known->second = std::min(known->second, least);
  }
  return watts;
}

/// Computing under a low clock or cap may draw less than idling did at a high clock, but not less than half of it.
constexpr double least_of_idle = 0.5, least_of_idle_when_set = 0.05;

void check_joules(const EnergyRow& row, const Trial& trial, const std::map<Sensor, const SeriesRow*>& power,
                  const std::set<Sensor>& with_series, const std::map<Sensor, double>& idle, const std::string& at,
                  Findings& found) {
  /// NVML averages power over 25 of each 100 ms on some GPUs: what it reads may be far from the counter's mean.
  constexpr double often_apart = 1.25, most_apart = 2;
  /// Below, a sampler may not have come to its first sample.
  constexpr double least_seconds = 2, least_periods = 20;
  if (!row.energy_j || !row.counted || !row.window_s || !row.update_period_s) return;
  const Sensor sensor(row.host, row.domain);
  const std::string said = "is " + text::si(*row.energy_j, "J");
  if (const auto series = power.find(sensor); series != power.end()) {
    const auto outside = [&](double factor) -> std::string {
      const std::optional<Bounds> bounds = bounds_of(*series->second, row, trial.clock_skew_s.value_or(0), factor);
      if (!bounds || (*row.energy_j >= bounds->low && *row.energy_j <= bounds->high)) return {};
      return said + ", and the window's power_w gives " + text::si(std::max(0.0, bounds->low), "J") + " to " +
             text::si(bounds->high, "J");
    };
    if (const std::string what = outside(most_apart); !what.empty())
      found.broken("energy_differs_from_power", at + "/energy_j", what);
    else if (const std::string near = outside(often_apart); !near.empty())
      found.note("energy_near_power", at + "/energy_j", near);
  } else if (row.domain != "external" && *row.window_s > least_seconds + least_periods * *row.update_period_s) {
    const char* what = "has joules, and its trial has no series of its power_w";
    if (may_have_no_series(row.domain) && !with_series.contains(sensor))
      found.note("power_series_missing", at, what);
    else
      found.broken("power_series_missing", at, what);
  }
  if (const auto watts = idle.find(sensor); watts != idle.end())
    if (const double least = watts->second * *row.window_s; *row.energy_j + row.uncertainty_j.value_or(0) < least)
      found.broken("energy_below_idle", at + "/energy_j",
                   said + ", and by the idle power it is at least " + text::si(least, "J"));
}

/// The meters of a launch by their sensors; of one that is there twice the first that is available.
std::map<Sensor, const MeterEntry*> meters_of(const Launch& launch, Findings& found) {
  std::map<Sensor, const MeterEntry*> meters;
  for (std::size_t m = 0; m < launch.context->meters.size(); ++m) {
    const MeterEntry& meter = launch.context->meters[m];
    const std::string at = launch.where + "/meters/" + std::to_string(m);
    const auto [known, is_new] = meters.try_emplace({meter.host, meter.domain}, &meter);
    if (!is_new && meter.available) {
      if (known->second->available)
        found.broken("meter_duplicate", at + "/domain", "occurs twice on this host");
      else
        known->second = &meter;
    }
    if (const std::string scope = scope_of_kind(meter.domain);
        meter.available && !scope.empty() && meter.scope != scope)
      found.broken("meter_scope", at + "/scope",
                   "is \"" + meter.scope + "\", and " + meter.domain + " is of the scope " + scope);
  }
  return meters;
}

/// Rows of a trial against the meters of the launch. Where a point takes some of the ranks, GPUs of the others are
/// "not_visible" in it, and what counts in their place is not looked at.
void check_meters(const Trial& trial, const std::map<Sensor, const MeterEntry*>& meters,
                  const std::set<std::string>& hosts, bool is_part, const std::string& at, Findings& found) {
  std::map<Sensor, std::size_t> rows;
  for (std::size_t e = 0; e < trial.energy.size(); ++e)
    rows.try_emplace({trial.energy[e].host, trial.energy[e].domain}, e);
  for (const auto& [sensor, meter] : meters) {
    if (!meter->counted || !meter->available || (is_part && !hosts.contains(sensor.first))) continue;
    const auto known = rows.find(sensor);
    if (known == rows.end()) {
      found.broken("meter_row_missing", at + "/energy", "has no row of " + name_of(sensor) + ", which the run counts");
      continue;
    }
    const EnergyRow& row = trial.energy[known->second];
    const std::string place = at + "/energy/" + std::to_string(known->second);
    if (row.scope != meter->scope)
      found.broken("meter_scope", place + "/scope",
                   "is \"" + row.scope + "\", that of its meter is \"" + meter->scope + "\"");
    if (row.method != meter->method)
      found.broken("meter_method", place + "/method",
                   "is \"" + row.method + "\", that of its meter is \"" + meter->method + "\"");
    if (!row.counted && (row.reason.empty() || row.reason == "contained" || row.reason == "duplicate" ||
                         (row.reason == "not_visible" && !is_part)))
      found.broken("meter_row_left_out", place + "/counted", "is false of a meter that the run counts");
  }
  for (const auto& [sensor, e] : rows) {
    const EnergyRow& row = trial.energy[e];
    if (!row.counted || row.scope.empty()) continue;
    const auto meter = meters.find(sensor);
    if (meter == meters.end())
      found.broken("meter_unknown", at + "/energy/" + std::to_string(e) + "/domain",
                   name_of(sensor) + " is not among the meters of the run");
    else if (!meter->second->counted && !is_part)
      found.broken("meter_row_counted", at + "/energy/" + std::to_string(e) + "/counted",
                   "is true of a meter that the run does not count");
  }
}

}  // namespace

void check_energy_rows(const Record& record, std::size_t place, Findings& found) {
  for (std::size_t t = 0; t < record.trials.size(); ++t) {
    const Trial& trial = record.trials[t];
    std::set<Sensor> sensors;
    for (std::size_t e = 0; e < trial.energy.size(); ++e) {
      const EnergyRow& row = trial.energy[e];
      const std::string at = place_of(place, t) + "/energy/" + std::to_string(e);
      check_row(row, trial, at, found);
      if (row.energy_j && !sensors.insert({row.host, row.domain}).second)
        found.broken("meter_row_duplicate", at + "/domain", "occurs twice on this host");
    }
  }
}

void check_energy(const Report& report, Findings& found) {
  for (const Launch& launch : launches_of(report)) {
    const Context& context = *launch.context;
    const std::map<Sensor, const MeterEntry*> meters = meters_of(launch, found);
    const std::map<Sensor, double> found_idle = idle_watts(context);
    std::set<Sensor> with_series;
    for (const std::size_t place : launch.records)
      for (const Trial& trial : report.records[place].trials)
        for (const SeriesRow& series : trial.series)
          if (is_power(series)) with_series.insert({series.host, series.domain});
    for (const std::size_t place : launch.records) {
      const Record& record = report.records[place];
      std::set<std::string> hosts;
      for (const DeviceEntry& device : context.devices)
        if (device.rank < record.workload.ranks) hosts.insert(device.host);
      const bool is_part = record.workload.ranks < std::ssize(context.devices);
      // Idle power is measured at the clocks and limits that were found. Others may lower it, but not to nothing.
      const bool is_set =
          std::ranges::any_of(record.setting, [](const auto& one) { return one.second.accepted.has_value(); });
      std::map<Sensor, double> idle = found_idle;
      for (auto& [sensor, watts] : idle) watts *= is_set ? least_of_idle_when_set : least_of_idle;
      for (std::size_t t = 0; t < record.trials.size(); ++t) {
        const Trial& trial = record.trials[t];
        const std::string at = place_of(place, t);
        check_meters(trial, meters, hosts, is_part, at, found);
        std::map<Sensor, const SeriesRow*> power;
        for (const SeriesRow& series : trial.series)
          if (is_power(series)) power.try_emplace({series.host, series.domain}, &series);
        for (std::size_t e = 0; e < trial.energy.size(); ++e)
          check_joules(trial.energy[e], trial, power, with_series, idle, at + "/energy/" + std::to_string(e), found);
      }
    }
  }
}

}  // namespace tw
