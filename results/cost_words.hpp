// The inputs of a cost in words. Internal to results/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/cost.hpp"

namespace tw {

/// An input of a cost, as it was given.
struct CostInput {
  std::string name;              ///< "electricity"
  std::optional<double> number;  ///< absent: `text` says it
  std::string unit;              ///< "EUR/kWh"
  std::string text;              ///< "a note", "not given: CO2 is absent"
  std::string source;            ///< "prices.json, row offer-1", "default, since none is given", or how it was measured
  bool is_default = false;
  std::string value() const;  ///< "0.3 EUR/kWh"
};

}  // namespace tw

namespace tw::words {

/// "a million samples" of a CostFigure's `per`.
const char* per(const std::string& name);
/// Each input with its value, unit and source, "not given" where it is absent: nothing is left unsaid.
std::vector<CostInput> inputs_of(const CostReport& report);
/// Those for a terminal.
std::string price_inputs(const CostReport& report, const TableStyle& style);

}  // namespace tw::words
