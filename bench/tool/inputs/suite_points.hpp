// Whether a plan that bears the name of a built-in suite is that suite.
#pragma once

#include "results/record/record.hpp"
#include "results/validation/validate.hpp"

namespace tw::bench::tool {

/// Adds the fault `plan_differs` for a class of device that is not the plan's own device's, and for a suite of such a
/// class whose points are not those that this build makes for the launch's number of ranks; for a report of another
/// build that is the note `suite_differs`. Kits are compared as a whole elsewhere, and plans without a class are
/// made up of what their points say.
void check_suite(const results::Report& report, results::Validation& found);

}  // namespace tw::bench::tool
