// What CPUs show besides joules, as domain "cpu": cpu_clock_mhz (mean of scaling_cur_freq over the at most 16 policies
// whose CPUs were busiest since the last look, a second or more ago, each by its busy time, whichever rank or program
// it was: idle CPUs, which rest at a low clock, do not count; where no CPU worked or /proc/stat cannot be read, 16
// policies spread over the machine alike), temperature_c (the hottest package by coretemp or k10temp),
// throttle_thermal_events (package_throttle_count, one CPU per package). Channels that are not there are absent.
#pragma once

#include <filesystem>
#include <vector>

#include "power/telemetry/telemetry.hpp"

namespace tw::power::cpu {

/// `cpus` as /sys/devices/system/cpu, `hwmon` as /sys/class/hwmon, `stat` as /proc/stat.
std::vector<TelemetryFinding> find_telemetry_in(const std::filesystem::path& cpus, const std::filesystem::path& hwmon,
                                                const std::filesystem::path& stat);

}  // namespace tw::power::cpu
