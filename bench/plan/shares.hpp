// Set points that are shares of a device's range ("60%"), made into values where the range is known.
#pragma once

#include <string>
#include <vector>

#include "bench/plan/abilities.hpp"
#include "bench/plan/plan.hpp"

namespace tw::bench {

/// Whether the request has set points that only a range makes into values.
bool has_shares(const Request& request);

/// Puts values in the place of shares: of what all devices of a kind take, the nearest that they list, else a whole
/// number of MHz or W. Of `Axes::clock` too, where the clock of what trains on `device` has a range; else it stays, and
/// make_plan leaves its points out. Throws UsageError if no device reports the range of a set point given as a share.
void resolve_shares(Request& request, const std::string& device, const std::vector<KnobAbility>& knobs);

/// Ranges as text, for other ranks.
std::string pack_ranges(const std::vector<KnobAbility>& knobs);
std::vector<KnobAbility> unpack_ranges(const std::string& text);

}  // namespace tw::bench
