// RAPL energy counters through libpowercap's sysfs calls.
//
// Not powercap-rapl.h: its init gives up on a whole package for an unknown constraint, an unknown subzone or one
// unreadable counter. Errors of a zone stay with that zone here. The counter itself is read through a descriptor of our
// own, from the first look on: libpowercap's reading builds the path, opens, reads and closes the file each time, ten
// times a second and zone along a window, which costs several times the reading.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>

#include "power/meter/energy_meter.hpp"
#include "power/meter/sensor_meter.hpp"
#include "power/meter/sysfs.hpp"
#include "power/meter/watch.hpp"
#include "power/sources/powercap/sysfs.hpp"
#include "power/sources/powercap/zones.hpp"

namespace tw::power {
namespace {

using powercap::class_folder;
using powercap::Zone;

using Counter = std::shared_ptr<sysfs::NumberFile>;

std::unique_ptr<EnergyMeter> open(const Zone& zone, const Counter& counter, const std::string& domain,
                                  EnergyScope scope, const Watched& seen, std::uint64_t range_uj) {
  SensorSpec sensor{domain, scope, seen.period_seconds, {}};
  const double maximum_watts = zone.maximum_watts(default_maximum_watts(scope));
  if (maximum_watts > 0) sensor.maximum_watts = maximum_watts;
  return std::make_unique<CounterMeter>(
      CounterSpec{std::move(sensor), 1e-6, range_uj}, [counter] { return counter->read_integer(); }, seen.last);
}

/// One counter shown under two names: equal in most rounds (an update may fall between the two readings).
bool mirrors(const Watched& one, const Watched& other) {
  if (one.error || other.error || one.changes < 2 || other.changes < 2) return false;
  std::size_t equal = 0;
  for (std::size_t i = 0; i < one.values.size(); ++i) equal += one.values[i] == other.values[i];
  return 2 * equal > one.values.size();
}

void explain_error(int error, const Zone& zone, const char* file, MeterFinding& finding) {
  finding.detail = zone.path() + "/" + file + ": " + std::strerror(-error);
  if (error == -EACCES || error == -EPERM) {
    finding.reason = "permission";
    const std::string command =
        "chmod a+r " + std::string(class_folder) + "/" + zone.name.control_type + ":*/energy_uj";
    finding.detail += "; run as root, or as root: " + command;
    finding.grant = "udev rule: SUBSYSTEM==\"powercap\", ACTION==\"add\", RUN+=\"/bin/sh -c '" + command +
                    "'\" (shows all users the power, CVE-2020-8694), or perf's grant";
  } else {
    finding.reason = "unsupported";
  }
}

}  // namespace

std::vector<MeterFinding> powercap_find_meters(const MeterOptions&) {
  std::vector<MeterFinding> findings;
  const std::vector<Zone> zones = powercap::enumerate();
  if (zones.empty()) {
    const powercap::Absence absence = powercap::why_no_zones();
    return MeterFinding::only(
        {.domain = "rapl", .reason = absence.reason, .detail = absence.detail, .grant = absence.grant});
  }
  std::vector<powercap::ZoneName> names;
  for (const Zone& zone : zones) names.push_back(zone.name);
  const std::vector<powercap::ZoneUse> uses = powercap::classify(names);

  std::vector<Counter> counters;
  std::vector<std::function<std::uint64_t()>> readings;
  for (std::size_t i = 0; i < zones.size(); ++i) {
    if (!uses[i].scope) continue;
    counters.push_back(std::make_shared<sysfs::NumberFile>(zones[i].path() + "/energy_uj"));
    readings.push_back([counter = counters.back()] { return counter->read_integer(); });
  }
  const std::vector<Watched> watched = watch(readings);

  std::size_t next = 0;
  std::vector<std::size_t> opened_zone, opened_watched;
  for (std::size_t i = 0; i < zones.size(); ++i) {
    MeterFinding finding{
        .domain = uses[i].domain, .scope = uses[i].scope, .reason = uses[i].reason, .detail = uses[i].detail};
    if (uses[i].scope) {
      const Zone& zone = zones[i];
      const std::size_t me = next++;
      const Watched& one = watched[me];
      std::uint64_t range_uj = 0;
      const int range_error = zone.range_uj(&range_uj);
      const auto mirror =
          std::ranges::find_if(opened_watched, [&](std::size_t other) { return mirrors(one, watched[other]); });
      if (one.error) {
        explain_error(-one.error->code().value(), zone, "energy_uj", finding);
      } else if (range_error != 0) {
        explain_error(range_error, zone, "max_energy_range_uj", finding);
      } else if (range_uj == 0 || range_uj < one.last) {
        finding.explain("unsupported", zone.path() + ": the counter reads " + std::to_string(one.last) +
                                           " uJ, but its stated range is " + std::to_string(range_uj) + " uJ");
      } else if (!one.moved()) {
        finding.explain("unsupported", stood_still(zone.path() + "/energy_uj", one));
      } else if (mirror != opened_watched.end()) {
        finding.reason = "duplicate";
        finding.scope.reset();
        finding.detail = "shows the same counter as " +
                         uses[opened_zone[static_cast<std::size_t>(mirror - opened_watched.begin())]].domain;
      } else {
        finding.meter = open(zone, counters[me], uses[i].domain, *uses[i].scope, one, range_uj);
        finding.counted = true;
        opened_zone.push_back(i);
        opened_watched.push_back(me);
      }
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace tw::power
