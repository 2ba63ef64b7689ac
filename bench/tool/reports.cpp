// `trainwatt validate` and `trainwatt show`: of a report, or of the records.jsonl that a run leaves before it has one.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "bench/plan/kit.hpp"
#include "bench/tool/check.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/offer.hpp"
#include "bench/tool/report_file.hpp"
#include "bench/tool/series.hpp"
#include "bench/tool/terminal.hpp"
#include "results/report_io.hpp"
#include "results/tables.hpp"
#include "results/text.hpp"

namespace tw::tool {
namespace {

/// Besides check_report(): the kit, and the run rules where nothing else is wrong. Of an offer these count, too.
void check_more(const std::string& path, CheckedReport& checked, const ValidateOptions& options) {
  std::vector<std::string>& violations = checked.found.violations;
  const std::string file = checked.bundle ? std::string(report_file) + ": " : "";
  const bool is_good =
      std::ranges::none_of(violations, [&](const std::string& line) { return line.starts_with(file); });
  if (checked.report && is_good && !options.kit.empty()) {
    Validation more;
    if (checked.is_unfinished)
      more.violations.emplace_back("/plan: an unfinished run has none to hold against --kit");
    else
      check_kit(*checked.report, options.kit, more);
    for (const std::string& line : more.violations) violations.push_back(file + line);
    for (const std::string& line : more.warnings) checked.found.warnings.push_back(file + line);
  }
  if (checked.bundle)
    check_offer(path, checked, options);
  else if (checked.report && violations.empty())
    check_rules(path, *checked.report, nullptr);
}

/// What was found, one line each on stderr, and where nothing is wrong "good" on stdout. Returns the exit code.
int say(const std::string& path, const Validation& found, const char* more) {
  const std::string name = text::printable(path);
  for (const std::string& line : found.violations) fmt::print(stderr, "{}: {}\n", name, text::printable(line));
  for (const std::string& line : found.warnings) fmt::print(stderr, "{}: warning: {}\n", name, text::printable(line));
  if (found.violations.empty()) fmt::print("{}: good{}\n", name, more);
  return found.violations.empty() ? 0 : 1;
}

/// `is_all`: all that was handed in, so that a kit may ask for more runs. Returns what was checked and the exit code.
std::pair<CheckedReport, int> validate_one(const std::string& path, std::string bytes, const ValidateOptions& options,
                                           bool is_all) {
  CheckedReport checked = check_report(std::move(bytes));
  check_more(path, checked, options);
  if (const std::string fewer = is_all && !options.kit.empty() ? fewer_runs(options.kit, 1) : ""; !fewer.empty())
    (checked.bundle ? checked.found.violations : checked.found.warnings).push_back(fewer);
  const int code =
      say(path, checked.found, checked.is_unfinished ? ", but of an unfinished run: without context and plan" : "");
  if (checked.report && !checked.bundle && !options.signers.empty())
    throw UsageError(path + ": is no bundle, and --signers is for bundles: leave it out");
  return {std::move(checked), code};
}

/// A bundle of several runs: each of them, and whether they are runs of one plan, and as many as the kit asks for.
int validate_series(const std::string& path, Series& series, const ValidateOptions& options) {
  ValidateOptions each = options;
  each.signers.clear();  // who hands in the runs signs all together
  int code = 0;
  std::vector<CheckedReport> checked;
  checked.reserve(series.runs.size());
  std::vector<std::pair<std::string, const Report*>> reports;
  for (auto& [name, bytes] : series.runs) {
    auto [one, its_code] = validate_one(path + ":" + name, std::move(bytes), each, false);
    code = std::max(code, its_code);
    checked.push_back(std::move(one));
    if (checked.back().report) reports.emplace_back(name, &*checked.back().report);
  }
  std::vector<std::string>& violations = series.found.violations;
  if (!reports.empty())
    for (std::string& line : series_faults(reports)) violations.push_back(std::move(line));
  if (const std::string fewer = options.kit.empty() ? "" : fewer_runs(options.kit, series.runs.size()); !fewer.empty())
    violations.push_back(fewer);
  check_signature(text::printable(path), series.files, options.signers, series.found);
  return std::max(code, say(path, series.found, fmt::format(" as a series of {} runs", series.runs.size()).c_str()));
}

}  // namespace

int validate(const ValidateOptions& options) {
  int code = 0;
  if (!options.kit.empty()) open_kit(options.kit, read_config_text(options.kit, "--kit"));  // what is wrong with it is of no file
  for (const std::string& path : options.paths) {
    try {
      with_named_errors(path, [&] {
        std::string bytes = read_report_file(path);
        if (std::optional<Series> series = open_series(bytes))
          code = std::max(code, validate_series(path, *series, options));
        else
          code = std::max(code, validate_one(path, std::move(bytes), options, true).second);
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
