// What the kernel shows of AMD GPUs besides joules, for ordinary users and without ROCm, as domain
// "amdgpu:0000:c1:00.0": power_w, temperature_c (the hot spot, where there is one), sm_clock_mhz (of the compute
// units), memory_clock_mhz, utilisation (gpu_busy_percent). Channels that are not there are absent.
//
// Source: Linux Documentation/gpu/amdgpu/thermal.rst (labels "junction", "sclk", "mclk").
#pragma once

#include <filesystem>
#include <vector>

#include "power/telemetry/telemetry.hpp"

namespace tw::power::amdgpu {

/// `hwmon` as /sys/class/hwmon.
std::vector<TelemetryFinding> find_telemetry_in(const std::filesystem::path& hwmon);

}  // namespace tw::power::amdgpu
