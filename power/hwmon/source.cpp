#include "power/hwmon/source.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <set>
#include <system_error>

#include "power/hwmon/rails.hpp"
#include "power/integrator.hpp"
#include "power/powercap/zones.hpp"
#include "power/sysfs.hpp"
#include "power/watch.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double sample_seconds = 0.1;
constexpr double unknown_average_seconds = 1;  // ACPI meters without an interval; on the safe side

struct Sensor {
  hwmon::Rail rail;
  fs::path file;  // energyN_input, powerN_average or powerN_input, in this order of preference
  bool is_energy = false, is_average = false;
  double average_seconds = 0;
};

std::string read_or_empty(const fs::path& file) {
  try {
    return sysfs::read_text(file);
  } catch (const std::system_error&) {
    return {};
  }
}

/// "power12_average" → "power12"; empty where it is neither power nor energy.
std::string channel_of(const std::string& file) {
  const std::size_t underscore = file.find('_');
  if (underscore == std::string::npos || (file.rfind("power", 0) != 0 && file.rfind("energy", 0) != 0)) return {};
  const std::string rest = file.substr(underscore);
  return rest == "_input" || rest == "_average" ? file.substr(0, underscore) : std::string();
}

std::vector<Sensor> enumerate(const fs::path& folder) {
  std::vector<Sensor> sensors;
  std::error_code none;
  std::set<fs::path> chips;  // in a fixed order
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) chips.insert(entry.path());
  for (const fs::path& chip : chips) {
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
        sensor.rail.chip = read_or_empty(chip / "name");
        if (sensor.rail.chip.empty()) sensor.rail.chip = read_or_empty(place / "name");
        sensor.rail.label = read_or_empty(with("_label"));
        if (sensor.rail.label.empty()) sensor.rail.label = read_or_empty(with("_oem_info"));
        sensor.rail.battery = read_or_empty(with("_is_battery")) == "1";
        sensor.is_energy = channel.rfind("energy", 0) == 0;
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

class HwmonMeter : public EnergyMeter {
 public:
  HwmonMeter(std::string domain, EnergyScope scope, double update_period_seconds)
      : domain_(std::move(domain)), scope_(scope), update_period_seconds_(update_period_seconds) {}
  std::string domain() const override { return domain_; }
  EnergyScope scope() const override { return scope_; }
  double update_period_seconds() const override { return update_period_seconds_; }
  double wrap_seconds() const override { return std::numeric_limits<double>::infinity(); }
  double maximum_power_watts() const override { return powercap::default_maximum_watts(scope_); }
  bool maximum_power_is_default() const override { return true; }

 private:
  std::string domain_;
  EnergyScope scope_;
  double update_period_seconds_;
};

class HwmonEnergy : public HwmonMeter {
 public:
  HwmonEnergy(fs::path file, std::uint64_t first_uj, std::string domain, EnergyScope scope,
              double update_period_seconds)
      : HwmonMeter(std::move(domain), scope, update_period_seconds),
        file_(std::move(file)),
        first_uj_(first_uj),
        last_uj_(first_uj) {}
  EnergyMethod method() const override { return EnergyMethod::counter; }
  EnergySample read() override {
    const auto before = Clock::now();
    const std::uint64_t value = sysfs::read_integer(file_);
    const auto after = Clock::now();
    if (value < last_uj_)  // the drivers widen to 64 bits
      throw std::system_error(
          EIO, std::generic_category(),
          file_.string() + " went back from " + std::to_string(last_uj_) + " to " + std::to_string(value) + " uJ");
    last_uj_ = value;
    return {before + (after - before) / 2, static_cast<double>(value - first_uj_) * 1e-6};
  }

 private:
  fs::path file_;
  std::uint64_t first_uj_, last_uj_;
};

class HwmonPower : public HwmonMeter {
 public:
  HwmonPower(const fs::path& file, const std::string& domain, EnergyScope scope, double period_seconds)
      : HwmonMeter(domain, scope, period_seconds),
        integrator_(
            domain, [file] { return sysfs::read_number(file) * 1e-6; }, options(period_seconds)) {}
  EnergyMethod method() const override { return EnergyMethod::integrated_power; }
  EnergySample read() override { return integrator_.read(); }
  double joules_between(const EnergySample& from, const EnergySample& to) override {
    return integrator_.joules_between(from, to);
  }

 private:
  static IntegratorOptions options(double period_seconds) {
    return {period_seconds, std::max(2.0, 10 * period_seconds), true};
  }
  PowerIntegrator integrator_;
};

void open_energy(const Sensor& sensor, MeterFinding& finding) {
  const Watched seen = watch({[&] { return sysfs::read_integer(sensor.file); }})[0];
  if (seen.error) throw *seen.error;
  if (!seen.moved) {
    finding.reason = "unsupported";
    finding.detail = sensor.file.string() + " stood still at " + std::to_string(seen.last) + " for " +
                     std::to_string(seen.period_seconds) + " s";
    return;
  }
  finding.meter =
      std::make_unique<HwmonEnergy>(sensor.file, seen.last, finding.domain, *finding.scope, seen.period_seconds);
}

void open_power(const Sensor& sensor, MeterFinding& finding) {
  if (sysfs::read_number(sensor.file) == 0) {
    finding.reason = "unsupported";  // integrated, it would report 0 J for what certainly uses power
    finding.detail = sensor.file.string() + " shows 0 W";
    return;
  }
  finding.meter = std::make_unique<HwmonPower>(sensor.file, finding.domain, *finding.scope,
                                               std::max(sample_seconds, sensor.average_seconds));
  if (sensor.is_average)
    finding.detail = sensor.file.string() + " averages over " + std::to_string(sensor.average_seconds) + " s";
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
  if (sensors.empty()) {
    MeterFinding& none = findings.emplace_back();
    none.domain = "hwmon";
    none.reason = "no_driver";
    none.detail =
        folder.string() + " shows no power or energy sensor: load the module acpi_power_meter where the board has one";
    none.grant = "modprobe acpi_power_meter";
    return findings;
  }
  const std::vector<RailUse> uses = ::tw::classify(sensors);
  for (std::size_t i = 0; i < sensors.size(); ++i) {
    MeterFinding& finding = findings.emplace_back();
    finding.domain = uses[i].domain;
    finding.scope = uses[i].scope;
    finding.reason = uses[i].reason;
    finding.detail = uses[i].detail;
    if (!finding.scope) continue;
    try {
      if (sensors[i].is_energy)
        open_energy(sensors[i], finding);
      else
        open_power(sensors[i], finding);
      finding.counted = finding.meter != nullptr;
    } catch (const std::system_error& error) {
      sysfs::explain(error, finding);
      if (finding.reason == "permission") finding.grant = "chmod a+r " + sensors[i].file.string();
    }
  }
  return findings;
}

bool hwmon::shows_node(const fs::path& folder) {
  const std::vector<RailUse> uses = ::tw::classify(enumerate(folder));
  return std::any_of(uses.begin(), uses.end(), [](const RailUse& use) { return use.domain == "hwmon:node"; });
}

std::vector<MeterFinding> hwmon_find_meters(const MeterOptions&) { return hwmon::find_meters_in("/sys/class/hwmon"); }

}  // namespace tw
