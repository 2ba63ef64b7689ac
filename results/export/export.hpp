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

/// For GitHub and others that render its Markdown: context, the table with intervals, a footnote for each flag, what is
/// missing. Figures are rounded as in a terminal. What the report says is text there, never markup.
std::string to_markdown(const Report& report, const ExportOptions& options);

/// RFC 4180, one line a record: axes, settings, every figure of the summary with its interval, the verdict. Nothing is
/// rounded; units stand in the header's names, which are those of the JSON ("package_flops_per_w" is flops_per_w of the
/// scope package). An absent figure is an empty cell and has its reason in a column beside. A text that a spreadsheet
/// would take for a formula begins with an apostrophe.
std::string to_csv(const Report& report, const ExportOptions& options);

/// A workbook for a tender: Summary (a line a point, what is absent and why), Points (all of to_csv, figures that do
/// not count in grey italics), Trials, Energy (each reading of each meter, counted or left out), Inputs (with unit and
/// source), Notes (flags and run rules); with a cost also Cost and Sensitivity, and every price among the inputs.
/// Numbers are numbers with a format, units stand in the frozen header row, what the report says is text whatever it
/// looks like; an absent figure is an empty cell with its reason as a comment or in a column. The same report gives the
/// same bytes. Throws where there is no room for a temporary file.
std::string to_xlsx(const Report& report, const ExportOptions& options);

/// MLCommons' log lines (":::MLLOG {…}"): for each trial, in a namespace of its own, what it trains, run_start, the
/// evaluations, run_stop with its status; "aborted" where it does not count or did not reach its target. Times within a
/// trial are those measured; a report does not know when each began, so that they are laid end to end from its start.
/// What MLPerf's rules want besides (who submits, in which division) is not in a report and not made up.
std::string to_mllog(const Report& report, const ExportOptions& options);

/// For node_exporter's textfile collector: gauges in base units (seconds, joules, watts, ratios), without timestamps.
/// An absent figure, and any of a point that does not count, is no sample. Labels as dcgm-exporter has them (Hostname,
/// UUID).
std::string to_prometheus(const Report& report, const ExportOptions& options);

/// Google Benchmark's JSON, which its tools/compare.py reads: one repetition a trial of a valid point, joules as
/// counters; points that do not count are none of the benchmarks, and stand in the context with the reason.
std::string to_benchmark_json(const Report& report, const ExportOptions& options);

struct ExportFormat {
  std::string_view name, file;  ///< "csv", "report.csv"
  bool takes_cost;
  std::string (*write)(const Report& report, const ExportOptions& options);
};
/// The list of results/export/exports.def.
std::span<const ExportFormat> export_formats();
/// Null where none has that name.
const ExportFormat* find_export_format(const std::string& name);

}  // namespace tw::results
