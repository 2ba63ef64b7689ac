// Whether a run has done all that its plan asks for.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// The plan's text as JSON with a list of points that have ids; null if it is something else.
nlohmann::json read_plan(const std::string& canonical_json);
/// The ids of the plan's points that have no record; none where the plan cannot be read.
std::vector<std::string> missing_points(const Report& report);
/// Whether the run says that it was cut short: a warning of the context begins with "interrupted".
bool was_interrupted(const Context& context);

}  // namespace tw::results
