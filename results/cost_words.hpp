// The inputs of a cost in words. Internal to results/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "results/cost.hpp"

namespace tw::words {

/// Each input with its value and unit, "not given" where it is absent: nothing is left unsaid.
std::vector<std::pair<std::string, std::string>> inputs_of(const CostReport& report);
/// Those for a terminal.
std::string price_inputs(const CostReport& report, const TableStyle& style);

}  // namespace tw::words
