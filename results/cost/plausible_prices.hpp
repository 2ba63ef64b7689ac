// Prices that are probably a slip: a decimal point, cents for euros, a price per core.
#pragma once

#include <string>
#include <vector>

#include "results/cost/prices.hpp"

namespace tw::results {

/// What of a row is outside the usual: of a node that trains networks, from a small server to a rack that counts as one
/// node, and of electricity. Amounts of money are only judged in currencies that are known (by rough exchange rates);
/// values of 0 and defaults never.
std::vector<PriceDoubt> implausible_prices(const PriceRow& row, const std::string& currency);
/// The first amount of the row that nothing costs, 100 times the highest usual one or more, as "/systems/x/capex: must
/// be below 500000000 EUR per node, is 1000000000000"; empty if there is none.
std::string impossible_price(const PriceRow& row, const std::string& currency);
/// Where the file has a key of the row: "/systems/x/capex", "/electricity_per_kwh".
std::string place_of(const PriceRow& row, const std::string& key);

}  // namespace tw::results
