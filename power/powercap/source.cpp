// RAPL energy counters through libpowercap's sysfs calls.
//
// Not powercap-rapl.h: its init gives up on a whole package for an unknown constraint, an unknown subzone or one
// unreadable counter. Errors of a zone stay with that zone here.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "power/energy_meter.hpp"
#include "power/powercap/sysfs.hpp"
#include "power/powercap/zones.hpp"
#include "power/wrap_counter.hpp"

namespace tw {
namespace {

using Clock = std::chrono::steady_clock;

using powercap::class_folder;
using powercap::Zone;

class RaplMeter : public EnergyMeter {
 public:
  RaplMeter(Zone zone, std::string domain, EnergyScope scope, std::uint64_t first_uj, std::uint64_t range_uj,
            double update_period_seconds)
      : zone_(std::move(zone)),
        domain_(std::move(domain)),
        scope_(scope),
        counter_(first_uj, range_uj),
        range_joules_(static_cast<double>(range_uj) * 1e-6),
        update_period_seconds_(update_period_seconds) {
    maximum_watts_ = zone_.maximum_watts(powercap::default_maximum_watts(scope));
    if (maximum_watts_ > 0) return;
    maximum_watts_ = powercap::default_maximum_watts(scope);
    maximum_is_default_ = true;
  }

  std::string domain() const override { return domain_; }
  EnergyScope scope() const override { return scope_; }
  EnergyMethod method() const override { return EnergyMethod::counter; }
  EnergySample read() override {
    std::uint64_t value = 0;
    const auto before = Clock::now();
    const int error = zone_.energy_uj(&value);
    const auto after = Clock::now();
    if (error != 0) throw std::system_error(-error, std::generic_category(), zone_.path() + "/energy_uj");
    return {before + (after - before) / 2, static_cast<double>(counter_.feed(value)) * 1e-6};
  }
  double update_period_seconds() const override { return update_period_seconds_; }
  /// From the assumed ceiling, never from the firmware's limits: a wrap that goes unseen is a wrong figure.
  double wrap_seconds() const override { return range_joules_ / powercap::default_maximum_watts(scope_); }
  double maximum_power_watts() const override { return maximum_watts_; }
  bool maximum_power_is_default() const override { return maximum_is_default_; }

 private:
  Zone zone_;
  std::string domain_;
  EnergyScope scope_;
  WrapCounter counter_;
  double range_joules_, update_period_seconds_, maximum_watts_ = 0;
  bool maximum_is_default_ = false;
};

MeterFinding nothing_found() {
  const powercap::Absence absence = powercap::why_no_zones();
  MeterFinding finding;
  finding.domain = "rapl";
  finding.reason = absence.reason;
  finding.detail = absence.detail;
  finding.grant = absence.grant;
  return finding;
}

/// What polling showed about one counter.
struct Observed {
  int error = 0;
  std::uint64_t last_uj = 0;
  std::vector<Clock::time_point> changes;
  std::vector<std::uint64_t> values;  // one for each round, for finding mirrors

