#include "power/sources/perf/source.hpp"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    descriptor_ = Descriptor(static_cast<int>(
        syscall(SYS_perf_event_open, &attributes, /*pid*/ -1, cpu, /*group*/ -1, PERF_FLAG_FD_CLOEXEC)));
    if (descriptor_.get() < 0)
      throw std::system_error(errno, std::generic_category(),
                              domain_ + ": perf_event_open on CPU " + std::to_string(cpu));
  }

  std::uint64_t count() const {
    std::uint64_t value = 0;
    const ssize_t bytes = ::read(descriptor_.get(), &value, sizeof value);
    if (bytes == sizeof value) return value;
    // An event that was put into an error state reads as end of file.
    throw std::system_error(bytes < 0 ? errno : ENODEV, std::generic_category(), domain_);
  }

 private:
  std::string domain_;
  Descriptor descriptor_;
};

/// "event=0x02" in the bits that format/event names ("config:0-7").
std::uint64_t read_config(const fs::path& pmu, const std::string& event) {
  const fs::path file = pmu / "events" / event, format_file = pmu / "format" / "event";
  const std::string text = sysfs::read_text(file), format = sysfs::read_text(format_file), key = "event=0x",
                    place = "config:";
  std::uint64_t number = 0;
  unsigned shift = 0;
  const char* end = text.data() + text.size();
  if (!text.starts_with(key) || std::from_chars(text.data() + key.size(), end, number, 16).ptr != end)
    throw std::system_error(EINVAL, std::generic_category(), file.string() + " holds \"" + text + "\"");
  if (!format.starts_with(place) ||
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
  const std::string modalias = sysfs::text_or_empty(cpus / "modalias");
  return modalias.find(",ven0002") != std::string::npos || modalias.find(",ven0009") != std::string::npos;
}

/// The folder of the events, and the CPUs that they are opened on.
struct Pmu {
  fs::path folder;
  std::uint32_t type = 0;
  std::vector<int> mask;
  std::map<int, std::uint64_t> packages;  // of the mask's CPUs
  std::map<int, std::string> names;       // likewise
  bool whole_packages = false;
};
Pmu read_pmu(const fs::path& folder, const fs::path& cpus) {
  Pmu pmu{folder,
          static_cast<std::uint32_t>(sysfs::read_integer(folder / "type")),
          sysfs::read_list(folder / "cpumask"),
          {},
          {},
          counts_whole_packages(cpus)};
  pmu.packages = find_packages(pmu.mask, cpus);
  pmu.names = name_cpus(pmu.packages, cpus);
  return pmu;
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
  if (const std::string level = sysfs::text_or_empty("/proc/sys/kernel/perf_event_paranoid"); !level.empty())
    finding.detail += "; kernel.perf_event_paranoid is " + level;
  finding.grant = "setcap cap_perfmon=ep PROGRAM, or sysctl kernel.perf_event_paranoid=0";
}

void open_event(const Pmu& pmu, const std::string& event, int cpu, Sensor& sensor) {
  const std::string path = (pmu.folder / "events" / event).string();
  try {
    const std::string unit = sysfs::read_text(path + ".unit");
    sensor.joules_per_count = sysfs::read_number(path + ".scale");
    if (unit != "Joules" || !(sensor.joules_per_count > 0))
      throw std::system_error(EINVAL, std::generic_category(),
                              path + " counts " + number_text(sensor.joules_per_count) + " " + unit);
    sensor.event = std::make_shared<Event>(pmu.type, read_config(pmu.folder, event), cpu, sensor.finding.domain);
  } catch (const std::system_error& error) {
    explain(error, sensor.finding);
  }
}

std::vector<Sensor> open_sensors(const Pmu& pmu) {
  std::set<std::pair<std::string, std::uint64_t>> packages_seen;
  std::vector<Sensor> sensors;
  for (const Wanted& wanted : wanted_events) {
    std::error_code ignored;
    if (!fs::exists(pmu.folder / "events" / wanted.event, ignored)) continue;
    for (const int cpu : pmu.mask) {
      const bool platform = wanted.scope == EnergyScope::node;
      if (platform && cpu != pmu.mask.front()) continue;  // one counter, whichever package is asked
      Sensor& sensor = sensors.emplace_back();
      sensor.finding.domain = "perf:" + (platform ? "psys" : pmu.names.at(cpu) + wanted.suffix);
      if (!platform && pmu.whole_packages && !packages_seen.insert({wanted.event, pmu.packages.at(cpu)}).second) {
        sensor.finding.explain("duplicate",
                               "this vendor's counter covers the package, which another die already reports");
        continue;
      }
      sensor.finding.scope = wanted.scope;
      open_event(pmu, wanted.event, cpu, sensor);
    }
  }
  return sensors;
}

void judge(Sensor& sensor, const Watched& seen) {
  MeterFinding& finding = sensor.finding;
  if (seen.error) return explain(*seen.error, finding);
  if (!seen.moved()) return finding.explain("unsupported", stood_still(finding.domain, seen));
  finding.meter = std::make_unique<CounterMeter>(
      CounterSpec{{finding.domain, *finding.scope, seen.period_seconds, {}}, sensor.joules_per_count},
      [event = sensor.event] { return event->count(); }, seen.last);
  finding.counted = true;
}

}  // namespace

std::vector<MeterFinding> perf::find_meters_in(const fs::path& pmu, const fs::path& cpus) {
  std::error_code ignored;
  if (!fs::exists(pmu, ignored))
    return MeterFinding::only(
        {.domain = "perf",
         .reason = "no_driver",
         .detail =
             pmu.string() + " does not exist: load the module rapl; most virtual machines and non-x86 CPUs have none",
         .grant = "modprobe rapl"});
  std::vector<Sensor> sensors;
  try {
    sensors = open_sensors(read_pmu(pmu, cpus));
  } catch (const std::system_error& error) {
    MeterFinding none{.domain = "perf"};
    explain(error, none);
    return MeterFinding::only(std::move(none));
  }
  if (sensors.empty())
    return MeterFinding::only({.domain = "perf",
                               .reason = "unsupported",
                               .detail = pmu.string() + " has none of the events energy-pkg, energy-ram, energy-psys"});

  std::vector<std::function<std::uint64_t()>> counters;
  for (const Sensor& sensor : sensors)
    if (sensor.event) counters.push_back([event = sensor.event.get()] { return event->count(); });
  const std::vector<Watched> watched = watch(counters);
  std::size_t next = 0;
  std::vector<MeterFinding> findings;
  for (Sensor& sensor : sensors) {
    if (sensor.event) judge(sensor, watched[next++]);
    findings.push_back(std::move(sensor.finding));
  }
  return findings;
}

std::vector<MeterFinding> perf_find_meters(const MeterOptions&) {
  return perf::find_meters_in("/sys/bus/event_source/devices/power", "/sys/devices/system/cpu");
}

}  // namespace tw::power
