#include "power/sources/hwmon/source.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "power/meter/number_text.hpp"
#include "power/meter/sensor_meter.hpp"
#include "power/meter/sysfs.hpp"
#include "power/meter/watch.hpp"
#include "power/sources/amdgpu/amdgpu.hpp"
#include "power/sources/hwmon/rails.hpp"

namespace tw::power {
namespace {

namespace fs = std::filesystem;

constexpr double sample_seconds = 0.1;
constexpr double unknown_average_seconds = 1;  // ACPI meters without an interval; on the safe side

struct Sensor {
  hwmon::Rail rail;
  fs::path file;  // energyN_input, powerN_average or powerN_input, in this order of preference
  bool is_energy = false, is_average = false;
  double average_seconds = 0;
};

/// "power12_average" → "power12"; empty if it is neither power nor energy.
std::string channel_of(const std::string& file) {
  const std::size_t underscore = file.find('_');
  if (underscore == std::string::npos || (!file.starts_with("power") && !file.starts_with("energy"))) return {};
  const std::string rest = file.substr(underscore);
  return rest == "_input" || rest == "_average" ? file.substr(0, underscore) : std::string();
}

std::vector<Sensor> enumerate(const fs::path& folder) {
  std::vector<Sensor> sensors;
  std::error_code none;
  for (const fs::path& chip : sysfs::sorted_entries(folder)) {
    for (const fs::path& place : {chip, chip / "device"}) {
      std::set<std::string> channels;
      for (const fs::directory_entry& entry : fs::directory_iterator(place, none))
        if (const std::string channel = channel_of(entry.path().filename().string()); !channel.empty())
          channels.insert(channel);
      for (const std::string& channel : channels) {
        Sensor sensor;
        const fs::path stem = place / channel;
        const auto with = [&](const char* suffix) { return fs::path(stem.string() + suffix); };
        sensor.rail.id = chip.filename().string() + "/" + channel;
        sensor.rail.chip = sysfs::text_or_empty(chip / "name");
        if (sensor.rail.chip.empty()) sensor.rail.chip = sysfs::text_or_empty(place / "name");
        sensor.rail.label = sysfs::text_or_empty(with("_label"));
        if (sensor.rail.label.empty()) sensor.rail.label = sysfs::text_or_empty(with("_oem_info"));
        sensor.rail.pci = sysfs::pci_address(chip / "device");
        sensor.rail.integrated = sensor.rail.chip == "amdgpu" && amdgpu::is_integrated(chip);
        sensor.rail.battery = sysfs::text_or_empty(with("_is_battery")) == "1";
        sensor.is_energy = channel.starts_with("energy");
        sensor.is_average = !sensor.is_energy && fs::exists(with("_average"), none);
        sensor.file = with(sensor.is_average ? "_average" : "_input");
        if (sensor.is_average) {
          sensor.average_seconds = unknown_average_seconds;
          try {
            sensor.average_seconds = sysfs::read_number(with("_average_interval")) * 1e-3;
          } catch (const std::system_error&) {  // then as unknown
          }
        }
        sensors.push_back(std::move(sensor));
      }
    }
  }
  return sensors;
}

void open_energy(const Sensor& sensor, const Watched& seen, MeterFinding& finding) {
  if (seen.error) throw *seen.error;
  if (!seen.moved()) return finding.explain("unsupported", stood_still(sensor.file.string(), seen));
  finding.meter = std::make_unique<CounterMeter>(
      CounterSpec{{finding.domain, *finding.scope, seen.period_seconds, {}}},
      [file = std::make_shared<sysfs::NumberFile>(sensor.file)] { return file->read_integer(); }, seen.last);
}

/// How often counters of energy change, and what shows the power of the moment: drivers refresh that each millisecond
/// or each second, and do not say. All are watched together. A power that does not change may be as old as the time for
/// which it was watched.
std::map<const Sensor*, Watched> watch_all(const std::vector<const Sensor*>& energies,
                                           const std::vector<const Sensor*>& powers) {
  const auto numbers = [](const std::vector<const Sensor*>& sensors) {
    Numbers all;
    for (const Sensor* sensor : sensors) all.push_back([sensor] { return sysfs::read_integer(sensor->file); });
    return all;
  };
  Patience patience;
  if (!powers.empty()) patience.usual_seconds = 1.1;
  if (energies.empty()) patience.enough_changes = 6, patience.limit_seconds = patience.usual_seconds;
  std::map<const Sensor*, Watched> seen;
  if (energies.empty() && powers.empty()) return seen;
  std::vector<Watched> watched = watch(numbers(energies), numbers(powers), patience);
  for (std::size_t i = 0; i < watched.size(); ++i)
    seen.emplace(i < energies.size() ? energies[i] : powers[i - energies.size()], std::move(watched[i]));
  return seen;
}

void open_power(const Sensor& sensor, double refresh_seconds, MeterFinding& finding) {
  if (sysfs::read_number(sensor.file) == 0)  // integrated, it would report 0 J for what certainly uses power
    return finding.explain("unsupported", sensor.file.string() + " shows 0 W");
  const double period_seconds = std::max(sample_seconds, sensor.average_seconds);
  const double update_seconds = std::max(period_seconds, refresh_seconds);
  finding.meter = std::make_unique<IntegratedMeter>(
      SensorSpec{finding.domain, *finding.scope, update_seconds, {}},
      [file = std::make_shared<sysfs::NumberFile>(sensor.file)] { return file->read_number() * 1e-6; },
      IntegratorOptions{period_seconds, std::max(2.0, 10 * period_seconds), true});
  if (sensor.is_average)
    finding.detail += (finding.detail.empty() ? "" : "; ") + sensor.file.string() + " averages over " +
                      number_text(sensor.average_seconds) + " s";
}

std::vector<hwmon::RailUse> classify(const std::vector<Sensor>& sensors) {
  std::vector<hwmon::Rail> rails;
  for (const Sensor& sensor : sensors) rails.push_back(sensor.rail);
  return hwmon::classify(rails);
}

}  // namespace

std::vector<MeterFinding> hwmon::find_meters_in(const fs::path& folder) {
  std::vector<MeterFinding> findings;
  const std::vector<Sensor> sensors = enumerate(folder);
  if (sensors.empty())
    return MeterFinding::only({.domain = "hwmon",
                               .reason = "no_driver",
                               .detail = folder.string() +
                                         " shows no power or energy sensor: load the module acpi_power_meter where "
                                         "the board has one",
                               .grant = "modprobe acpi_power_meter"});
  const std::vector<RailUse> uses = ::tw::power::classify(sensors);
  std::vector<const Sensor*> energies, of_the_moment;
  for (std::size_t i = 0; i < sensors.size(); ++i) {
    if (!uses[i].scope) continue;
    if (sensors[i].is_energy)
      energies.push_back(&sensors[i]);
    else if (!sensors[i].is_average)
      of_the_moment.push_back(&sensors[i]);
  }
  const std::map<const Sensor*, Watched> seen = watch_all(energies, of_the_moment);
  for (std::size_t i = 0; i < sensors.size(); ++i) {
    MeterFinding& finding = findings.emplace_back(MeterFinding{
        .domain = uses[i].domain, .scope = uses[i].scope, .reason = uses[i].reason, .detail = uses[i].detail});
    if (!finding.scope) continue;
    try {
      if (sensors[i].is_energy)
        open_energy(sensors[i], seen.at(&sensors[i]), finding);
      else
        open_power(sensors[i], sensors[i].is_average ? 0 : seen.at(&sensors[i]).period_seconds, finding);
      finding.counted = finding.meter != nullptr;
    } catch (const std::system_error& error) {
      sysfs::explain(error, finding);
      if (finding.reason == "permission") finding.grant = "chmod a+r " + sensors[i].file.string();
    }
  }
  return findings;
}

bool hwmon::reads_node(const fs::path& folder) {
  const std::vector<Sensor> sensors = enumerate(folder);
  const std::vector<RailUse> uses = ::tw::power::classify(sensors);
  for (std::size_t i = 0; i < sensors.size(); ++i)
    if (uses[i].domain == "hwmon:node" && sysfs::number_or_none(sensors[i].file).value_or(0) > 0) return true;
  return false;
}

std::vector<MeterFinding> hwmon_find_meters(const MeterOptions&) { return hwmon::find_meters_in("/sys/class/hwmon"); }

}  // namespace tw::power
