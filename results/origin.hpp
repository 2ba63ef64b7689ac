// Whether records come from where their report says.
#pragma once

#include <string>
#include <vector>

#include "results/record.hpp"

namespace tw {

/// Each record is of the launch that its part was, and names no host that this did not run on. One line each, with a
/// JSON pointer.
std::vector<std::string> origin_faults(const Report& report);

}  // namespace tw
