// Whether the rows of joules are those of the launch's meters, all of them, and whether these are all that there were.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "results/record/known_texts.hpp"
#include "results/record/text.hpp"
#include "results/validation/sensors.hpp"
#include "results/validation/checks.hpp"

namespace tw::results {
namespace {

using Meters = std::map<Sensor, const MeterEntry*>;

/// The meters of a launch by their sensors; of one that occurs twice the first that is available.
Meters meters_of(const RecordedLaunch& launch, Findings& found) {
  Meters meters;
  for (std::size_t m = 0; m < launch.context->meters.size(); ++m) {
    const MeterEntry& meter = launch.context->meters[m];
    const std::string at = launch.where + "/meters/" + std::to_string(m);
    const auto [known, is_new] = meters.try_emplace(sensor_of(meter), &meter);
    if (!is_new && meter.available) {
      if (known->second->available)
        found.broken("meter_duplicate", at + "/domain", "occurs twice on this host");
      else
        known->second = &meter;
    }
    if (const Scope scope = kind_of(meter.domain).scope;
        meter.available && scope != Scope::none && meter.scope != scope)
      found.broken("meter_scope", at + "/scope",
                   "is \"" + meter.scope + "\", and " + meter.domain + " is of the scope " + scope);
  }
  return meters;
}

/// "0" of "rapl:package-0" and "rapl:package-0-die-1"; empty of all but RAPL's packages.
std::string package_of(const std::string& domain) {
  constexpr std::string_view prefix = "rapl:package-";
  if (!domain.starts_with(prefix) || domain.find('/') != std::string::npos) return {};
  const std::string rest = domain.substr(prefix.size());
  return rest.substr(0, rest.find_first_not_of("0123456789"));
}

template <class Matches>
bool counts(const Meters& meters, const std::string& host, Matches matches) {
  return std::ranges::any_of(meters, [&](const auto& one) {
    return one.first.first == host && one.second->available && one.second->counted && matches(*one.second);
  });
}

/// Why this reason does not leave the sensor out; empty if it may. Scopes are counted side by side: only cores are
/// "contained" in their package. A package is a duplicate of what another source
/// counts, or of another die or mirror of the same package; other packages of its own source never cover it.
std::string why_not_left_out(const Sensor& sensor, const std::string& reason, const Meters& meters) {
  const auto& [host, domain] = sensor;
  const std::optional<Reason> known = named<Reason>(reason);
  if (known == Reason::not_visible && !kind_of(domain).is_gpu) return "only a GPU may be another job's";
  const std::string package = package_of(domain);
  if (package.empty()) return {};
  if (known == Reason::contained) return "a package is counted beside the node that holds it";
  if (known == Reason::duplicate && !counts(meters, host, [&](const MeterEntry& m) {
        return m.scope == Scope::package && (source_of(m.domain) != source_of(domain) ||
                                             package_of("rapl:" + id_of(m.domain)) == package);
      }))
    return "no other meter of the package is counted on this host";
  return {};
}

void check_left_out(const Sensor& sensor, const std::string& reason, const Meters& meters, const std::string& at,
                    Findings& found) {
  if (const std::string why = why_not_left_out(sensor, reason, meters); !why.empty())
    found.broken("meter_left_out", at, "is \"" + reason + "\" for " + name_of(sensor) + ": " + why);
}

/// Whose joules are missing in a total: a sensor that could not be read, beside a counted one of its scope and source.
/// An entry loses its scope where another entry of the same sensor covers it.
Scope scope_without(const MeterEntry& meter, const Meters& meters) {
  static const std::set<std::string> harmless = {"",          "no_driver", "unsupported",
                                                 "contained", "duplicate", "not_visible"};
  if (meter.available || harmless.contains(meter.reason)) return Scope::none;
  Scope scope = meter.scope;
  // A GPU that does not answer may have none.
  if (scope == Scope::none && !kind_of(meter.domain).is_gpu) scope = kind_of(meter.domain).scope;
  if (scope == Scope::none) return scope;
  const auto beside = [&](const MeterEntry& m) {
    return m.scope == scope && source_of(m.domain) == source_of(meter.domain);
  };
  const auto covers = [&](const MeterEntry& m) { return beside(m) && id_of(m.domain) == id_of(meter.domain); };
  return counts(meters, meter.host, beside) && !counts(meters, meter.host, covers) ? scope : Scope::none;
}

/// The summary of a point of all ranks states no joules of a scope without one of its sensors.
void check_scopes(const Record& record, const Meters& meters, const std::string& at, Findings& found) {
  for (const auto& [sensor, meter] : meters) {
    const auto stated = record.summary.energy_j.find(scope_without(*meter, meters));
    if (stated != record.summary.energy_j.end() && stated->second)
      found.broken("meter_left_out", at + "/summary/energy_j/" + stated->first,
                   "is given without " + name_of(sensor) + ", which could not be read (" + meter->reason + ")");
  }
}

/// What a row says of its meter. A point on some of the ranks may open meters of its own, whose update period is
/// measured anew.
void check_row_of(const EnergyRow& row, const MeterEntry& meter, bool is_part, const std::string& at,
                  Findings& found) {
  if (row.scope != meter.scope)
    found.broken("meter_scope", at + "/scope",
                 "is \"" + row.scope + "\", that of its meter is \"" + meter.scope + "\"");
  if (row.method != meter.method)
    found.broken("meter_method", at + "/method",
                 "is \"" + row.method + "\", that of its meter is \"" + meter.method + "\"");
  if (!is_part && row.update_period_s && meter.update_period_s &&
      std::abs(*row.update_period_s - *meter.update_period_s) > 1e-9 * *meter.update_period_s)
    found.broken("meter_period", at + "/update_period_s",
                 "is " + text::duration(*row.update_period_s) + ", that of its meter is " +
                     text::duration(*meter.update_period_s));
}

/// Rows of a trial against the meters of the launch. Where a point takes some of the ranks, GPUs of the others are
/// "not_visible" in it, and what counts in their place is not looked at.
void check_rows(const Trial& trial, const Meters& meters, const std::set<std::string>& hosts, bool is_part,
                const std::string& at, Findings& found) {
  std::map<Sensor, std::size_t> rows;
  std::set<std::string> with_rows;
  for (std::size_t e = 0; e < trial.energy.size(); ++e)
    rows.try_emplace(sensor_of(trial.energy[e]), e), with_rows.insert(trial.energy[e].host);
  // A host without any is not asked for its part of the joules. One on a machine that another host reads is listed as
  // the duplicate "node", and has no meters.
  for (const std::string& host : hosts)
    if (!with_rows.contains(host) && !with_rows.empty() && std::ranges::any_of(meters, [&](const auto& one) {
          return one.first.first == host &&
                 (one.first.second != whole_machine || one.second->why() != Reason::duplicate);
        }))
      found.broken("meter_row_missing", at + "/energy", "has no row of the host " + host + ", whose meters are listed");
  for (const auto& [sensor, meter] : meters) {
    if (!meter->counted || !meter->available || (is_part && !hosts.contains(sensor.first))) continue;
    const auto known = rows.find(sensor);
    if (known == rows.end()) {
      found.broken("meter_row_missing", at + "/energy", "has no row of " + name_of(sensor) + ", which the run counts");
      continue;
    }
    const EnergyRow& row = trial.energy[known->second];
    if (!row.counted && (row.reason.empty() || row.why() == Reason::contained || row.why() == Reason::duplicate ||
                         (row.why() == Reason::not_visible && !is_part)))
      found.broken("meter_row_left_out", at + "/energy/" + std::to_string(known->second) + "/counted",
                   "is false for a meter that the run counts");
  }
  for (const auto& [sensor, e] : rows) {
    const EnergyRow& row = trial.energy[e];
    const std::string place = at + "/energy/" + std::to_string(e);
    const auto meter = meters.find(sensor);
    const bool is_of_sensor = row.energy_j || (row.counted && row.scope != Scope::none);
    // Meters that are opened anew for some of the ranks may cover each other otherwise.
    if (!row.counted && (meter == meters.end() || row.reason != meter->second->reason) &&
        (row.why() == Reason::not_visible || !is_part))
      check_left_out(sensor, row.reason, meters, place + "/reason", found);
    if (meter == meters.end()) {
      if (is_of_sensor)
        found.broken("meter_unknown", place + "/domain", name_of(sensor) + " is not among the meters of the run");
      continue;
    }
    if (!meter->second->available && row.energy_j && !(is_part && meter->second->why() == Reason::not_visible))
      found.broken("meter_unavailable", place + "/energy_j",
                   "is given, and by its entry among the meters " + name_of(sensor) + " was not available (" +
                       meter->second->reason + ")");
    if (meter->second->available && (is_of_sensor || meter->second->counted))
      check_row_of(row, *meter->second, is_part, place, found);
    if (row.counted && row.scope != Scope::none && !meter->second->counted && !is_part)
      found.broken("meter_row_counted", place + "/counted", "is true for a meter that the run does not count");
  }
}

/// The driver shows a zone of each package or none; one that cannot be read is listed with its reason.
void check_packages(const RecordedLaunch& launch, Findings& found) {
  const Context& context = *launch.context;
  std::map<std::string, std::set<std::string>> packages;  // by host
  for (const MeterEntry& meter : context.meters)
    if (std::string package = package_of(meter.domain); !package.empty())
      packages[meter.host].insert(std::move(package));
  for (const HostInfo& host : context.hosts)
    if (const auto known = packages.find(host.name);
        known != packages.end() && std::ssize(known->second) < host.sockets)
      found.broken("packages_missing", launch.where + "/meters",
                   "are of " + std::to_string(known->second.size()) + " of the " + std::to_string(host.sockets) +
                       " packages of " + host.name + ", and the driver shows all or none");
}

/// The program lists what each source found on each node, or why it found nothing.
void check_hosts(const RecordedLaunch& launch, Findings& found) {
  const Context& context = *launch.context;
  std::set<std::string> with_meters;
  for (const MeterEntry& meter : context.meters)  // "node#1": the second machine of that name
    with_meters.insert(meter.host.substr(0, meter.host.find('#')));
  for (const HostInfo& host : context.hosts)
    // The containers of one machine leave its meters to one of them.
    if (!with_meters.empty() && !with_meters.contains(host.name) && !host.container)
      found.broken("meters_missing", launch.where + "/meters",
                   "has none of " + host.name + ", not even one that is not available");
}

/// A GPU that a rank computes on counts where other GPUs of its host do, unless another source counts it. One that
/// cannot be read is listed; its scope then has no total (check_scopes()).
void check_gpus(const RecordedLaunch& launch, const Meters& meters, Findings& found) {
  const auto is_of_gpu = [](const MeterEntry& m) { return source_of(m.domain) == "gpu"; };
  for (const DeviceEntry& device : launch.context->devices) {
    const bool is_instance = device.uuid.starts_with("MIG-");  // whose joules are its GPU's
    if ((device.known_kind() != DeviceKind::cuda && !device.uuid.starts_with("GPU-")) || is_instance ||
        !counts(meters, device.host, is_of_gpu))
      continue;
    const auto is_same = [&](const MeterEntry& m) { return is_of_gpu(m) && id_of(m.domain) == device.uuid; };
    const bool is_unread = std::ranges::any_of(meters, [&](const auto& one) {
      return one.first.first == device.host && is_same(*one.second) && !one.second->available;
    });
    const bool is_covered = counts(meters, device.host, [&](const MeterEntry& m) {
      return is_same(m) || (m.scope == Scope::device && !is_of_gpu(m));
    });
    if (!is_unread && !is_covered)
      found.broken("gpus_missing", launch.where + "/meters",
                   "count other GPUs of " + device.host + ", and not " +
                       (device.uuid.empty() ? "the one, without a UUID," : device.uuid) + " of rank " +
                       std::to_string(device.rank));
  }
}

/// The program that ends a launch has measured the idle power of each meter that counts, or says why it has not.
void check_idle(const RecordedLaunch& launch, const Meters& meters, Findings& found) {
  const Context& context = *launch.context;
  const bool is_said = std::ranges::any_of(
      context.warnings, [](const std::string& warning) { return no_idle_power.begins(warning, {"before"}); });
  if (context.finished_at.empty() || is_said || launch.records.empty()) return;
  std::set<Sensor> with_idle;
  for (std::size_t i = 0; i < context.idle_power.size(); ++i) {
    const IdleRow& row = context.idle_power[i];
    const std::string at = launch.where + "/idle_power/" + std::to_string(i) + "/power_w";
    if (!row.power_w && row.reason.empty())
      found.broken("idle_missing", at, "is null without a reason");
    else if (!row.power_w && row.when == IdleTime::before)
      found.note("idle_missing", at, "is null (" + row.reason + "): the joules cannot be compared with idling");
    if (row.when == IdleTime::before) with_idle.insert(sensor_of(row));
  }
  for (const auto& [sensor, meter] : meters)
    if (meter->counted && meter->available && !with_idle.contains(sensor))
      found.broken("idle_missing", launch.where + "/idle_power",
                   "has no row of " + name_of(sensor) + " before the points, and a run measures it of what it counts");
}

}  // namespace

void check_meters(const Report& report, Findings& found) {
  for (const RecordedLaunch& launch : launches_of(report)) {
    const Context& context = *launch.context;
    const Meters meters = meters_of(launch, found);
    for (std::size_t m = 0; m < context.meters.size(); ++m)
      if (const MeterEntry& meter = context.meters[m]; !meter.counted && meters.at(sensor_of(meter)) == &meter)
        check_left_out(sensor_of(meter), meter.reason, meters,
                       launch.where + "/meters/" + std::to_string(m) + "/reason", found);
    check_packages(launch, found);
    check_hosts(launch, found);
    check_gpus(launch, meters, found);
    check_idle(launch, meters, found);
    for (const std::size_t place : launch.records) {
      const Record& record = report.records[place];
      std::set<std::string> hosts;
      for (const DeviceEntry& device : context.devices)
        if (device.rank < record.workload.ranks) hosts.insert(device.host);
      const bool is_part = record.workload.ranks < std::ssize(context.devices);
      if (!is_part) check_scopes(record, meters, place_of(place), found);
      for (std::size_t t = 0; t < record.trials.size(); ++t)
        check_rows(record.trials[t], meters, hosts, is_part, place_of(place, t), found);
    }
  }
}

}  // namespace tw::results
