// Power, temperature, clocks, utilisation, memory in use, throttle times and errors of NVIDIA GPUs.
#include "power/telemetry/telemetry.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "power/sources/nvml/library.hpp"

namespace tw::power {
namespace {

using nvml::call;
using nvml::Device;
using nvml::Library;

constexpr double unreadable = std::numeric_limits<double>::quiet_NaN();

/// Share of the multiprocessors' time in which they worked, from the driver's performance-monitor samples.
class Gpm {
 public:
  /// Null if the library or the device has none.
  static std::unique_ptr<Gpm> open(const std::shared_ptr<const Library>& library, const Device& device) {
    if (!library->nvmlGpmSampleFree || !library->nvmlGpmMetricsGet) return nullptr;
    nvml::GpmSupport support{nvml::gpm_version, 0};
    if (call(library->nvmlGpmQueryDeviceSupport, device.handle, &support) != nvml::success || support.supported == 0)
      return nullptr;
    std::unique_ptr<Gpm> gpm(new Gpm(library, device.handle));
    for (nvml::GpmSampleHandle& sample : gpm->samples_)
      if (call(library->nvmlGpmSampleAlloc, &sample) != nvml::success) return nullptr;
    if (call(library->nvmlGpmSampleGet, gpm->device_, gpm->samples_[0]) != nvml::success) return nullptr;
    gpm->sampled_ = Clock::now();
    return gpm;
  }
  ~Gpm() {
    for (nvml::GpmSampleHandle sample : samples_)
      if (sample) library_->nvmlGpmSampleFree(sample);
  }
  Gpm(const Gpm&) = delete;
  Gpm& operator=(const Gpm&) = delete;

  /// Over the time since the last new value; NaN before the first, and where that was so long ago that the time before
  /// a window would count.
  double read() {
    // Samples must lie more than 100 ms apart (NVIDIA's reference): a value read sooner is the last one.
    constexpr auto least_distance = std::chrono::milliseconds(150), most_distance = std::chrono::milliseconds(1000);
    const auto distance = Clock::now() - sampled_;
    if (distance < least_distance) return value_;
    const bool too_old = distance > most_distance;
    nvml::GpmSampleHandle next = samples_[too_old ? 0 : 1];
    if (call(library_->nvmlGpmSampleGet, device_, next) != nvml::success) return value_ = unreadable;
    sampled_ = Clock::now();
    if (too_old) return value_ = unreadable;
    request_.version = nvml::gpm_version;
    request_.count = 1;
    request_.first = samples_[0];
    request_.second = samples_[1];
    request_.metrics[0] = {};
    request_.metrics[0].id = nvml::gpm_metric_sm_utilisation;
    const int code = call(library_->nvmlGpmMetricsGet, &request_);
    const bool good = code == nvml::success && request_.metrics[0].status == nvml::success;
    value_ = good ? request_.metrics[0].value / 100 : unreadable;
    std::swap(samples_[0], samples_[1]);
    return value_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Gpm(std::shared_ptr<const Library> library, nvml::DeviceHandle device)
      : library_(std::move(library)), device_(device) {}
  std::shared_ptr<const Library> library_;
  nvml::DeviceHandle device_;
  std::array<nvml::GpmSampleHandle, 2> samples_{};
  Clock::time_point sampled_;
  double value_ = unreadable;
  nvml::GpmMetricsGet request_{};
};

/// Counts the Xid errors of one GPU from its opening on.
class XidCounter {
 public:
  static std::unique_ptr<XidCounter> open(const std::shared_ptr<const Library>& library, const Device& device) {
    if (!library->nvmlEventSetFree || !library->nvmlEventSetWait_v2) return nullptr;
    nvml::EventSetHandle set = nullptr;
    if (call(library->nvmlEventSetCreate, &set) != nvml::success) return nullptr;
    std::unique_ptr<XidCounter> counter(new XidCounter(library, set));
    if (call(library->nvmlDeviceRegisterEvents, device.handle, nvml::event_xid, set) != nvml::success) return nullptr;
    return counter;
  }
  ~XidCounter() { library_->nvmlEventSetFree(set_); }
  XidCounter(const XidCounter&) = delete;
  XidCounter& operator=(const XidCounter&) = delete;

