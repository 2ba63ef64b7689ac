// Estimated joules, not measured: a nominal power times a line over CPU utilisation. Opt-in, never counted, labelled.
//
// P = nominal × (idle share + (1 − idle share) × utilisation), utilisation of all CPUs from /proc/stat, whoever uses
// them. A server's idle share lies between 0.2 and 0.6; 0.3 is an assumption, not a measurement.
#pragma once

#include <filesystem>
#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power::estimate {

inline constexpr double idle_share = 0.3;

/// `stat` as /proc/stat.
std::vector<MeterFinding> find_meters_in(const std::filesystem::path& stat, double nominal_watts);

}  // namespace tw::power::estimate
