// Energy of NVIDIA GPUs: the driver's counter, and beside it power integrated over time.
#include <algorithm>
#include <cmath>
#include <utility>

#include "power/meter/energy_meter.hpp"
#include "power/meter/sensor_meter.hpp"
#include "power/meter/watch.hpp"
#include "power/sources/nvml/library.hpp"

namespace tw::power {
namespace {

using nvml::call;
using nvml::Device;
using nvml::Library;

/// Where power is all there is, and where it only cross-checks the counter.
constexpr double counted_interval_seconds = 0.02, cross_check_interval_seconds = 0.1;
/// Of nvmlDeviceGetPowerUsage on Ampere and later; older ones are treated alike, which is on the safe side.
constexpr double averaging_seconds = 1;

std::optional<double> maximum_watts(const Library& library, const Device& device) {
  unsigned minimum = 0, maximum = 0;
  if (call(library.nvmlDeviceGetPowerManagementLimitConstraints, device.handle, &minimum, &maximum) == nvml::success &&
      maximum > 0)
    return maximum * 1e-3;
  return std::nullopt;
}

constexpr const char* counter_function = "nvmlDeviceGetTotalEnergyConsumption";

/// In mJ; 64 bits of them never wrap.
std::uint64_t read_counter(const Library& library, const Device& device) {
  unsigned long long value = 0;
  const int code = call(library.nvmlDeviceGetTotalEnergyConsumption, device.handle, &value);
  if (code != nvml::success) library.fail(code, counter_function, device.domain());
  return value;
}

struct Gpu {
  Device device;
  nvml::PowerSensor sensor;
  Watched energy, power;  // in mJ, mW
  /// A counter that stood still does not count: read on, it would report 0 J for a GPU that certainly uses power.
  bool counts() const { return !energy.error && energy.moved(); }
};

/// Watches all counters and all powers together.
void observe(const Library& library, std::vector<Gpu>& gpus) {
  Numbers counters, powers;
  for (const Gpu& gpu : gpus) {
    counters.push_back([&] { return read_counter(library, gpu.device); });
    powers.push_back([&] { return static_cast<std::uint64_t>(std::llround(gpu.sensor.watts() * 1e3)); });
  }
  std::vector<Watched> watched = watch(counters, powers);
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    gpus[i].energy = std::move(watched[i]);
    gpus[i].power = std::move(watched[gpus.size() + i]);
  }
}

MeterFinding unavailable(std::string domain, const Unavailable& why) {
  const bool permission = why.reason == "permission";
  return {.domain = std::move(domain),
          .reason = why.reason,
          .detail = why.detail,
          .grant = permission
                       ? "the device files /dev/nvidiactl and /dev/nvidia* inside the container or the job's cgroup"
                       : ""};
}

/// What people must know about a GPU's joules.
std::string describe(const Device& device) {
  std::string text = device.name;
  if (device.name.find("GH200") != std::string::npos)
    text += "; the sensor covers the module with the Grace CPU and its memory: do not add theirs";
  if (device.mig) text += "; MIG is on: the joules are those of the whole GPU, shared by all its instances";
  return text;
}

MeterFinding counter_finding(const std::shared_ptr<const Library>& library, const Gpu& gpu) {
  MeterFinding finding;
  if (gpu.counts()) {
    finding.domain = gpu.device.domain();
    finding.detail = describe(gpu.device);
    finding.meter = std::make_unique<CounterMeter>(
        CounterSpec{
            {finding.domain, EnergyScope::device, gpu.energy.period_seconds, maximum_watts(*library, gpu.device)},
            1e-3},
        [library, device = gpu.device] { return read_counter(*library, device); }, gpu.energy.last);
    finding.scope = EnergyScope::device;
    finding.counted = true;
    finding.shared = gpu.device.mig;
    return finding;
  }
  const Unavailable why = gpu.energy.error ? library->explain(gpu.energy.error->code().value(), counter_function)
                                           : Unavailable{"unsupported", stood_still(counter_function, gpu.energy)};
  finding = unavailable(gpu.device.domain(), why);
  if (!gpu.power.error)
    finding.detail += "; power is integrated instead";
  else
    finding.scope = EnergyScope::device;
  return finding;
}

MeterFinding power_finding(const Gpu& gpu, const Library& library) {
  const std::string domain = "nvml-power:" + gpu.device.uuid;
  if (gpu.power.error)
    return unavailable(domain, library.explain(gpu.power.error->code().value(), gpu.sensor.function()));
  const double interval_seconds = gpu.counts() ? cross_check_interval_seconds : counted_interval_seconds;
  double period_seconds = std::max(gpu.power.period_seconds, interval_seconds);
  if (!gpu.sensor.instant()) period_seconds = std::max(period_seconds, averaging_seconds);
  MeterFinding finding;
  finding.domain = domain;
  try {
    finding.meter = std::make_unique<IntegratedMeter>(
        SensorSpec{domain, EnergyScope::device, period_seconds, maximum_watts(library, gpu.device)},
        [sensor = gpu.sensor] { return sensor.watts(); }, IntegratorOptions{interval_seconds, 2, true});
  } catch (const std::system_error& error) {
    return unavailable(domain, {"lost", error.what()});
  }
  finding.scope = EnergyScope::device;
  finding.shared = gpu.device.mig;
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
  Unavailable why;
  const std::shared_ptr<const Library> library = Library::open(&why);
  if (!library) return MeterFinding::only(unavailable("nvml", why));
  std::vector<Gpu> gpus;
  for (Device& device : nvml::find_devices(*library)) {
    if (device.error.reason.empty()) {
      nvml::PowerSensor sensor(library, device);
      gpus.push_back({std::move(device), std::move(sensor), {}, {}});
    } else {
      findings.push_back(unavailable(device.uuid.empty() ? "nvml" : device.domain(), device.error));
    }
  }
  if (gpus.empty() && findings.empty())
    return MeterFinding::only(unavailable("nvml", {"no_driver", "the driver shows no GPU"}));
  observe(*library, gpus);
  for (const Gpu& gpu : gpus) {
    findings.push_back(counter_finding(library, gpu));
    findings.push_back(power_finding(gpu, *library));
  }
  return findings;
}

}  // namespace tw::power