  double read() {
    constexpr int most_at_once = 64;  // the others come with the next reading
    for (int i = 0; i < most_at_once; ++i) {
      nvml::EventData event{};
      const int code = library_->nvmlEventSetWait_v2(set_, &event, 0);
      if (code == nvml::timeout) break;
      if (code != nvml::success) return unreadable;
      if (event.type & nvml::event_xid) ++seen_;
    }
    return static_cast<double>(seen_);
  }

 private:
  XidCounter(std::shared_ptr<const Library> library, nvml::EventSetHandle set)
      : library_(std::move(library)), set_(set) {}
  std::shared_ptr<const Library> library_;
  nvml::EventSetHandle set_;
  long seen_ = 0;
};

class NvmlTelemetry : public Telemetry {
 public:
  NvmlTelemetry(std::shared_ptr<const Library> library, Device device)
      : library_(std::move(library)), device_(std::move(device)), power_(library_, device_) {
    gpm_ = Gpm::open(library_, device_);
    xid_ = XidCounter::open(library_, device_);
    const nvml::ThrottleFields ids = nvml::throttle_fields_of(library_->driver_version());
    fields_ = {{{ids.power_cap}, {ids.software_thermal}, {ids.hardware_thermal}, {ids.brake}}};
    for (ThrottleField& field : fields_) field.used = field.id != 0;
    read_fields();
    for (ThrottleField& field : fields_) field.used = !std::isnan(field.seconds);
    // What answers now is a channel; the others are absent.
    for (const Quantity& quantity : quantities) {
      const bool is_gpm = quantity.read == &NvmlTelemetry::sm_active;
      if (is_gpm ? gpm_ == nullptr : std::isnan((this->*quantity.read)())) continue;
      channels_.push_back({device_.domain(), quantity.name, quantity.cumulative});
      read_.push_back(quantity.read);
    }
  }

  const std::vector<Channel>& channels() const override { return channels_; }
  void read(std::span<double> values) override {
    read_fields();
    for (std::size_t i = 0; i < values.size() && i < read_.size(); ++i) values[i] = (this->*read_[i])();
  }

 private:
  using Read = double (NvmlTelemetry::*)();
  struct Quantity {
    const char* name;
    bool cumulative;
    Read read;
  };
  static const std::array<Quantity, 12> quantities;

  double power() {
    double watts = 0;
    return power_.read(&watts) == nvml::success ? watts : unreadable;
  }
  double temperature() {
    unsigned celsius = 0;
    const int code = call(library_->nvmlDeviceGetTemperature, device_.handle, nvml::temperature_gpu, &celsius);
    return code == nvml::success ? celsius : unreadable;
  }
  double clock(int which) {
    unsigned mhz = 0;
    return call(library_->nvmlDeviceGetClockInfo, device_.handle, which, &mhz) == nvml::success ? mhz : unreadable;
  }
  double sm_clock() { return clock(nvml::clock_sm); }
  double memory_clock() { return clock(nvml::clock_memory); }
  double utilisation() {
    nvml::Utilization rates{};
    const int code = call(library_->nvmlDeviceGetUtilizationRates, device_.handle, &rates);
    return code == nvml::success ? rates.gpu / 100.0 : unreadable;
  }
  double sm_active() { return gpm_ ? gpm_->read() : unreadable; }
  double memory_used() {
    nvml::Memory memory{};
    const int code = call(library_->nvmlDeviceGetMemoryInfo, device_.handle, &memory);
    return code == nvml::success ? static_cast<double>(memory.used_bytes) : unreadable;
  }
  /// A throttle time. Whether it is used is decided once, by whether it answers at first: the accounts of two sources
  /// begin at different times, so that one must not replace the other later.
  struct ThrottleField {
    unsigned id = 0;
    bool used = false;
    double seconds = unreadable;
  };
  /// All fields that are used in one call.
  void read_fields() {
    std::array<nvml::FieldValue, 4> asked{};
    int count = 0;
    for (const ThrottleField& field : fields_)
      if (field.used) asked[static_cast<std::size_t>(count++)].field_id = field.id;
    const bool answers =
        count > 0 && call(library_->nvmlDeviceGetFieldValues, device_.handle, count, asked.data()) == nvml::success;
    const nvml::FieldValue* next = asked.data();
    for (ThrottleField& field : fields_) {
      const auto nanoseconds = field.used && answers ? nvml::field_number(*next) : std::nullopt;
      field.seconds = nanoseconds ? *nanoseconds * 1e-9 : unreadable;
      next += field.used ? 1 : 0;
    }
  }
  /// What drivers without the fields have; of heat it counts what the driver's software has slowed down for.
  double violation_seconds(int policy) {
    nvml::ViolationTime time{};
    const int code = call(library_->nvmlDeviceGetViolationStatus, device_.handle, policy, &time);
    return code == nvml::success ? static_cast<double>(time.violation_nanoseconds) * 1e-9 : unreadable;
  }
  double throttle_power_cap() {
    const ThrottleField& field = fields_[0];
    return field.used ? field.seconds : violation_seconds(nvml::policy_power);
  }
  double throttle_thermal() {
    const ThrottleField &software = fields_[1], &hardware = fields_[2];
    if (!software.used && !hardware.used) return violation_seconds(nvml::policy_thermal);
    // Counted apart, and they may overlap: the sum is an upper bound.
    return (software.used ? software.seconds : 0) + (hardware.used ? hardware.seconds : 0);
  }
  double throttle_brake() { return fields_[3].seconds; }
  double ecc_errors() {
    double sum = 0;
    for (const int type : {nvml::ecc_corrected, nvml::ecc_uncorrected}) {
      unsigned long long errors = 0;
      if (call(library_->nvmlDeviceGetTotalEccErrors, device_.handle, type, nvml::ecc_volatile, &errors) !=
          nvml::success)
        return unreadable;
      sum += static_cast<double>(errors);
    }
    return sum;
  }
  double xid_errors() { return xid_ ? xid_->read() : unreadable; }

