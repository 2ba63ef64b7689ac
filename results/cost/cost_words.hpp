// The inputs of a cost in words. Internal to results/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/cost/cost.hpp"

namespace tw::results {

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

}  // namespace tw::results

namespace tw::results::words {

/// "per million samples"
const char* per(CostPer unit);
/// "rent per month" of a Sensitivity's `input`.
std::string turned_input(const std::string& name);
/// How a lower, or a higher, input changes the cost as given: "+25.0 %"; "already at its maximum" if the input
/// cannot go that way.
std::string change_at_less(const Sensitivity& one);
std::string change_at_more(const Sensitivity& one);
/// Each input with its value, unit and source, "not given" where it is absent: nothing is left unsaid.
std::vector<CostInput> inputs_of(const CostReport& report);

}  // namespace tw::results::words
