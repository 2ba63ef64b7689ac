// libnvidia-ml.so.1, opened where it is there: its functions, its devices, what its errors mean.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "power/sources/gpu_sight.hpp"
#include "power/sources/nvml/abi.hpp"
#include "power/sources/shared_library.hpp"

namespace tw::power::nvml {

inline constexpr const char* default_library = "libnvidia-ml.so.1";

/// The open library, initialised; closed with the last one who holds it. All functions may be called from any thread.
/// A function that this version of the library lacks is null.
class Library {
 public:
  /// Null if the library or its driver is not there; `why` then says why.
  static std::shared_ptr<const Library> open(Unavailable* why, const char* name = default_library);
  ~Library();

#define TW_NVML(name, parameters) int(*name) parameters = nullptr;
#include "power/sources/nvml/functions.def"

  /// "580.82.07"; empty if the library does not report it.
  std::string driver_version() const;
  /// "Insufficient Permissions (NVML error 4)".
  std::string text(int code) const;
  /// What an error of `function` means for a finding; it names the function, or the symbol that is missing.
  Unavailable explain(int code, const char* function) const;
  /// "GPU is lost", … thrown where something that once answered fails.
  [[noreturn]] void fail(int code, const char* function, const std::string& domain) const;

 private:
  Library() = default;
  const char* (*error_string_)(int) = nullptr;
  SharedLibrary file_;
  bool initialised_ = false;
};

/// Calls a function of the table; function_not_found where this library lacks it.
template <typename Function, typename... Arguments>
int call(Function* function, Arguments... arguments) {
  return function ? function(arguments...) : static_cast<int>(function_not_found);
}

/// One physical GPU.
struct Device {
  DeviceHandle handle = nullptr;
  std::string uuid;                  ///< "GPU-…"
  std::string name;                  ///< "NVIDIA H100 80GB HBM3"
  bool mig = false;                  ///< cut into instances: power, energy and clocks are the whole GPU's
  std::optional<std::uint64_t> pci;  ///< its place on the PCI buses, ascending as CUDA's PCI_BUS_ID
  Unavailable error;                 ///< where it cannot be asked; then `uuid` may be "#3", its number
  std::string domain() const { return "nvml:" + uuid; }
};

/// All GPUs that this process may see, in the driver's order. CUDA_VISIBLE_DEVICES plays no part.
/// An error of the count is a single entry with an empty uuid.
std::vector<Device> find_devices(const Library& library);

/// What a CUDA_VISIBLE_DEVICES text names.
struct Named {
  std::vector<Device> devices;  ///< in its order, without repetition
  std::string unclear;  ///< why it is not known what its numbers name; `devices` are then those that it names otherwise
};
/// Of all that find_devices() found: "GPU-…" (a unique beginning suffices), "MIG-…" or "MIG-GPU-…/1/0" of drivers
/// before 470 (its parent), or numbers. As CUDA does, counts only what this process can open, and stops at the first
/// entry that names nothing. CUDA numbers by PCI bus where CUDA_DEVICE_ORDER is PCI_BUS_ID, else by speed, which is the
/// same among equal GPUs and not known here among others.
Named visible_devices(const Library& library, const std::vector<Device>& all, std::string_view visible,
                      bool by_pci_bus);

/// Domains ("nvml:GPU-…") of the GPUs that this process can ask, and of those that its programs may use: what
/// CUDA_VISIBLE_DEVICES names, all of the former where it is unset. Empty without a driver.
Sight look();

/// name_of_gpu() of power/visible_gpus.hpp.
GpuName name_of(const std::string& uuid);

/// names_of_gpus() of power/visible_gpus.hpp.
std::vector<std::string> names_of_visible();

/// One field value as a number; nullopt if the device does not have it.
std::optional<double> field_number(const FieldValue& field);
std::optional<double> read_field(const Library& library, DeviceHandle device, unsigned id);

/// Field 186, the power of the moment, where the device has it; else nvmlDeviceGetPowerUsage, which Ampere and later
/// average over 1 s (but for GA100). May be read from any thread.
class PowerSensor {
 public:
  PowerSensor(std::shared_ptr<const Library> library, const Device& device);
  bool instant() const { return instant_; }
  /// The function that answers, for messages.
  const char* function() const { return instant_ ? "nvmlDeviceGetFieldValues(186)" : "nvmlDeviceGetPowerUsage"; }
  /// Returns NVML's code.
  int read(double* watts) const;
  /// The same, throwing std::system_error that names the GPU.
  double watts() const;

 private:
  std::shared_ptr<const Library> library_;
  DeviceHandle device_;
  std::string domain_;
  bool instant_ = false;
};

/// The field ids under which a driver keeps its throttle times, in ns since it was loaded. They changed twice: a driver
/// answers another's numbers with something else (levels of power smoothing), not with an error.
///
/// Source: nvml.h as NVIDIA publishes it with each driver (repository NVIDIA/nvidia-settings, src/nvml.h, tags
/// 565.57.01 to 610.43.03) and with CUDA 12.6 to 13.3 (NVIDIA/go-nvml); NVML API Reference Guide, Known Issues: "Field
/// Values from #251 - #273 … have changed between 13.0 and 13.0U1/v580TRD2".
///   570.211.01 and before: none (251 to 268 are of power smoothing)
///   575.51.02 to 580.76.05: 251, 252, 253 (269 to 271 are of power smoothing)
///   580.82.07 and later: 269, 270, 271
/// A number of 0: this driver has none.
struct ThrottleFields {
  unsigned power_cap = 74;
  unsigned software_thermal = 0, hardware_thermal = 0, brake = 0;
};

/// `driver_version` as nvmlSystemGetDriverVersion returns it: "580.82.07". Of one that cannot be read nothing but the
/// number that never changed.
ThrottleFields throttle_fields_of(std::string_view driver_version);

}  // namespace tw::power::nvml
