// Clocks and power limits of NVIDIA GPUs.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <thread>
#include <utility>

#include "power/knob/knob.hpp"
#include "power/meter/number_text.hpp"
#include "power/sources/nvml/library.hpp"

namespace tw::power {
namespace {

using nvml::call;
using nvml::Device;
using nvml::Library;

/// A set point that the driver answered with an error.
[[noreturn]] void refuse(const Library& library, int code, const char* function, const std::string& what) {
  const Unavailable why = library.explain(code, function);
  const bool known = why.reason == "permission" || why.reason == "unsupported";
  const std::string reason = code == nvml::invalid_argument ? "out_of_range" : known ? why.reason : "refused";
  throw NotApplied(reason, what + ": " + why.detail + (reason == "permission" ? "; it takes root" : ""));
}

/// Ascending; empty with the code where the device lists none.
std::vector<double> listed(int* code, const auto& ask) {
  std::vector<unsigned> found;
  unsigned count = 0;
  *code = ask(&count, static_cast<unsigned*>(nullptr));
  if (*code != nvml::success && *code != nvml::insufficient_size) return {};
  found.resize(count);
  *code = ask(&count, found.data());
  if (*code != nvml::success) return {};
  found.resize(std::min<std::size_t>(count, found.size()));
  const std::set<double> values(found.begin(), found.end());
  return {values.begin(), values.end()};
}

std::vector<double> memory_clocks(const Library& library, const Device& device, int* code) {
  return listed(code, [&](unsigned* count, unsigned* mhz) {
    return call(library.nvmlDeviceGetSupportedMemoryClocks, device.handle, count, mhz);
  });
}

/// At the highest memory clock, which is where training runs.
std::vector<double> graphics_clocks(const Library& library, const Device& device, int* code) {
  const std::vector<double> memory = memory_clocks(library, device, code);
  if (memory.empty()) return {};
  return listed(code, [&](unsigned* count, unsigned* mhz) {
    return call(library.nvmlDeviceGetSupportedGraphicsClocks, device.handle, static_cast<unsigned>(memory.back()),
                count, mhz);
  });
}

/// What is different between the two clocks.
struct ClockKind {
  KnobKind kind;
  int clock;
  const char *set_name, *reset_name, *list_name;
  decltype(Library::nvmlDeviceSetGpuLockedClocks) Library::*set;
  decltype(Library::nvmlDeviceResetGpuLockedClocks) Library::*reset;
  std::vector<double> (*list)(const Library&, const Device&, int*);
};

constexpr ClockKind clock_kinds[] = {
    {KnobKind::gpu_clock, nvml::clock_sm, "nvmlDeviceSetGpuLockedClocks", "nvmlDeviceResetGpuLockedClocks",
     "nvmlDeviceGetSupportedGraphicsClocks", &Library::nvmlDeviceSetGpuLockedClocks,
     &Library::nvmlDeviceResetGpuLockedClocks, graphics_clocks},
    {KnobKind::gpu_memory_clock, nvml::clock_memory, "nvmlDeviceSetMemoryLockedClocks",
     "nvmlDeviceResetMemoryLockedClocks", "nvmlDeviceGetSupportedMemoryClocks",
     &Library::nvmlDeviceSetMemoryLockedClocks, &Library::nvmlDeviceResetMemoryLockedClocks, memory_clocks},
};

/// A clock locked to one value. The driver does not report whether a lock is in force, nor which: it can only be reset.
class ClockKnob : public Knob {
 public:
  ClockKnob(std::shared_ptr<const Library> library, Device device, const ClockKind& kind, std::vector<double> values)
      : library_(std::move(library)), device_(std::move(device)), kind_(kind), values_(std::move(values)) {}

  KnobKind kind() const override { return kind_.kind; }
  std::string domain() const override { return device_.domain(); }
  KnobRange range() const override { return {values_.front(), values_.back(), values_}; }
  std::optional<double> get() override { return std::nullopt; }
  double set(double value) override {
    const std::string what = domain() + " " + to_string(kind_.kind) + " = " + number_text(value);
    if (!std::binary_search(values_.begin(), values_.end(), value))
      throw NotApplied("out_of_range", what + ": not among the " + std::to_string(values_.size()) +
                                           " clocks that the GPU lists, " + number_text(values_.front()) + " to " +
                                           number_text(values_.back()) + "; the nearest is " +
                                           number_text(nearest(value)));
    const auto mhz = static_cast<unsigned>(value);
    if (const int code = call((*library_).*kind_.set, device_.handle, mhz, mhz); code != nvml::success)
      refuse(*library_, code, kind_.set_name, what);
    return value;
  }
  std::optional<double> observe() override {
    unsigned mhz = 0;
    const int code = call(library_->nvmlDeviceGetClockInfo, device_.handle, kind_.clock, &mhz);
    return code == nvml::success ? std::optional<double>(mhz) : std::nullopt;
  }
  KnobState save() override { return {{"lock", "unknown"}}; }
  bool is_ours(double, double) override { return true; }
  void restore(const KnobState&) override {
    if (const int code = call((*library_).*kind_.reset, device_.handle); code != nvml::success)
      refuse(*library_, code, kind_.reset_name, domain() + " " + to_string(kind_.kind));
  }
  std::string lock_evident() override;

