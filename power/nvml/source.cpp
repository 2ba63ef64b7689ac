// Energy of NVIDIA GPUs: the driver's counter, and beside it power integrated over time.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>
#include <utility>

#include "power/energy_meter.hpp"
#include "power/integrator.hpp"
#include "power/nvml/library.hpp"
#include "power/nvml/power_sensor.hpp"
#include "power/powercap/zones.hpp"

namespace tw {
namespace {

using nvml::call;
using nvml::Device;
using nvml::Library;
using Clock = std::chrono::steady_clock;

constexpr double never_wraps = std::numeric_limits<double>::infinity();  // 64 bits of mJ
/// Where power is all there is, and where it only cross-checks the counter.
constexpr double counted_interval_seconds = 0.02, cross_check_interval_seconds = 0.1;
/// Of nvmlDeviceGetPowerUsage on Ampere and later; older ones are treated alike, which is on the safe side.
constexpr double averaging_seconds = 1;

struct Bound {
  double watts = powercap::default_maximum_watts(EnergyScope::device);
  bool is_default = true;
};

Bound maximum_power(const Library& library, const Device& device) {
  unsigned minimum = 0, maximum = 0;
  if (call(library.nvmlDeviceGetPowerManagementLimitConstraints, device.handle, &minimum, &maximum) == nvml::success &&
      maximum > 0)
    return {maximum * 1e-3, false};
  return {};
}

class CounterMeter : public EnergyMeter {
 public:
  CounterMeter(std::shared_ptr<const Library> library, const Device& device, unsigned long long first_mj,
               double update_period_seconds, Bound maximum)
      : library_(std::move(library)),
        device_(device),
        first_mj_(first_mj),
        last_mj_(first_mj),
        update_period_seconds_(update_period_seconds),
        maximum_(maximum) {}
  std::string domain() const override { return device_.domain(); }
  EnergyScope scope() const override { return EnergyScope::device; }
  EnergyMethod method() const override { return EnergyMethod::counter; }
  EnergySample read() override {
    unsigned long long value = 0;
    const auto before = Clock::now();
    const int code = call(library_->nvmlDeviceGetTotalEnergyConsumption, device_.handle, &value);
    const auto after = Clock::now();
    if (code != nvml::success) library_->fail(code, "nvmlDeviceGetTotalEnergyConsumption", domain());
    if (value < last_mj_)
      throw std::system_error(EIO, std::generic_category(),
                              domain() + ": the counter went back from " + std::to_string(last_mj_) + " to " +
                                  std::to_string(value) + " mJ: was the driver loaded anew?");
    last_mj_ = value;
    return {before + (after - before) / 2, static_cast<double>(value - first_mj_) * 1e-3};
  }
  double update_period_seconds() const override { return update_period_seconds_; }
  double wrap_seconds() const override { return never_wraps; }
  double maximum_power_watts() const override { return maximum_.watts; }
  bool maximum_power_is_default() const override { return maximum_.is_default; }

 private:
  std::shared_ptr<const Library> library_;
  Device device_;
  unsigned long long first_mj_, last_mj_;
  double update_period_seconds_;
  Bound maximum_;
};

class PowerMeter : public EnergyMeter {
 public:
  /// Takes the first sample; throws std::system_error where that fails.
  PowerMeter(const nvml::PowerSensor& sensor, std::string domain, double interval_seconds, double update_period_seconds,
             Bound maximum)
      : integrator_(domain, [sensor] { return sensor.watts(); }, {interval_seconds, 2, true}),
        domain_(std::move(domain)),
        update_period_seconds_(update_period_seconds),
        maximum_(maximum) {}
  std::string domain() const override { return domain_; }
  EnergyScope scope() const override { return EnergyScope::device; }
  EnergyMethod method() const override { return EnergyMethod::integrated_power; }
  EnergySample read() override { return integrator_.read(); }
  double joules_between(const EnergySample& from, const EnergySample& to) override {
    return integrator_.joules_between(from, to);
  }
  double update_period_seconds() const override { return update_period_seconds_; }
  double wrap_seconds() const override { return never_wraps; }
  double maximum_power_watts() const override { return maximum_.watts; }
  bool maximum_power_is_default() const override { return maximum_.is_default; }

 private:
  PowerIntegrator integrator_;
  std::string domain_;
  double update_period_seconds_;
  Bound maximum_;
};

/// What polling showed about one number.
struct Watched {
  int code = nvml::success;
  double last = 0;
  std::vector<Clock::time_point> changes;

