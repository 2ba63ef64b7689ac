// Comparisons and costs in the formats of other programs.
#pragma once

#include <string>
#include <vector>

#include "results/compare/comparison.hpp"
#include "results/cost/cost.hpp"

namespace tw::results {

/// JSON with units in its keys. `checks`: of baseline rules (results/compare/baseline.hpp); empty without any.
std::string comparison_json(const Comparison& comparison, const std::vector<RuleCheck>& checks);
std::string comparison_markdown(const Comparison& comparison);
/// RFC 4180: one line for each figure, workload (and "overall") and system.
std::string comparison_csv(const Comparison& comparison);
/// JSON with units in its keys.
std::string cost_json(const CostReport& report);

}  // namespace tw::results