 private:
  double nearest(double value) const {
    return *std::ranges::min_element(values_, {}, [&](double one) { return std::abs(one - value); });
  }
  std::shared_ptr<const Library> library_;
  Device device_;
  const ClockKind& kind_;
  std::vector<double> values_;
};

std::string ClockKnob::lock_evident() {
  if (kind_.kind != KnobKind::gpu_clock) return {};  // no event reason is about memory clocks
  unsigned long long reasons = 0;
  int code = call(library_->nvmlDeviceGetCurrentClocksEventReasons, device_.handle, &reasons);
  if (code == nvml::function_not_found)
    code = call(library_->nvmlDeviceGetCurrentClocksThrottleReasons, device_.handle, &reasons);
  unsigned current = 0, maximum = 0, standard = 0;
  if (code != nvml::success ||
      call(library_->nvmlDeviceGetClockInfo, device_.handle, nvml::clock_sm, &current) != nvml::success ||
      call(library_->nvmlDeviceGetMaxClockInfo, device_.handle, nvml::clock_sm, &maximum) != nvml::success)
    return {};
  const std::string clocks =
      domain() + ": the SM clock is " + std::to_string(current) + " of " + std::to_string(maximum) + " MHz";
  if ((reasons & ~nvml::reason_applications_clocks) != 0) return {};  // idle, capped, hot: explained without a lock
  if (reasons == 0) {
    // Low under load for no stated reason. Many GPUs never reach their maximum: well below it is asked for.
    nvml::Utilization rates{};
    if (call(library_->nvmlDeviceGetUtilizationRates, device_.handle, &rates) != nvml::success || rates.gpu < 90 ||
        current >= 0.8 * maximum)
      return {};
    return clocks + " under load, and the driver gives no reason: a lock seems to be in force";
  }
  // The default application clock, below the maximum on some GPUs, is not a setting of any user.
  if (call(library_->nvmlDeviceGetClock, device_.handle, nvml::clock_sm, nvml::clock_id_application_default,
           &standard) != nvml::success)
    standard = maximum;
  if (current >= 0.97 * standard) return {};
  return clocks + " because of someone's clock setting (event reason 0x2)";
}

class PowerLimitKnob : public Knob {
 public:
  PowerLimitKnob(std::shared_ptr<const Library> library, Device device, unsigned minimum_mw, unsigned maximum_mw)
      : library_(std::move(library)),
        device_(std::move(device)),
        sensor_(library_, device_),
        minimum_mw_(minimum_mw),
        maximum_mw_(maximum_mw) {}

  KnobKind kind() const override { return KnobKind::gpu_power_limit; }
  std::string domain() const override { return device_.domain(); }
  KnobRange range() const override { return {minimum_mw_ * 1e-3, maximum_mw_ * 1e-3, {}}; }
  std::optional<double> get() override { return requested_mw() * 1e-3; }
  double set(double value) override {
    write(std::round(value * 1e3), true, domain() + " gpu_power_limit_w = " + number_text(value));
    return requested_mw() * 1e-3;
  }
  std::optional<double> observe() override {
    double watts = 0;
    return sensor_.read(&watts) == nvml::success ? std::optional(watts) : std::nullopt;
  }
  KnobState save() override { return {{"requested_mw", std::to_string(requested_mw())}}; }
  bool is_ours(double requested, double accepted) override {
    const double now = requested_mw();
    return std::abs(now - requested * 1e3) < 0.5 || std::abs(now - accepted * 1e3) < 0.5;
  }
  void restore(const KnobState& found) override {
    const auto entry = found.find("requested_mw");
    const std::string text = entry == found.end() ? "" : entry->second;
    const std::string what = domain() + " gpu_power_limit_w, found as \"" + text + "\" mW";
    const auto value = whole_number(found, "requested_mw");
    if (!value) throw NotApplied("out_of_range", what + ": not a number");
    // Another limit, the board's say, may have held the GPU lower when this was found, too.
    write(static_cast<double>(*value), false, what);
  }

 private:
  static constexpr double rounding_mw = 1000;  // boards take whole watts

