// Which program wrote a report: every program says the same of itself.
#pragma once

#include <string>

#include "results/record/record.hpp"

namespace tw::results {

/// Project version and commit of the checkout at build time ("-dirty": with uncommitted changes; "unknown": built
/// without a checkout).
Program program_info(std::string name);

/// Whether these are version and commit of this build. False if the commit is unknown: other sources may be so, too.
bool is_this_program(const Program& program);

}  // namespace tw::results
