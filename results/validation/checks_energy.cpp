// What a row of joules says by itself and of its window, and that joules are not below those of idling.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "results/record/text.hpp"
#include "results/record/version.hpp"
#include "results/validation/sensors.hpp"
#include "results/validation/checks.hpp"

namespace tw::results {
namespace {

/// Meters are read at both ends of a window while no rank works: reading and a barrier, milliseconds where nothing else
/// runs. With a whole second at its ends it would not be this window's joules any more.
constexpr double most_skew_seconds = 1;
/// More of a window is worth a note.
constexpr double most_skew_share = 0.05;
/// The clocks of two nodes, and programs that took the skew less closely.
constexpr double window_seconds = 0.1, window_share = 1e-3;
/// Of reports that do not say their skew.
constexpr double unknown_skew_seconds = 1, unknown_skew_share = 0.05;

double window_allowance(const Trial& trial) {
  if (!trial.clock_skew_s) return unknown_skew_seconds + unknown_skew_share * trial.window_s;
  return std::min(*trial.clock_skew_s, most_skew_seconds) + window_seconds + window_share * trial.window_s;
}

/// What one row says by itself.
void check_row(const EnergyRow& row, const Trial& trial, const std::string& at, Findings& found) {
  const auto broken = [&](const char* key, const char* what) { found.broken("energy_row", at + key, what); };
  if (row.energy_j && row.window_s && std::abs(*row.window_s - trial.window_s) > window_allowance(trial))
    found.broken("energy_window", at + "/window_s",
                 "is " + text::duration(*row.window_s) + ", that of its trial is " + text::duration(trial.window_s) +
                     (trial.clock_skew_s ? ", and clock_skew_s says how far they may be apart" : ""));
  if (row.energy_j && row.counted && !row.reason.empty()) broken("/reason", "a counted row with joules has one");
  if (row.energy_j && !row.counted && row.reason.empty()) broken("/reason", "is empty though its joules are left out");
  if (row.counted && row.method == Method::estimate) broken("/counted", "must be false for an estimate");
  if (row.energy_j && !(row.window_s.value_or(0) > 0)) broken("/window_s", "is absent beside joules");
  if (row.energy_j && !row.update_period_s) broken("/update_period_s", "is absent beside joules");
  if (row.energy_j && row.uncertainty_j && row.update_period_s && row.window_s.value_or(0) > 0)
    if (const double edges = 2 * *row.energy_j / *row.window_s * *row.update_period_s;
        *row.uncertainty_j < edges / time_slack)
      broken("/uncertainty_j", "is less than the update period gives: 2 x mean power x update period");
  const Scope scope = kind_of(row.domain).scope;
  if (row.scope != Scope::none && scope != Scope::none && row.scope != scope)
    found.broken("meter_scope", at + "/scope",
                 "is \"" + row.scope + "\", and " + row.domain + " is of the scope " + scope);
}

/// Two meters may differ by this share.
constexpr double meters_differ = 0.1;
/// Idle power is measured in a second or two, of which a slow counter shows little.
constexpr double most_of_idle = 0.5;

/// Power with nothing of ours running, less its uncertainty: the least of what was measured before and after.
std::map<Sensor, double> idle_watts(const Context& context) {
  std::map<Sensor, double> watts;
  for (const IdleRow& row : context.idle_power) {
    if (!row.power_w) continue;
    const double least = *row.power_w - std::min(row.uncertainty_w.value_or(0), most_of_idle * *row.power_w);
    const auto [known, is_new] = watts.try_emplace(sensor_of(row), least);
    if (!is_new) known->second = std::min(known->second, least);
  }
  return watts;
}

/// Computing under a low clock or cap may draw less than idling did at a high clock, but not less than half of it.
constexpr double least_of_idle = 0.5, least_of_idle_when_set = 0.05;

void check_idle(const Record& record, std::size_t place, const std::map<Sensor, double>& idle, Findings& found) {
  // Idle power is measured at the clocks and limits that were found. Others may lower it, but not to nothing.
  const bool is_set = std::ranges::any_of(
      record.setting, [](const auto& one) { return one.second.requested && one.second.accepted; });
  const double share = is_set ? least_of_idle_when_set : least_of_idle;
  for (std::size_t t = 0; t < record.trials.size(); ++t)
    for (std::size_t e = 0; e < record.trials[t].energy.size(); ++e) {
      const EnergyRow& row = record.trials[t].energy[e];
      const auto watts = idle.find(sensor_of(row));
      if (watts == idle.end() || !has_counted_joules(row) || !row.window_s) continue;
      const double least = share * watts->second * *row.window_s;
      if (*row.energy_j + believed(row, meters_differ) < least)
        found.broken("energy_below_idle", place_of(place, t) + "/energy/" + std::to_string(e) + "/energy_j",
                     "is " + text::si(*row.energy_j, "J") + ", and by the idle power it is at least " +
                         text::si(least, "J"));
    }
}

/// Joules of one host in one window.
struct Joules {
  double sum = 0, doubt = 0;
  void add(const EnergyRow& row) { sum += *row.energy_j, doubt += believed(row, meters_differ); }
};

/// Whether the sensor of a GPU's module is its CPU's, too: by the name of the GPU, or by the sensors of Grace.
bool is_of_module(const DeviceEntry& device) {
  constexpr std::string_view modules[] = {"GH200", "GB200", "GB300", "GB10", "MI300A"};
  return std::ranges::any_of(modules,
                             [&](std::string_view name) { return device.name.find(name) != std::string::npos; });
}
bool is_of_module(const MeterEntry& meter) { return kind_of(meter.domain).is_module; }

/// A node uses what its parts use, and what fans, disks and the supply take; by psys, which a maker may have wired to
/// less, what the packages use.
void check_parts(const Trial& trial, const std::set<std::string>& modules, const std::string& at, Findings& found) {
  struct Node {
    Joules all, package, dram, device;
    std::size_t row = 0;  ///< of the node
    bool is_psys = false;
  };
  std::map<std::string, Node> nodes;  // by host
  for (std::size_t e = 0; e < trial.energy.size(); ++e) {
    const EnergyRow& row = trial.energy[e];
    if (!has_counted_joules(row)) continue;
    Node& node = nodes[row.host];
    if (row.scope == Scope::node) node.row = e, node.is_psys = is_kind(row.domain, "rapl"), node.all.add(row);
    if (row.scope == Scope::package) node.package.add(row);
    if (row.scope == Scope::dram) node.dram.add(row);
    if (row.scope == Scope::device) node.device.add(row);
  }
  for (const auto& [host, node] : nodes) {
    if (node.all.sum <= 0) continue;
    double least = node.package.sum, doubt = node.all.doubt + node.package.doubt;
    if (!node.is_psys) {
      least += node.dram.sum, doubt += node.dram.doubt + node.device.doubt;
      least = modules.contains(host) ? std::max(least, node.device.sum) : least + node.device.sum;
    }
    if (node.all.sum + doubt >= (1 - meters_differ) * least) continue;
    const std::string where = at + "/energy/" + std::to_string(node.row) + "/energy_j";
    const std::string what = "makes " + text::si(node.all.sum, "J") + " of the node " + host +
                             ", and its parts that are measured beside it used " + text::si(least, "J");
    if (node.is_psys)
      found.note("energy_below_parts", where, what);
    else
      found.broken("energy_below_parts", where, what);
  }
}

/// Of a launch: a program that reads meters says how closely it has read them.
void check_skew(const Report& report, const RecordedLaunch& launch, Findings& found) {
  std::size_t without = 0;
  for (const std::size_t place : launch.records)
    for (const Trial& trial : report.records[place].trials)
      without += !trial.clock_skew_s && std::ranges::any_of(trial.energy, has_counted_joules);
  if (without == 0) return;
  const std::string what = std::to_string(without) + " of its trials have joules, and no clock_skew_s";
  if (is_this_program(*launch.program))
    found.broken("clock_skew", launch.where, what + ", which the program that the report names always writes");
  else
    found.note("clock_skew_unknown", launch.where,
               what + ": whether their meters had the same window is known roughly");
}

}  // namespace

void check_energy_rows(const Record& record, std::size_t place, Findings& found) {
  for (std::size_t t = 0; t < record.trials.size(); ++t) {
    const Trial& trial = record.trials[t];
    if (trial.clock_skew_s.value_or(0) > most_skew_seconds)
      found.broken("clock_skew", place_of(place, t) + "/clock_skew_s",
                   "is " + text::duration(*trial.clock_skew_s) + ": meters that are read so far from the window's ends "
                                                                 "do not show its joules");
    else if (trial.clock_skew_s.value_or(0) > most_skew_share * trial.window_s &&
             std::ranges::any_of(trial.energy, has_counted_joules))
      found.note("clock_skew_large", place_of(place, t) + "/clock_skew_s",
                 "is " + text::duration(*trial.clock_skew_s) + " in a window of " + text::duration(trial.window_s) +
                     ": the joules are those of a longer or shorter time");
    std::set<Sensor> sensors;
    for (std::size_t e = 0; e < trial.energy.size(); ++e) {
      const EnergyRow& row = trial.energy[e];
      const std::string at = place_of(place, t) + "/energy/" + std::to_string(e);
      check_row(row, trial, at, found);
      if (row.energy_j && !sensors.insert(sensor_of(row)).second)
        found.broken("meter_row_duplicate", at + "/domain", "occurs twice on this host");
    }
  }
}

void check_energy(const Report& report, Findings& found) {
  std::map<Sensor, double> of_any_launch;  // one that was killed has measured none
  for (const RecordedLaunch& launch : launches_of(report))
    for (const auto& [sensor, watts] : idle_watts(*launch.context)) {
      const auto [known, is_new] = of_any_launch.try_emplace(sensor, watts);
      if (!is_new) known->second = std::min(known->second, watts);
    }
  for (const RecordedLaunch& launch : launches_of(report)) {
    std::map<Sensor, double> idle = idle_watts(*launch.context);
    idle.insert(of_any_launch.begin(), of_any_launch.end());
    std::set<std::string> modules;  // hosts
    for (const DeviceEntry& device : launch.context->devices)
      if (is_of_module(device)) modules.insert(device.host);
    for (const MeterEntry& meter : launch.context->meters)
      if (is_of_module(meter)) modules.insert(meter.host);
    for (const std::size_t place : launch.records) {
      const Record& record = report.records[place];
      check_idle(record, place, idle, found);
      for (std::size_t t = 0; t < record.trials.size(); ++t)
        check_parts(record.trials[t], modules, place_of(place, t), found);
    }
    check_skew(report, launch, found);
  }
}

}  // namespace tw::results
