// A report in the formats of other programs, each a text that goes into a file of its own; comparisons and costs in
// some.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/cost/cost.hpp"
#include "results/record/record.hpp"
#include "results/selection/ranking.hpp"

namespace tw::results {

struct Comparison;
struct RuleCheck;

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

/// JSON with units in its keys. `checks`: of baseline rules (results/compare/baseline.hpp); empty without any.
std::string comparison_json(const Comparison& comparison, const std::vector<RuleCheck>& checks);
std::string comparison_markdown(const Comparison& comparison);
/// RFC 4180: one line for each figure, workload (and "overall") and system.
std::string comparison_csv(const Comparison& comparison);
/// JSON with units in its keys.
std::string cost_json(const CostReport& report);

}  // namespace tw::results
