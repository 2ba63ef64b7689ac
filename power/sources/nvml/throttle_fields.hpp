// The field ids under which a driver keeps its throttle times, in ns since it was loaded. They changed twice: a driver
// answers another's numbers with something else (levels of power smoothing), not with an error.
//
// Source: nvml.h as NVIDIA publishes it with each driver (repository NVIDIA/nvidia-settings, src/nvml.h, tags 565.57.01
// to 610.43.03) and with CUDA 12.6 to 13.3 (NVIDIA/go-nvml); NVML API Reference Guide, Known Issues: "Field Values from
// #251 - #273 … have changed between 13.0 and 13.0U1/v580TRD2".
//   570.211.01 and before: none (251 to 268 are of power smoothing)
//   575.51.02 to 580.76.05: 251, 252, 253 (269 to 271 are of power smoothing)
//   580.82.07 and later: 269, 270, 271
#pragma once

#include <string_view>

namespace tw::power::nvml {

/// 0: this driver has none.
struct ThrottleFields {
  unsigned power_cap = 74;
  unsigned software_thermal = 0, hardware_thermal = 0, brake = 0;
};

/// `driver_version` as nvmlSystemGetDriverVersion tells it: "580.82.07". Of one that cannot be read nothing but the
/// number that never changed.
ThrottleFields throttle_fields_of(std::string_view driver_version);

}  // namespace tw::power::nvml
