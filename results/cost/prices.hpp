// The prices of machines, as a file of them says (results/schema/prices.schema.json, results/README.md).
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// A price that is probably a slip (results/cost/plausible_prices.hpp).
struct PriceDoubt {
  std::string key, text;  ///< "capex", "12 EUR per node is implausible (usual: …): …"
};

/// Of one node where nothing else is said. A month is 730 h, a year 8760 h.
struct PriceRow {
  std::string name;                      ///< the row's key in the file
  std::vector<std::string> hosts;        ///< host names that this is the price of; "n*" for all that begin so
  std::optional<double> rent_per_month;  ///< this, or capex and life_years
  std::optional<double> capex, life_years;
  double maintenance_per_year = 0, fixed_opex_per_year = 0;
  double network_storage_capex = 0;  ///< the node's share of switches and storage; over the same life, or 5 years
  /// What that share draws. Its joules are those of the time that is worked, as the node's are: of hours that are paid
  /// for and not used no electricity is counted.
  double network_storage_power_w = 0;
  double utilisation = 1;             ///< share of the hours paid for that do such work, in (0, 1]
  bool electricity_included = false;  ///< in the rent: joules cost nothing more
  double electricity_per_kwh = 0;
  double pue = 1;
  std::optional<double> carbon_g_per_kwh;
  std::string pue_source = "input";  ///< or how it was measured
  std::string note;
  std::string file;       ///< that the row was read from; empty: none
  std::string file_note;  ///< of the whole file: where its prices are from
  /// Why this may be the price of another machine than the report's (price_doubt()); empty if nothing says so.
  std::string machine_note{};
  std::vector<PriceDoubt> doubts{};
  /// Keys of the file beside its systems, for all of them, and those that nobody gave: a default. All others
  /// are the row's own.
  std::set<std::string> for_all, not_given;
};
struct Prices {
  std::string currency;  ///< "EUR"
  std::string note;
  std::vector<PriceRow> rows;  ///< in the order of the file
};

/// The shortest prices file, to show in messages.
inline constexpr const char* prices_example = R"({"currency": "EUR", "systems": {"node": {"rent_per_month": 900}}})";

/// Reads a prices file (JSON, comments allowed; results/schema/prices.schema.json). Throws std::runtime_error with the
/// place.
Prices prices_from_json(const std::string& text);
/// The row called `name`, else the only one that names all `hosts`, else the file's only row; null if none is told
/// apart.
const PriceRow* find_price(const Prices& prices, const std::string& name, const std::vector<std::string>& hosts);
/// What of a row does not fit the machine of the report: hosts that are not among its `hosts`, or, where it lists none
/// and is not called as the system, a name that no host, processor or device of the report has a word of. Else empty.
std::string price_doubt(const PriceRow& row, const std::string& system, const Report& report);

}  // namespace tw::results
