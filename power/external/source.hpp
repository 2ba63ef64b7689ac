// A site's own meter by the file it writes (power/external/series.hpp), aligned by the clocks: the file speaks of wall
// time, windows of the steady clock. The meter's clock and this node's must agree (NTP); an error of a second costs a
// second's power at each edge, which no one can see from here.
#pragma once

#include <filesystem>
#include <vector>

#include "power/energy_meter.hpp"

namespace tw::external {

/// The file holds this node's power alone. A window that the file does not cover yet is waited for, for `wait_seconds`.
std::vector<MeterFinding> find_meters_in(const std::filesystem::path& file, double wait_seconds = 3);

}  // namespace tw::external
