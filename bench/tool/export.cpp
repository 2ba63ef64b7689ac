// `trainwatt export`: a report in the formats of results/exports.def.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "bench/tool/commands.hpp"
#include "bench/tool/report_file.hpp"
#include "models/catalog/nearest.hpp"
#include "results/export.hpp"
#include "results/report_io.hpp"
#include "results/text.hpp"

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

/// Nothing is exported of a report that is no report; one that breaks a rule says so.
Report read(const std::string& path) {
  return with_report_file(path, [&](const std::string& text) {
    const bool unfinished = holds_record_lines(text);
    Report report;
    if (unfinished)
      report.records = record_lines(text).records;
    else
      report = report_from_json(text);
    const Validation found = unfinished ? validate_record_lines(text) : validate_report(text);
    if (!found.violations.empty())
      fmt::print(stderr, "trainwatt: {}: warning: {}{}: `trainwatt validate` says all\n", text::printable(path),
                 text::printable(found.violations.front()),
                 found.violations.size() > 1 ? fmt::format(", and {} more", found.violations.size() - 1) : "");
    return report;
  });
}

}  // namespace

int export_report(const ExportCommand& options) {
  std::vector<const ExportFormat*> formats;
  for (const std::string& name : options.formats)
    if (const ExportFormat* format = &format_of(name); std::ranges::find(formats, format) == formats.end())
      formats.push_back(format);
  const Report report = read(options.path);
  ExportOptions wanted;
  wanted.order = parse_order(options.sort, report.records);

  std::error_code code;
  const fs::path folder = options.out;
  for (const ExportFormat* format : formats)
    if (const fs::path file = folder / format->file; fs::exists(fs::symlink_status(file, code)))
      throw UsageError(file.string() +
                       ": exists already: choose another folder with -o, results are never overwritten");
  fs::create_directories(folder, code);
  if (code) throw std::system_error(code, folder.string());
  for (const ExportFormat* format : formats) {
    const fs::path file = folder / format->file;
    write_atomically(file, format->write(report, wanted));
    fmt::print("{}\n", text::printable(file.string()));
  }
  return 0;
}

}  // namespace tw::tool
