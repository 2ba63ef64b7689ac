// A site's own meter by the file it writes (power/sources/external/series.hpp), aligned by the clocks: the file speaks
// of wall time, windows of the steady clock. The meter's clock and this node's must agree (NTP); an error of a second
// costs a second's power at each edge, which no one can see from here.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power::external {

/// How long a window waits for the file to cover it: for two more points, and for a file that is written in pieces.
constexpr double wait_seconds_for(double interval_seconds) { return std::max(3.0, 2 * interval_seconds); }
/// A meter that writes more seldom than this is refused: each trial would wait for it for longer than it may take.
inline constexpr double longest_interval_seconds = 60;

/// The file holds this node's power alone. A window that the file does not cover yet is waited for: for `wait_seconds`,
/// or as its interval needs. A file that cannot be used is a finding with its reason. A window's joules throw
/// WindowUnknown: "lost" for an unreadable line or file, "not_covered" where the file does not reach or the clock
/// jumped.
std::vector<MeterFinding> find_meters_in(const std::filesystem::path& file, std::optional<double> wait_seconds = {});

}  // namespace tw::power::external
