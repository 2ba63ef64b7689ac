// Which program wrote a report: every program says the same of itself.
#pragma once

#include <string>

#include "results/record.hpp"

namespace tw {

/// Version of the project and commit of the checkout at build time ("-dirty": with uncommitted changes; "unknown": not built
/// from a checkout).
Program program_info(std::string name);

}  // namespace tw