  double period_seconds(double watched_seconds) const {
    if (changes.size() < 2) return watched_seconds;  // slower than we watched: an upper bound of what was seen
    std::vector<double> intervals;
    for (std::size_t i = 1; i < changes.size(); ++i)
      intervals.push_back(std::chrono::duration<double>(changes[i] - changes[i - 1]).count());
    // The median: a poll that came late lengthens one interval, and shortens the next.
    std::nth_element(intervals.begin(), intervals.begin() + static_cast<std::ptrdiff_t>(intervals.size() / 2),
                     intervals.end());
    return intervals[intervals.size() / 2];
  }
  /// One counter shown under two names: equal in most rounds (an update may fall between the two readings).
  bool mirrors(const Observed& other) const {
    if (changes.size() < 2 || other.changes.size() < 2) return false;
    std::size_t equal = 0;
    for (std::size_t i = 0; i < values.size(); ++i) equal += values[i] == other.values[i];
    return 2 * equal > values.size();
  }
};

/// Polls all zones together until each has changed often enough, for half a second at most.
std::vector<Observed> observe(const std::vector<const Zone*>& zones, double* watched_seconds) {
  constexpr std::size_t enough_changes = 20;
  constexpr auto limit = std::chrono::milliseconds(500);
  constexpr auto pause = std::chrono::microseconds(100);
  std::vector<Observed> observed(zones.size());
  const auto start = Clock::now();
  for (bool first = true, done = false; !done; first = false) {
    done = true;
    for (std::size_t i = 0; i < zones.size(); ++i) {
      Observed& one = observed[i];
      if (one.error != 0) continue;
      std::uint64_t value = 0;
      one.error = zones[i]->energy_uj(&value);
      if (one.error != 0) continue;
      if (!first && value != one.last_uj) one.changes.push_back(Clock::now());
      one.last_uj = value;
      one.values.push_back(value);
      done = done && one.changes.size() >= enough_changes;
    }
    if (Clock::now() - start >= limit) break;
    if (!done) std::this_thread::sleep_for(pause);
  }
  *watched_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return observed;
}

void explain_error(int error, const Zone& zone, const char* file, MeterFinding& finding) {
  finding.detail = zone.path() + "/" + file + ": " + std::strerror(-error);
  if (error == -EACCES || error == -EPERM) {
    finding.reason = "permission";
    const std::string command =
        "chmod a+r " + std::string(class_folder) + "/" + zone.name.control_type + ":*/energy_uj";
    finding.detail += "; run as root, or have root do: " + command;
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
    findings.push_back(nothing_found());
    return findings;
  }
  std::vector<powercap::ZoneName> names;
  for (const Zone& zone : zones) names.push_back(zone.name);
  const std::vector<powercap::ZoneUse> uses = powercap::classify(names);

  std::vector<const Zone*> wanted;
  for (std::size_t i = 0; i < zones.size(); ++i)
    if (uses[i].scope) wanted.push_back(&zones[i]);
  double watched_seconds = 0;
  const std::vector<Observed> observed = observe(wanted, &watched_seconds);

  std::size_t next = 0;
  std::vector<std::size_t> opened_zone, opened_observed;
  for (std::size_t i = 0; i < zones.size(); ++i) {
    MeterFinding finding;
    finding.domain = uses[i].domain;
    finding.reason = uses[i].reason;
    finding.detail = uses[i].detail;
    finding.scope = uses[i].scope;
    if (uses[i].scope) {
      const Zone& zone = zones[i];
      const std::size_t me = next++;
      const Observed& one = observed[me];
      std::uint64_t range_uj = 0;
      const int range_error = zone.range_uj(&range_uj);
      const auto mirror = std::find_if(opened_observed.begin(), opened_observed.end(),
                                       [&](std::size_t other) { return one.mirrors(observed[other]); });
      if (one.error != 0) {
        explain_error(one.error, zone, "energy_uj", finding);
      } else if (range_error != 0) {
        explain_error(range_error, zone, "max_energy_range_uj", finding);
      } else if (range_uj == 0 || range_uj < one.last_uj) {
        finding.reason = "unsupported";
        finding.detail = zone.path() + ": the counter stands at " + std::to_string(one.last_uj) + " uJ in a range of " +
                         std::to_string(range_uj);
      } else if (one.changes.empty()) {
        // Read on, it would report 0 J for a machine that certainly uses power.
        finding.reason = "unsupported";
        finding.detail = zone.path() + "/energy_uj stood still at " + std::to_string(one.last_uj) + " for " +
                         std::to_string(watched_seconds) + " s";
      } else if (mirror != opened_observed.end()) {
        finding.reason = "duplicate";
        finding.scope.reset();
        finding.detail = "shows the same counter as " +
                         uses[opened_zone[static_cast<std::size_t>(mirror - opened_observed.begin())]].domain;
      } else {
        finding.meter = std::make_unique<RaplMeter>(zone, uses[i].domain, *uses[i].scope, one.last_uj, range_uj,
                                                    one.period_seconds(watched_seconds));
        finding.counted = true;
        opened_zone.push_back(i);
        opened_observed.push_back(me);
      }
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace tw
