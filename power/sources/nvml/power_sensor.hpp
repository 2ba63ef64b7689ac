// A GPU's power at this moment.
#pragma once

#include <memory>

#include "power/sources/nvml/library.hpp"

namespace tw::power::nvml {

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

}  // namespace tw::power::nvml
