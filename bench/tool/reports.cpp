// `trainwatt validate` and `trainwatt show`: of a report, or of the records.jsonl that a run leaves before it has one.
#include <fmt/format.h>

#include <algorithm>

#include "bench/plan/kit.hpp"
#include "bench/tool/check.hpp"
#include "bench/tool/commands.hpp"
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
void check_more(const std::string& path, CheckedReport& checked, const ValidateOptions& options) {
  std::vector<Fault>& violations = checked.found.violations;
  const std::string file = checked.bundle ? report_file : "";
  const bool is_good = std::ranges::none_of(violations, [&](const Fault& fault) { return fault.file == file; });
  if (checked.report && is_good && !options.kit.empty()) {
    Validation more;
    if (checked.is_unfinished)
      more.violations.push_back({"kit_differs", "/plan", "an unfinished run has none to hold against --kit"});
    else
      check_kit(*checked.report, options.kit, more);
    for (Fault& fault : more.violations) violations.push_back(in_file(file, std::move(fault)));
    for (Fault& note : more.warnings) checked.found.warnings.push_back(in_file(file, std::move(note)));
  }
  const bool is_offer = !options.kit.empty() && !checked.is_unfinished;
  if (checked.bundle) {
    check_offer(path, checked, options);
  } else if (checked.report && is_offer) {
    checked.found.warnings.push_back(
        {"offer_not_bundled", "", "is a report alone: its records.jsonl, series and environment were not held against it"});
    check_rules(path, *checked.report, &checked.found);
  } else if (checked.report && violations.empty()) {
    check_rules(path, *checked.report, nullptr);
  }
}

}  // namespace

int validate(const ValidateOptions& options) {
  int code = 0;
  if (!options.kit.empty()) open_kit(options.kit, read_config_text(options.kit, "--kit"));  // what is wrong with it is of no file
  for (const std::string& path : options.paths) {
    try {
      with_named_errors(path, [&] {
        CheckedReport checked = check_report(read_report_file(path));
        check_more(path, checked, options);
        const Validation& found = checked.found;
        const std::string name = text::printable(path);
        for (const Fault& fault : found.violations) fmt::print(stderr, "{}: {}\n", name, text::printable(fault_line(fault)));
        for (const Fault& note : found.warnings)
          fmt::print(stderr, "{}: warning: {}\n", name, text::printable(fault_line(note)));
        if (found.violations.empty())
          fmt::print("{}: good{}\n", name,
                     checked.is_unfinished ? ", but of an unfinished run: without context and plan" : "");
        else
          code = std::max(code, 1);
        if (checked.report && !checked.bundle && !options.signers.empty())
          throw UsageError(path + ": is no bundle, and --signers is for bundles: leave it out");
      });
    } catch (const UsageError& error) {
      fmt::print(stderr, "trainwatt: {}\n", text::printable(error.what()));  // the other files are still worth a look
      code = 2;
    }
  }
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
