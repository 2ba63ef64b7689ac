// A comparison for a terminal.
#pragma once

#include <string>
#include <vector>

#include "results/compare/comparison.hpp"
#include "results/terminal/tables.hpp"

namespace tw::results {

/// The answer first, then figures, differences, costs and break-even points. `checks`: of baseline rules
/// (results/compare/baseline.hpp); empty without any.
std::string comparison_text(const Comparison& comparison, const std::vector<RuleCheck>& checks,
                            const TableStyle& style);

}  // namespace tw::results
