// `trainwatt export`: a report in the formats of results/export/exports.def.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "bench/plan/options/option_value.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/options.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "results/export/export.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

namespace fs = std::filesystem;

struct ExportCommand {
  std::string path, out;             ///< out: folder, made where it is not there
  std::vector<std::string> formats;  ///< names of results/export/exports.def
  SortOptions sort;
  PriceOptions prices;  ///< for the formats that take costs
};

const results::ExportFormat& format_of(const std::string& name) {
  if (const results::ExportFormat* format = results::find_export_format(name)) return *format;
  throw_unknown("to", name, results::text::texts_of(results::export_formats(), &results::ExportFormat::name));
}

/// Each file whole or not at all.
int export_report(const ExportCommand& options) {
  std::vector<const results::ExportFormat*> formats;
  for (const std::string& name : options.formats)
    if (const results::ExportFormat* format = &format_of(name); std::ranges::find(formats, format) == formats.end())
      formats.push_back(format);
    else
      throw UsageError("duplicate-value", fmt::format("--to: {} is given twice; give it once", name));
  const LoadedReport loaded = load_report(options.path);  // nothing is exported of what is no report
  say_findings(options.path, loaded.validation);
  const results::Report& report = loaded.report;
  results::ExportOptions wanted;
  wanted.order = parse_order(options.sort, report.records);
  wanted.cost = cost_of_one(options.prices, options.path, report);
  if (wanted.cost && std::ranges::none_of(formats, &results::ExportFormat::takes_cost)) {
    std::vector<std::string_view> others;
    for (const results::ExportFormat& format : results::export_formats())
      if (format.takes_cost) others.push_back(format.name);
    throw UsageError("options-conflict",
                     fmt::format("--prices: no format of --to contains costs: add {} to --to, or use "
                                 "trainwatt cost or html",
                                 fmt::join(others, " or ")));
  }

  std::error_code code;
  const fs::path folder = options.out;
  for (const results::ExportFormat* format : formats)
    if (const fs::path file = folder / format->file; fs::exists(fs::symlink_status(file, code)))
      throw UsageError("file-exists", file.string() + ": already exists: choose another folder with -o");
  const bool was_there = fs::exists(folder, code);
  try {
    for (const results::ExportFormat* format : formats) {
      const fs::path file = folder / format->file;
      write_out(file, with_named_errors(options.path, [&] { return format->write(report, wanted); }));
      fmt::print("{}\n", results::text::printable(file.string()));
    }
  } catch (const EnvironmentError&) {
    if (!was_there) fs::remove(folder, code);  // where nothing is in it
    throw;
  }
  return 0;
}

}  // namespace

Action add_export(CLI::App& command, const Words&) {
  const auto options = std::make_shared<ExportCommand>();
  const auto names = results::text::texts_of(results::export_formats(), &results::ExportFormat::name);
  command.add_option("FILE", options->path, report_help)->required();
  command.add_option("--to", options->formats, fmt::format("a list of {}", fmt::join(names, ", ")))
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("-o,--out", options->out, "folder to write to; an existing file is never overwritten")->required();
  add_sort(command, options->sort, run_order);
  add_prices(command, options->prices, false);
  return [options] { return export_report(*options); };
}

}  // namespace tw::bench::tool
