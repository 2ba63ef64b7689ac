// Facts of networks as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/catalog/description.hpp"

namespace tw::models {

/// The shortest decimal that reads back as this float: 0.1 for 0.1f. NaN and infinity stay what they are.
double shortest_decimal(float value);

/// An object with a member for each fact, in their order; floats as their shortest decimals.
nlohmann::ordered_json json_of(const std::vector<Fact>& facts);

}  // namespace tw::models
