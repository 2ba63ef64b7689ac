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
  /// Null where the library or its driver is not there; `why` then says why.
  static std::shared_ptr<const Library> open(Unavailable* why, const char* name = default_library);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

#define TW_NVML(name, parameters) int(*name) parameters = nullptr;
#include "power/sources/nvml/functions.def"
#undef TW_NVML

  /// "580.82.07"; empty where the library does not tell.
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
  std::string uuid;   ///< "GPU-…"
  std::string name;   ///< "NVIDIA H100 80GB HBM3"
  bool mig = false;   ///< cut into instances: power, energy and clocks are the whole GPU's
  std::optional<std::uint64_t> pci;  ///< its place on the PCI buses, ascending as CUDA's PCI_BUS_ID
  Unavailable error;  ///< where it cannot be asked; then `uuid` may be "#3", its number
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
/// Of all that find_devices() found: "GPU-…" (a unique beginning suffices), "MIG-…" or "MIG-GPU-…/1/0" of drivers before
/// 470 (its parent), or numbers. As CUDA
/// does, counts only what this process can open, and stops at the first entry that names nothing. CUDA numbers by PCI
/// bus where CUDA_DEVICE_ORDER is PCI_BUS_ID, else by speed, which is the same among equal GPUs and not known here
/// among others.
Named visible_devices(const Library& library, const std::vector<Device>& all, std::string_view visible,
                      bool by_pci_bus);

/// Domains ("nvml:GPU-…") of the GPUs that this process can ask, and of those that its programs may use: what
/// CUDA_VISIBLE_DEVICES names, all of the former where it is unset. Empty without a driver.
Sight look();

/// name_of_gpu() of power/visible_gpus.hpp.
GpuName name_of(const std::string& uuid);

/// One field value as a number; nullopt where the device does not have it.
std::optional<double> field_number(const FieldValue& field);
std::optional<double> read_field(const Library& library, DeviceHandle device, unsigned id);

}  // namespace tw::power::nvml