  void note(double value, bool first) {
    if (!first && value != last) changes.push_back(Clock::now());
    last = value;
  }
  double period_seconds(double watched_seconds) const {
    if (changes.size() < 2) return watched_seconds;  // slower than we watched
    std::vector<double> intervals;
    for (std::size_t i = 1; i < changes.size(); ++i)
      intervals.push_back(std::chrono::duration<double>(changes[i] - changes[i - 1]).count());
    const auto middle = intervals.begin() + static_cast<std::ptrdiff_t>(intervals.size() / 2);
    std::nth_element(intervals.begin(), middle, intervals.end());
    return *middle;
  }
};

struct Gpu {
  Device device;
  nvml::PowerSensor sensor;
  Watched energy, power;
  unsigned long long last_mj = 0;
  /// A counter that stood still does not count: read on, it would report 0 J for a GPU that certainly uses power.
  bool counts() const { return energy.code == nvml::success && !energy.changes.empty(); }
};

/// Watches all GPUs together until each counter and each power reading has changed often enough, for half a second at
/// most. Returns the seconds.
double observe(const Library& library, std::vector<Gpu>& gpus) {
  constexpr std::size_t enough_changes = 8;
  constexpr auto limit = std::chrono::milliseconds(500);
  constexpr auto pause = std::chrono::microseconds(500);
  const auto start = Clock::now();
  for (bool first = true, done = false; !done; first = false) {
    done = true;
    for (Gpu& gpu : gpus) {
      if (gpu.energy.code == nvml::success) {
        gpu.energy.code = call(library.nvmlDeviceGetTotalEnergyConsumption, gpu.device.handle, &gpu.last_mj);
        gpu.energy.note(static_cast<double>(gpu.last_mj), first);
        done = done && gpu.energy.changes.size() >= enough_changes;
      }
      if (gpu.power.code == nvml::success) {
        double watts = 0;
        gpu.power.code = gpu.sensor.read(&watts);
        gpu.power.note(watts, first);
        done = done && gpu.power.changes.size() >= enough_changes;
      }
    }
    if (Clock::now() - start >= limit) break;
    if (!done) std::this_thread::sleep_for(pause);
  }
  return std::chrono::duration<double>(Clock::now() - start).count();
}

MeterFinding unavailable(std::string domain, const nvml::Unavailable& why) {
  MeterFinding finding;
  finding.domain = std::move(domain);
  finding.reason = why.reason;
  finding.detail = why.detail;
  if (why.reason == "permission")
    finding.grant = "the device files /dev/nvidiactl and /dev/nvidia* inside the container or the job's cgroup";
  return finding;
}

/// What people must know about a GPU's joules.
std::string describe(const Device& device) {
  std::string text = device.name;
  if (device.name.find("GH200") != std::string::npos)
    text += "; the sensor is the module's: it holds the Grace CPU and its memory too, do not add theirs";
  if (device.mig) text += "; MIG is on: the joules are the whole GPU's, shared by all its instances";
  return text;
}

constexpr const char* counter_function = "nvmlDeviceGetTotalEnergyConsumption";

MeterFinding counter_finding(const std::shared_ptr<const Library>& library, const Gpu& gpu, double watched_seconds) {
  MeterFinding finding;
  if (gpu.counts()) {
    finding.domain = gpu.device.domain();
    finding.detail = describe(gpu.device);
    finding.meter =
        std::make_unique<CounterMeter>(library, gpu.device, gpu.last_mj, gpu.energy.period_seconds(watched_seconds),
                                       maximum_power(*library, gpu.device));
    finding.scope = EnergyScope::device;
    finding.counted = true;
    return finding;
  }
  nvml::Unavailable why = library->explain(gpu.energy.code, counter_function);
  if (gpu.energy.code == nvml::success)
    why = {"unsupported", std::string(counter_function) + " stood still for " + std::to_string(watched_seconds) + " s"};
  finding = unavailable(gpu.device.domain(), why);
  if (gpu.power.code == nvml::success)
    finding.detail += "; power is integrated instead";
  else
    finding.scope = EnergyScope::device;
  return finding;
}

MeterFinding power_finding(const Gpu& gpu, const Library& library, double watched_seconds) {
  const std::string domain = "nvml-power:" + gpu.device.uuid;
  if (gpu.power.code != nvml::success)
    return unavailable(domain, library.explain(gpu.power.code, gpu.sensor.function()));
  const double interval_seconds = gpu.counts() ? cross_check_interval_seconds : counted_interval_seconds;
  double period_seconds = std::max(gpu.power.period_seconds(watched_seconds), interval_seconds);
  if (!gpu.sensor.instant()) period_seconds = std::max(period_seconds, averaging_seconds);
  MeterFinding finding;
  finding.domain = domain;
  try {
    finding.meter = std::make_unique<PowerMeter>(gpu.sensor, domain, interval_seconds, period_seconds,
                                                 maximum_power(library, gpu.device));
  } catch (const std::system_error& error) {
    return unavailable(domain, {"lost", error.what()});
  }
  finding.scope = EnergyScope::device;
  finding.detail = std::string(gpu.sensor.function()) + " every " +
                   std::to_string(std::lround(interval_seconds * 1e3)) + " ms" +
                   (gpu.sensor.instant() ? "" : ", which Ampere and later average over 1 s");
  if (gpu.counts()) {
    finding.reason = "duplicate";
    finding.scope.reset();
    finding.detail += "; a cross-check of " + gpu.device.domain() + ", which is counted";
  } else {
    finding.counted = true;
    finding.detail += "; " + describe(gpu.device);
  }
  return finding;
}

}  // namespace

std::vector<MeterFinding> nvml_find_meters(const MeterOptions&) {
  std::vector<MeterFinding> findings;
  nvml::Unavailable why;
  const std::shared_ptr<const Library> library = Library::open(&why);
  if (!library) {
    findings.push_back(unavailable("nvml", why));
    return findings;
  }
  std::vector<Gpu> gpus;
  for (Device& device : nvml::find_devices(*library)) {
    if (device.error.reason.empty()) {
      nvml::PowerSensor sensor(library, device);
      gpus.push_back({std::move(device), std::move(sensor), {}, {}});
    } else {
      findings.push_back(unavailable(device.uuid.empty() ? "nvml" : device.domain(), device.error));
    }
  }
  if (gpus.empty() && findings.empty()) {
    findings.push_back(unavailable("nvml", {"no_driver", "the driver shows no GPU"}));
    return findings;
  }

  const double watched_seconds = observe(*library, gpus);
  for (const Gpu& gpu : gpus) {
    findings.push_back(counter_finding(library, gpu, watched_seconds));
    findings.push_back(power_finding(gpu, *library, watched_seconds));
  }
  return findings;
}

}  // namespace tw
