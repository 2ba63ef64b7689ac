#include "power/sources/perf/source.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "power/meter/number_text.hpp"
#include "power/meter/sensor_meter.hpp"
#include "power/meter/sysfs.hpp"
#include "power/meter/watch.hpp"

namespace tw::power {
namespace {

namespace fs = std::filesystem;

/// An open event; closes itself.
class Event {
 public:
  Event(std::uint32_t type, std::uint64_t config, int cpu, std::string domain) : domain_(std::move(domain)) {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.type = type;
    attributes.config = config;
    descriptor_ = static_cast<int>(
        syscall(SYS_perf_event_open, &attributes, /*pid*/ -1, cpu, /*group*/ -1, PERF_FLAG_FD_CLOEXEC));
    if (descriptor_ < 0)
      throw std::system_error(errno, std::generic_category(),
                              domain_ + ": perf_event_open on CPU " + std::to_string(cpu));
  }
  ~Event() { close(descriptor_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  std::uint64_t count() const {
    std::uint64_t value = 0;
    const ssize_t bytes = ::read(descriptor_, &value, sizeof value);
    if (bytes == sizeof value) return value;
    // An event that was put into an error state reads as end of file.
    throw std::system_error(bytes < 0 ? errno : ENODEV, std::generic_category(), domain_);
  }

 private:
  std::string domain_;
  int descriptor_ = -1;
};

/// "event=0x02" in the bits that format/event names ("config:0-7").
std::uint64_t read_config(const fs::path& pmu, const std::string& event) {
  const fs::path file = pmu / "events" / event, format_file = pmu / "format" / "event";
  const std::string text = sysfs::read_text(file), format = sysfs::read_text(format_file), key = "event=0x",
                    place = "config:";
  std::uint64_t number = 0;
  unsigned shift = 0;
  const char* end = text.data() + text.size();
  if (text.rfind(key, 0) != 0 || std::from_chars(text.data() + key.size(), end, number, 16).ptr != end)
    throw std::system_error(EINVAL, std::generic_category(), file.string() + " holds \"" + text + "\"");
  if (format.rfind(place, 0) != 0 ||
      std::from_chars(format.data() + place.size(), format.data() + format.size(), shift).ec != std::errc() ||
      shift > 63)
    throw std::system_error(EINVAL, std::generic_category(), format_file.string() + " holds \"" + format + "\"");
  return number << shift;
}

std::map<int, std::uint64_t> find_packages(const std::vector<int>& mask, const fs::path& cpus) {
  std::map<int, std::uint64_t> packages;
  for (const int cpu : mask)
    packages[cpu] = sysfs::read_integer(cpus / ("cpu" + std::to_string(cpu)) / "topology" / "physical_package_id");
  return packages;
}

/// What one CPU of the mask stands for: "package-0", or "package-0-die-1" where a package has several. As powercap's.
std::map<int, std::string> name_cpus(const std::map<int, std::uint64_t>& packages, const fs::path& cpus) {
  std::map<std::uint64_t, int> dies;
  for (const auto& [cpu, package] : packages) ++dies[package];
  std::map<int, std::string> names;
  for (const auto& [cpu, package] : packages) {
    names[cpu] = "package-" + std::to_string(package);
    if (dies[package] > 1)
      names[cpu] +=
          "-die-" + std::to_string(sysfs::read_integer(cpus / ("cpu" + std::to_string(cpu)) / "topology" / "die_id"));
  }
  return names;
}

/// AMD's (and Hygon's) counter is the package's, but some kernels open it on each die of one.
bool counts_whole_packages(const fs::path& cpus) {
  try {
    const std::string modalias = sysfs::read_text(cpus / "modalias");
    return modalias.find(",ven0002") != std::string::npos || modalias.find(",ven0009") != std::string::npos;
  } catch (const std::system_error&) {
    return false;
  }
}

struct Wanted {
  const char* event;
  const char* suffix;
  EnergyScope scope;
};
constexpr Wanted wanted_events[] = {{"energy-pkg", "", EnergyScope::package},
                                    {"energy-ram", "/dram", EnergyScope::dram},
                                    {"energy-psys", "", EnergyScope::node}};

/// One event on one CPU, on its way to a meter.
struct Sensor {
  MeterFinding finding;
  std::shared_ptr<Event> event;
  double joules_per_count = 0;
};

void explain(const std::system_error& error, MeterFinding& finding) {
  sysfs::explain(error, finding);
  if (finding.reason != "permission") return;
  try {
    finding.detail += "; kernel.perf_event_paranoid is " + sysfs::read_text("/proc/sys/kernel/perf_event_paranoid");
  } catch (const std::system_error&) {  // then without
  }
  finding.grant = "setcap cap_perfmon=ep PROGRAM, or sysctl kernel.perf_event_paranoid=0";
}

}  // namespace

std::vector<MeterFinding> perf::find_meters_in(const fs::path& pmu, const fs::path& cpus) {
  std::vector<MeterFinding> findings;
  std::uint32_t type = 0;
  std::vector<int> mask;
  std::map<int, std::uint64_t> packages;
  std::map<int, std::string> names;
  try {
    std::error_code ignored;
    if (!fs::exists(pmu, ignored)) {
      MeterFinding& none = findings.emplace_back();
      none.domain = "perf";
      none.reason = "no_driver";
      none.detail =
          pmu.string() + " does not exist: load the module rapl; most virtual machines and non-x86 CPUs have none";
      none.grant = "modprobe rapl";
      return findings;
    }
    type = static_cast<std::uint32_t>(sysfs::read_integer(pmu / "type"));
    mask = sysfs::read_list(pmu / "cpumask");
    packages = find_packages(mask, cpus);
    names = name_cpus(packages, cpus);
  } catch (const std::system_error& error) {
    MeterFinding& none = findings.emplace_back();
    none.domain = "perf";
    explain(error, none);
    return findings;
  }

  const bool whole_packages = counts_whole_packages(cpus);
  std::set<std::pair<std::string, std::uint64_t>> packages_seen;
  std::vector<Sensor> sensors;
  for (const Wanted& wanted : wanted_events) {
    std::error_code ignored;
    if (!fs::exists(pmu / "events" / wanted.event, ignored)) continue;
    for (const int cpu : mask) {
      const bool platform = wanted.scope == EnergyScope::node;
      if (platform && cpu != mask.front()) continue;  // one counter, whichever package is asked
      Sensor& sensor = sensors.emplace_back();
      MeterFinding& finding = sensor.finding;
      finding.domain = "perf:" + (platform ? "psys" : names.at(cpu) + wanted.suffix);
      if (!platform && whole_packages && !packages_seen.insert({wanted.event, packages.at(cpu)}).second) {
        finding.reason = "duplicate";
        finding.detail = "this vendor's counter covers the package, which another die already reports";
        continue;
      }
      finding.scope = wanted.scope;
      try {
        const std::string event = wanted.event, unit = sysfs::read_text(pmu / "events" / (event + ".unit"));
        sensor.joules_per_count = sysfs::read_number(pmu / "events" / (event + ".scale"));
        if (unit != "Joules" || !(sensor.joules_per_count > 0))
          throw std::system_error(
              EINVAL, std::generic_category(),
              (pmu / "events" / event).string() + " counts " + number_text(sensor.joules_per_count) + " " + unit);
        sensor.event = std::make_shared<Event>(type, read_config(pmu, event), cpu, finding.domain);
      } catch (const std::system_error& error) {
        explain(error, finding);
      }
    }
  }
  if (sensors.empty()) {
    MeterFinding& none = findings.emplace_back();
    none.domain = "perf";
    none.reason = "unsupported";
    none.detail = pmu.string() + " has none of the events energy-pkg, energy-ram, energy-psys";
    return findings;
  }

  std::vector<std::function<std::uint64_t()>> counters;
  for (const Sensor& sensor : sensors)
    if (sensor.event) counters.push_back([event = sensor.event.get()] { return event->count(); });
  const std::vector<Watched> watched = watch(counters);
  std::size_t next = 0;
  for (Sensor& sensor : sensors) {
    MeterFinding& finding = sensor.finding;
    if (sensor.event) {
      const Watched& seen = watched[next++];
      if (seen.error) {
        explain(*seen.error, finding);
      } else if (!seen.moved()) {
        finding.reason = "unsupported";
        finding.detail = stood_still(finding.domain, seen);
      } else {
        finding.meter = std::make_unique<CounterMeter>(
            CounterSpec{{finding.domain, *finding.scope, seen.period_seconds, {}}, sensor.joules_per_count},
            [event = sensor.event] { return event->count(); }, seen.last);
        finding.counted = true;
      }
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<MeterFinding> perf_find_meters(const MeterOptions&) {
  return perf::find_meters_in("/sys/bus/event_source/devices/power", "/sys/devices/system/cpu");
}

}  // namespace tw::power
