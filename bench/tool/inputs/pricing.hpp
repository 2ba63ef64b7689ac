// Which price is whose, and a facility's own meter.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/tool/inputs/errors.hpp"
#include "results/cost/cost.hpp"
#include "results/record/record.hpp"

namespace tw::bench::tool {

/// What a system costs, by a file of prices.
struct PriceOptions {
  std::string prices;                       ///< file; empty: no costs
  std::vector<std::string> price_of;        ///< "NAME=ROW"; of one report "ROW"
  std::vector<std::string> facility_csv, it_csv;    ///< "NAME=FILE"; of one report "FILE"
  double sensitivity_percent = 20;
};

/// The file of --prices; nullopt if there is none. Throws UsageError.
std::optional<results::Prices> read_prices(const PriceOptions& options);

/// The row of a system: by --price-of, its name, its hosts, or the only one there is; its PUE measured where
/// --facility-csv says how, over all of its runs. `name`: empty if there is but one report, and the options name
/// none. Throws UsageError.
results::PriceRow price_of(const results::Prices& prices, const PriceOptions& options, const std::string& name,
                           std::span<const results::Report> runs);

/// Warns of implausible prices, each place of the file once.
void say_doubts(std::span<const results::PriceRow> rows);

/// The cost of a single report, whose `name` the options may do without; nullopt without --prices. Throws
/// UsageError, also for an unfinished run, which names its `path`.
std::optional<results::CostReport> cost_of_one(const PriceOptions& options, const std::string& path,
                                               const results::Report& report, const std::string& name = "");

/// Every NAME of NAME=… must be one of these. Throws UsageError.
void check_names(const PriceOptions& options, const std::vector<std::string>& names);

}  // namespace tw::bench::tool
