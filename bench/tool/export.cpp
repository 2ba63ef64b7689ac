// `trainwatt export`: a report in the formats of results/export/exports.def.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/pricing.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "models/catalog/nearest.hpp"
#include "results/export/export.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::tool {
namespace {

namespace fs = std::filesystem;

const ExportFormat& format_of(const std::string& name) {
  if (const ExportFormat* format = find_export_format(name)) return *format;
  std::vector<std::string> known;
  for (const ExportFormat& format : export_formats()) known.emplace_back(format.name);
  const std::string close = nearest(name, known);
  throw UsageError(fmt::format(
      "--to {}: unknown; {}", name,
      close.empty() ? fmt::format("known: {}", fmt::join(known, ", ")) : fmt::format("did you mean {}?", close)));
}

}  // namespace

int export_report(const ExportCommand& options) {
  std::vector<const ExportFormat*> formats;
  for (const std::string& name : options.formats)
    if (const ExportFormat* format = &format_of(name); std::ranges::find(formats, format) == formats.end())
      formats.push_back(format);
  const LoadedReport loaded = load_report(options.path);  // nothing is exported of what is no report
  say_findings(options.path, loaded.validation);
  const Report& report = loaded.report;
  ExportOptions wanted;
  wanted.order = parse_order(options.sort, report.records);
  wanted.cost = cost_of_one(options.prices, options.path, report);
  if (wanted.cost && std::ranges::none_of(formats, &ExportFormat::takes_cost))
    throw UsageError("--prices: costs go into xlsx alone: add it to --to, or see trainwatt cost and trainwatt html");

  std::error_code code;
  const fs::path folder = options.out;
  for (const ExportFormat* format : formats)
    if (const fs::path file = folder / format->file; fs::exists(fs::symlink_status(file, code)))
      throw UsageError(file.string() +
                       ": exists already: choose another folder with -o, results are never overwritten");
  const bool was_there = fs::exists(folder, code);
  try {
    for (const ExportFormat* format : formats) {
      const fs::path file = folder / format->file;
      write_out(file, with_named_errors(options.path, [&] { return format->write(report, wanted); }));
      fmt::print("{}\n", text::printable(file.string()));
    }
  } catch (const EnvironmentError&) {
    if (!was_there) fs::remove(folder, code);  // where nothing is in it
    throw;
  }
  return 0;
}

}  // namespace tw::tool
