// Grids before their points are made: how many these would be, and what makes one twice.
#pragma once

#include <string>

#include "bench/plan/plan.hpp"

namespace tw::bench {

/// Throws UsageError where all grids together have over 100,000 combinations: these may not even fit into memory.
void check_grids(const Request& request);

/// "accumulate lists 1 twice", by key_ref(): the axis that makes a point of the grid a second time; empty where none
/// does.
std::string listed_twice(const Axes& axes);

}  // namespace tw::bench
