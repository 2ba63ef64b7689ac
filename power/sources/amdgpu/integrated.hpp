// Whether an AMD GPU shares its package, and its power sensor, with a CPU.
#pragma once

#include <filesystem>

namespace tw::power::amdgpu {

/// What people must know where it does.
inline constexpr const char* socket_note = "an APU: the power is the whole socket's, its CPU cores included";

/// `chip` as /sys/class/hwmon/hwmon3 of the driver amdgpu, whose PCI device is chip/device. APUs alone show a voltage
/// of the northbridge (in1_input); MI300A, which shows none, is known by its PCI id. Their power1_average and
/// power1_input include the CPU.
///
/// Source: Linux Documentation/gpu/amdgpu/thermal.rst, drivers/gpu/drm/amd/pm/amdgpu_pm.c.
bool is_integrated(const std::filesystem::path& chip);

}  // namespace tw::power::amdgpu
