// `trainwatt validate` and `trainwatt show`: of a report, or of the records.jsonl that a run leaves before it has one.
#include <fmt/format.h>

#include <algorithm>

#include "bench/plan/kit.hpp"
#include "bench/tool/check.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/findings.hpp"
#include "bench/tool/offer.hpp"
#include "bench/tool/report_file.hpp"
#include "bench/tool/terminal.hpp"
#include "results/report_io.hpp"
#include "results/tables.hpp"
#include "results/text.hpp"

namespace tw::tool {
namespace {

/// Besides check_report(): the kit, and the run rules where nothing else is wrong. Of an offer, a bundle or what is held
/// against a kit, these count, too.
void check_more(const CheckedReport& checked, const ValidateOptions& options, FileFindings& found) {
  const std::string file = checked.bundle ? report_file : "";
  const bool is_good = std::ranges::none_of(found.faults, [&](const Fault& fault) { return fault.file == file; });
  if (checked.report && is_good && !options.kit.empty()) {
    Validation more;
    if (checked.is_unfinished)
      more.violations.push_back({"kit_differs", "/plan", "an unfinished run has none to hold against --kit"});
    else
      check_kit(*checked.report, options.kit, more);
    for (Fault& fault : more.violations) found.faults.push_back(in_file(file, std::move(fault)));
    for (Fault& note : more.warnings) found.notes.push_back(in_file(file, std::move(note)));
  }
  const bool is_offer = !options.kit.empty() && !checked.is_unfinished;
  if (checked.bundle) {
    check_offer(checked, options, found);
  } else if (checked.report && is_offer) {
    found.notes.push_back(
        {"offer_not_bundled", "", "is a report alone: its records.jsonl, series and environment were not held against it"});
    check_rules(*checked.report, true, found);
  } else if (checked.report && found.faults.empty() && !checked.is_unfinished) {
    check_rules(*checked.report, false, found);
  }
}

FileFindings findings_of(const std::string& path, const ValidateOptions& options) {
  FileFindings found;
  found.path = path;
  try {
    with_named_errors(path, [&] {
      CheckedReport checked = check_report(read_report_file(path));
      found.kind = checked.bundle ? FileKind::bundle : checked.is_unfinished ? FileKind::unfinished : FileKind::report;
      found.faults = std::move(checked.found.violations), found.notes = std::move(checked.found.warnings);
      check_more(checked, options, found);
      found.exit_code = found.faults.empty() ? 0 : 1;
      if (checked.report && !checked.bundle && !options.signers.empty())
        throw UsageError(path + ": is no bundle, and --signers is for bundles: leave it out");
    });
  } catch (const UsageError& error) {  // the other files are still worth a look
    found.kind = FileKind::unreadable, found.why_unreadable = error.what(), found.exit_code = 2;
  }
  return found;
}

}  // namespace

int validate(const ValidateOptions& options) {
  int code = 0;
  if (!options.kit.empty()) open_kit(options.kit, read_config_text(options.kit, "--kit"));  // what is wrong with it is of no file
  std::vector<FileFindings> files;
  for (const std::string& path : options.paths) {
    FileFindings found = findings_of(path, options);
    code = std::max(code, found.exit_code);
    if (found.kind == FileKind::unreadable)
      fmt::print(stderr, "trainwatt: {}\n", text::printable(found.why_unreadable));
    else if (!options.json)
      fmt::print("{}", findings_text(found, options.verbose, options.paths.size() > 1));
    if (options.json) files.push_back(std::move(found));
  }
  if (options.json) fmt::print("{}", findings_json(files, code));
  return code;
}

int show(const ShowOptions& options) {
  TableStyle style = terminal_style(options.width, options.ascii);
  const LoadedReport loaded = load_report(options.path);
  say_findings(options.path, loaded.validation);
  const std::vector<Record>& records = loaded.report.records;
  style.order = parse_order(options.sort, records);
  if (loaded.is_unfinished)
    fmt::print("An unfinished run: {} record{}{}; the context and the plan are not in this file.\n{}", records.size(),
               records.size() == 1 ? "" : "s", loaded.is_torn ? ", and a last line that was cut off" : "",
               show_records(records, style));
  else
    fmt::print("{}", with_named_errors(options.path, [&] { return show_report(loaded.report, style); }));
  return 0;
}

}  // namespace tw::tool
