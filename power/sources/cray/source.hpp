// Cray's pm_counters: energy of the node, its CPUs, memory and accelerators, refreshed ten times a second by the
// blade's controller, readable by everybody.
//
// Each file holds a number, its unit and, on newer systems, a time stamp. `freshness` counts the refreshes; a value is
// one refresh's if freshness was the same before and after. Source: HPE Cray EX documentation, "User Access to Compute
// Node Power Data".
#pragma once

#include <filesystem>
#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power::cray {

/// `folder` as /sys/cray/pm_counters. A meter whose freshness has not moved for `stale_seconds` is lost.
/// What is missing is a finding with its reason. Reading a meter throws std::system_error, CounterReset if a counter
/// was set back.
std::vector<MeterFinding> find_meters_in(const std::filesystem::path& folder, double stale_seconds = 5);

}  // namespace tw::power::cray
