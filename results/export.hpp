// A report in the formats of other programs, each a text that goes into a file of its own.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "results/ranking.hpp"
#include "results/record.hpp"

namespace tw {

struct ExportOptions {
  Order order = {};  ///< of rows
};

/// For GitHub and others that render its Markdown: context, the table with intervals, a footnote for each flag, what is
/// missing. Figures are rounded as in a terminal. What the report says is text there, never markup.
std::string to_markdown(const Report& report, const ExportOptions& options);

/// RFC 4180, one line a record: axes, settings, every figure of the summary with its interval, the verdict. Nothing is
/// rounded; units stand in the header's names, which are those of the JSON ("package_flops_per_w" is flops_per_w of the
/// scope package). An absent figure is an empty cell and has its reason in a column beside. A text that a spreadsheet
/// would take for a formula begins with an apostrophe.
std::string to_csv(const Report& report, const ExportOptions& options);

struct ExportFormat {
  std::string_view name, file;  ///< "csv", "report.csv"
  std::string (*write)(const Report& report, const ExportOptions& options);
};
/// The list of results/exports.def.
std::span<const ExportFormat> export_formats();
/// Null where none has that name.
const ExportFormat* find_export_format(const std::string& name);

}  // namespace tw
