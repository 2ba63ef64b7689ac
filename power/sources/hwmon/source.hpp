// Power and energy sensors of the kernel's hardware monitoring, ACPI power meters among them.
//
// Source: Linux Documentation/hwmon/sysfs-interface.rst: powerN_average and powerN_input in µW, powerN_average_interval
// in ms, energyN_input in µJ. ACPI meters keep these files in hwmonN/device.
#pragma once

#include <filesystem>
#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power::hwmon {

/// `folder` as /sys/class/hwmon. Power is sampled ten times a second, or once an averaging interval.
std::vector<MeterFinding> find_meters_in(const std::filesystem::path& folder);
/// Whether a sensor there measures the whole node, and shows a power to this process.
bool reads_node(const std::filesystem::path& folder);

}  // namespace tw::power::hwmon