  /// What somebody asked for, not what is enforced: other limits may lie below it.
  unsigned requested_mw() const {
    if (const auto field = nvml::read_field(*library_, device_.handle, nvml::field_power_requested_limit))
      return static_cast<unsigned>(std::lround(*field));
    unsigned value = 0;
    const int code = call(library_->nvmlDeviceGetPowerManagementLimit, device_.handle, &value);
    if (code != nvml::success) library_->fail(code, "nvmlDeviceGetPowerManagementLimit", domain());
    return value;
  }
  /// Writes, and reads back for a moment: drivers take it within milliseconds. `binding`: no other limit may lie below.
  void write(double milliwatts, bool binding, const std::string& what) {
    if (!(milliwatts >= minimum_mw_ && milliwatts <= maximum_mw_))
      throw NotApplied("out_of_range", what + ": the GPU accepts " + number_text(minimum_mw_ * 1e-3) + " to " +
                                           number_text(maximum_mw_ * 1e-3) + " W");
    const int code =
        call(library_->nvmlDeviceSetPowerManagementLimit, device_.handle, static_cast<unsigned>(milliwatts));
    if (code != nvml::success) refuse(*library_, code, "nvmlDeviceSetPowerManagementLimit", what);
    double accepted = 0, enforced = 0;
    for (int attempt = 0; attempt < 10; ++attempt) {
      if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      accepted = requested_mw();
      unsigned value = 0;
      const int enforced_code = call(library_->nvmlDeviceGetEnforcedPowerLimit, device_.handle, &value);
      enforced = enforced_code == nvml::success ? value : accepted;
      if (std::abs(accepted - milliwatts) < rounding_mw && (!binding || enforced > accepted - rounding_mw)) return;
    }
    if (std::abs(accepted - milliwatts) >= rounding_mw)
      throw NotApplied("clamped", what + ": reads back as " + number_text(accepted * 1e-3) + " W");
    throw NotApplied("clamped", what + ": another limit holds the GPU at " + number_text(enforced * 1e-3) + " W");
  }

  std::shared_ptr<const Library> library_;
  Device device_;
  nvml::PowerSensor sensor_;
  unsigned minimum_mw_, maximum_mw_;
};

KnobFinding unavailable(KnobKind kind, std::string domain, Unavailable why) {
  return {.kind = kind, .domain = std::move(domain), .reason = std::move(why.reason), .detail = std::move(why.detail)};
}

KnobFinding available(std::unique_ptr<Knob> knob, const Device& device) {
  KnobFinding finding;
  finding.kind = knob->kind();
  finding.domain = knob->domain();
  finding.detail = device.name + (device.mig ? "; MIG is on: it changes the whole GPU, for all its instances" : "");
  finding.knob = std::move(knob);
  if (geteuid() != 0) {
    finding.reason = "permission";
    finding.detail += "; the driver lets only root change it";
    finding.grant = "run as root; or name the site's own command in --site";
    if (finding.kind != KnobKind::gpu_power_limit) finding.grant += "; or Slurm's --gpu-freq";
  }
  return finding;
}

}  // namespace

std::vector<KnobFinding> nvml_find_knobs() {
  std::vector<KnobFinding> findings;
  const auto for_each_kind = [&](const std::string& domain, const Unavailable& why) {
    for (const KnobKind kind : {KnobKind::gpu_clock, KnobKind::gpu_memory_clock, KnobKind::gpu_power_limit})
      findings.push_back(unavailable(kind, domain, why));
  };
  Unavailable why;
  const std::shared_ptr<const Library> library = Library::open(&why);
  if (!library) {
    for_each_kind("nvml", why);
    return findings;
  }
  for (const Device& device : nvml::find_devices(*library)) {
    if (!device.error.reason.empty()) {
      for_each_kind(device.uuid.empty() ? "nvml" : device.domain(), device.error);
      continue;
    }
    for (const ClockKind& kind : clock_kinds) {
      const Library& functions = *library;
      int code = nvml::success;
      std::vector<double> values;
      const char* missing = !(functions.*kind.set)     ? kind.set_name
                            : !(functions.*kind.reset) ? kind.reset_name
                                                       : nullptr;
      if (!missing) values = kind.list(functions, device, &code);
      if (missing)
        findings.push_back(
            unavailable(kind.kind, device.domain(), library->explain(nvml::function_not_found, missing)));
      else if (code != nvml::success)
        findings.push_back(unavailable(kind.kind, device.domain(), library->explain(code, kind.list_name)));
      else if (values.empty())
        findings.push_back(unavailable(kind.kind, device.domain(), {"unsupported", "the GPU lists no clocks to set"}));
      else
        findings.push_back(available(std::make_unique<ClockKnob>(library, device, kind, std::move(values)), device));
    }
    unsigned minimum = 0, maximum = 0, limit = 0;
    const char* function = "nvmlDeviceGetPowerManagementLimitConstraints";
    int code = call(library->nvmlDeviceGetPowerManagementLimitConstraints, device.handle, &minimum, &maximum);
    if (code == nvml::success) {
      function = "nvmlDeviceGetPowerManagementLimit";
      code = call(library->nvmlDeviceGetPowerManagementLimit, device.handle, &limit);
    }
    if (code == nvml::success && !library->nvmlDeviceSetPowerManagementLimit) {
      function = "nvmlDeviceSetPowerManagementLimit";
      code = nvml::function_not_found;
    }
    if (code != nvml::success)
      findings.push_back(unavailable(KnobKind::gpu_power_limit, device.domain(), library->explain(code, function)));
    else
      findings.push_back(available(std::make_unique<PowerLimitKnob>(library, device, minimum, maximum), device));
  }
  if (findings.empty()) for_each_kind("nvml", {"no_driver", "the driver shows no GPU"});
  return findings;
}

}  // namespace tw::power