  std::shared_ptr<const Library> library_;
  Device device_;
  nvml::PowerSensor power_;
  std::array<ThrottleField, 4> fields_{};  // power cap, thermal by software and by hardware, brake
  std::unique_ptr<Gpm> gpm_;
  std::unique_ptr<XidCounter> xid_;
  std::vector<Channel> channels_;
  std::vector<Read> read_;
};

const std::array<NvmlTelemetry::Quantity, 12> NvmlTelemetry::quantities = {{
    {"power_w", false, &NvmlTelemetry::power},
    {"temperature_c", false, &NvmlTelemetry::temperature},
    {"sm_clock_mhz", false, &NvmlTelemetry::sm_clock},
    {"memory_clock_mhz", false, &NvmlTelemetry::memory_clock},
    {"utilisation", false, &NvmlTelemetry::utilisation},
    {"sm_active", false, &NvmlTelemetry::sm_active},
    {"memory_used_bytes", false, &NvmlTelemetry::memory_used},
    {"throttle_power_cap_s", true, &NvmlTelemetry::throttle_power_cap},
    {"throttle_thermal_s", true, &NvmlTelemetry::throttle_thermal},
    {"throttle_brake_s", true, &NvmlTelemetry::throttle_brake},
    {"ecc_errors", true, &NvmlTelemetry::ecc_errors},
    {"xid_errors", true, &NvmlTelemetry::xid_errors},
}};

}  // namespace

std::vector<TelemetryFinding> nvml_find_telemetry() {
  std::vector<TelemetryFinding> findings;
  Unavailable why;
  const std::shared_ptr<const Library> library = Library::open(&why);
  if (!library) {
    findings.push_back({"nvml", nullptr, why.reason, why.detail});
    return findings;
  }
  for (Device& device : nvml::find_devices(*library)) {
    std::string domain = device.uuid.empty() ? "nvml" : device.domain();
    if (!device.error.reason.empty()) {
      findings.push_back({std::move(domain), nullptr, device.error.reason, device.error.detail});
      continue;
    }
    auto telemetry = std::make_unique<NvmlTelemetry>(library, std::move(device));
    if (telemetry->channels().empty())
      findings.push_back({std::move(domain), nullptr, "unsupported", "the GPU answers none of the functions"});
    else
      findings.push_back({std::move(domain), std::move(telemetry), "", ""});
  }
  if (findings.empty()) findings.push_back({"nvml", nullptr, "no_driver", "the driver shows no GPU"});
  return findings;
}

}  // namespace tw::power
