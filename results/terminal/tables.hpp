// Tables for people: terminal text, 40 to 200 columns, NO_COLOR honoured by the caller. Whatever a report holds,
// nothing in it reaches the terminal as a control character (`printable`).
#pragma once

#include <string>
#include <vector>

#include "results/record/record.hpp"
#include "results/selection/ranking.hpp"

namespace tw::results {

struct Comparison;
struct CostReport;
struct RuleCheck;

struct TableStyle {
  bool color = false;
  std::size_t width = 100;  ///< columns of the terminal; columns of the table are left out below what all need
  bool unicode = true;      ///< false: blocks and bars become ASCII
  Order order = {};         ///< of the table's rows
};

/// One row a record in style.order: figures with their intervals (results/terminal/columns.hpp), as many as find room,
/// verdict and flags, the reasons of what does not count; then notes that explain each flag that occurs, once, and how
/// far the machine moved along the run (run_drift).
std::string summary_table(const Report& report, const TableStyle& style);
/// The whole report, whatever is missing in it: context, meters with reasons, warnings, table, phases, loss.
std::string show_report(const Report& report, const TableStyle& style);
/// The table and the points alone: of a run that has no report yet.
std::string show_records(const std::vector<Record>& records, const TableStyle& style);

/// Each input of a cost with its value, unit and source.
std::string price_inputs(const CostReport& report, const TableStyle& style);
/// What the points of a report cost.
std::string cost_text(const CostReport& report, const TableStyle& style);
/// The answer first, then figures, differences, costs and break-even points. `checks`: of baseline rules
/// (results/compare/baseline.hpp); empty without any.
std::string comparison_text(const Comparison& comparison, const std::vector<RuleCheck>& checks,
                            const TableStyle& style);

}  // namespace tw::results
