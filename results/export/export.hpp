// A report in the formats of other programs, each a text that goes into a file of its own.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "results/cost/cost.hpp"
#include "results/record/record.hpp"
#include "results/selection/ranking.hpp"

namespace tw::results {

struct ExportOptions {
  Order order = {};                     ///< of rows
  std::optional<CostReport> cost = {};  ///< of the same report; only formats that say so take it
};

// One function for each line of the list; the head of its file says what it writes.
#define TRAINWATT_EXPORT(name, file, takes_cost, write) \
  std::string write(const Report& report, const ExportOptions& options);
#include "results/export/exports.def"

struct ExportFormat {
  std::string_view name, file;  ///< "csv", "report.csv"
  bool takes_cost;
  std::string (*write)(const Report& report, const ExportOptions& options);
};
/// The list of results/export/exports.def.
std::span<const ExportFormat> export_formats();
/// Null if none has that name.
const ExportFormat* find_export_format(const std::string& name);

}  // namespace tw::results
