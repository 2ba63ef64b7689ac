// A text of JSON that is parsed once for several readers; report_io.hpp has what one reader needs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "results/record/report_io.hpp"

namespace tw::results {

/// Parses a text into `tree`. Returns what json_fault() says of it; where that is not empty, `tree` is not usable.
std::string parse_json(const std::string& text, nlohmann::json& tree, bool comments = false);

/// As report_from_json().
Report report_from_tree(const nlohmann::json& tree, UnknownNames unknown);

}  // namespace tw::results
