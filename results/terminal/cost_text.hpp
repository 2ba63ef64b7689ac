// What the points of a report cost, for a terminal.
#pragma once

#include <string>

#include "results/cost/cost.hpp"
#include "results/terminal/tables.hpp"

namespace tw::results {

/// Each input with its value, unit and source.
std::string price_inputs(const CostReport& report, const TableStyle& style);
std::string cost_text(const CostReport& report, const TableStyle& style);

}  // namespace tw::results
