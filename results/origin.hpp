// Whether records come from where their report says.
#pragma once

#include <vector>

#include "results/fault.hpp"
#include "results/record.hpp"

namespace tw {

/// Each record is of the launch that its part was, and names no host that this did not run on.
std::vector<Fault> origin_faults(const Report& report);

}  // namespace tw
