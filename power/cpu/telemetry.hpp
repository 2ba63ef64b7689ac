// What CPUs show besides joules, as domain "cpu": cpu_clock_mhz (mean of scaling_cur_freq over at most 16 policies
// spread over the machine: reading all of a large one would take too long), temperature_c (the hottest package by
// coretemp or k10temp), throttle_thermal_events (package_throttle_count, one CPU per package). Channels that are not
// there are absent.
#pragma once

#include <filesystem>
#include <vector>

#include "power/telemetry.hpp"

namespace tw::cpu {

/// `cpus` as /sys/devices/system/cpu, `hwmon` as /sys/class/hwmon.
std::vector<TelemetryFinding> find_telemetry_in(const std::filesystem::path& cpus, const std::filesystem::path& hwmon);

}  // namespace tw::cpu
