// `trainwatt validate` and `trainwatt show`: of a report, or of the records.jsonl that a run leaves before it has one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/kit.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/findings.hpp"
#include "bench/tool/inputs/options.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/inputs/series.hpp"
#include "bench/tool/inputs/signature.hpp"
#include "bench/tool/terminal.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/terminal/tables.hpp"

namespace tw::bench::tool {
namespace {

/// Besides check_report(): the kit, and the run rules where nothing else is wrong; of an offer they are faults.
void check_more(const CheckedReport& checked, const ValidateOptions& options, FileFindings& found) {
  const std::string file = checked.bundle ? results::report_file : "";
  const bool is_good =
      std::ranges::none_of(found.faults, [&](const results::Fault& fault) { return fault.file == file; });
  if (checked.report && is_good && !options.kit.empty()) {
    results::Validation more;
    if (checked.is_unfinished)
      more.violations.push_back(
          {"kit_differs", "/plan", "the run is unfinished and has no plan to compare with --kit"});
    else
      check_kit(*checked.report, options.kit, more);
    for (results::Fault& fault : more.violations) found.faults.push_back(results::in_file(file, std::move(fault)));
    for (results::Fault& note : more.warnings) found.notes.push_back(results::in_file(file, std::move(note)));
  }
  const bool is_offer = !options.kit.empty() && !checked.is_unfinished;
  if (checked.bundle) {
    check_offer(checked, found);
  } else if (checked.report && is_offer) {
    found.notes.push_back({"offer_not_bundled", "",
                           "a report alone: it was not checked against its records.jsonl, series and environment"});
    check_rules(*checked.report, true, found);
  } else if (checked.report && found.faults.empty() && !checked.is_unfinished) {
    check_rules(*checked.report, false, found);
  }
}

/// What a report or a bundle of one run says. `is_all`: nothing else was handed in, and a kit may ask for more runs.
FileFindings findings_of_run(const std::string& path, CheckedReport checked, const ValidateOptions& options,
                             bool is_all) {
  FileFindings found;
  found.path = path;
  found.kind = checked.bundle ? FileKind::bundle : checked.is_unfinished ? FileKind::unfinished : FileKind::report;
  found.faults = std::move(checked.found.violations), found.notes = std::move(checked.found.warnings);
  check_more(checked, options, found);
  if (is_all && checked.bundle) check_signature(*checked.bundle, options.signers, found);  // of a series: of them all
  if (is_all && !options.kit.empty())
    if (std::optional<results::Fault> fewer = fewer_runs(options.kit, 1))
      (checked.bundle ? found.faults : found.notes).push_back(std::move(*fewer));
  found.exit_code = found.faults.empty() ? 0 : 1;
  return found;
}

/// A series keeps a rule that each of its runs keeps; of the others the worst case counts.
void add_worse(const std::vector<RuleFinding>& of_run, std::vector<RuleFinding>& of_series) {
  if (of_series.empty()) of_series = of_run;
  const auto badness = [](results::RunRuleState state) {
    return state == results::RunRuleState::broken          ? 3
           : state == results::RunRuleState::not_checkable ? 2
           : state == results::RunRuleState::kept          ? 1
                                                           : 0;
  };
  for (const RuleFinding& rule : of_run)
    for (RuleFinding& worst : of_series)
      if (worst.id == rule.id && badness(rule.state) > badness(worst.state)) worst = rule;
}

/// A bundle of several runs: each of them, then whether they are runs of one plan and as many as the kit asks for.
std::vector<FileFindings> findings_of_series(const std::string& path, Series series, const ValidateOptions& options) {
  FileFindings whole;
  whole.path = path, whole.kind = FileKind::series;
  whole.faults = std::move(series.found.violations), whole.notes = std::move(series.found.warnings);
  std::vector<FileFindings> all;
  std::vector<std::pair<std::string, results::Report>> reports;
  for (auto& [name, bytes] : series.runs) {
    CheckedReport checked = check_report(std::move(bytes));
    if (checked.report) reports.emplace_back(name, *checked.report);
    all.push_back(findings_of_run(path + ":" + name, std::move(checked), options, false));
    whole.exit_code = std::max(whole.exit_code, all.back().exit_code);
    add_worse(all.back().rules, whole.rules);
    if (!is_consistent(all.back()))
      whole.faults.push_back({"run_faulty", "", fmt::format("{} has faults of its own", name)});
  }
  std::vector<std::pair<std::string, const results::Report*>> runs;
  for (const auto& [name, report] : reports) runs.emplace_back(name, &report);
  if (!runs.empty()) std::ranges::move(series_faults(runs), std::back_inserter(whole.faults));
  if (!options.kit.empty())
    if (std::optional<results::Fault> fewer = fewer_runs(options.kit, series.runs.size()))
      whole.faults.push_back(std::move(*fewer));
  whole.facts.push_back("a series of " + results::text::count(series.runs.size(), "run"));
  check_signature(series.files, options.signers, whole);
  if (!whole.faults.empty()) whole.exit_code = 1;
  all.push_back(std::move(whole));
  return all;
}

std::vector<FileFindings> findings_of(const std::string& path, const ValidateOptions& options) {
  std::vector<FileFindings> all;
  try {
    with_named_errors(path, [&] {
      std::string bytes = read_report_file(path);
      if (std::optional<Series> series = open_series(bytes)) {
        all = findings_of_series(path, std::move(*series), options);
        return;
      }
      CheckedReport checked = check_report(std::move(bytes));
      if (checked.is_no_report) throw std::runtime_error(checked.why_unreadable);
      const bool has_no_signature = checked.report && !checked.bundle;
      all.push_back(findings_of_run(path, std::move(checked), options, true));
      if (has_no_signature && !options.signers.empty())
        throw UsageError("option-does-not-apply", path + ": not a bundle: leave out --signers");
    });
  } catch (const UsageError& error) {  // the other files are still worth a look
    FileFindings found;
    found.path = path;
    found.kind = FileKind::unreadable, found.why_unreadable = error.what(), found.exit_code = 2;
    all.push_back(std::move(found));
  }
  return all;
}

/// A report, a bundle or records.jsonl that was cut, or is damaged as a whole.
bool is_unreadable(const FileFindings& found) {
  return std::ranges::any_of(found.faults, [](const results::Fault& fault) {
    return fault.where.empty() && (fault.code == "not_json" || fault.code == "unreadable");
  });
}

struct ShowOptions {
  std::string path;
  SortOptions sort;  ///< of the table
  LookOptions look;
};

/// The worst of the files' codes. What is found goes to stdout; only files that cannot be read go to stderr.
int validate(const ValidateOptions& options) {
  int code = 0;
  // What is wrong with these is of no file.
  if (!options.kit.empty()) open_kit(options.kit, read_input("--kit", options.kit, {InputKind::kit}));
  if (!options.signers.empty()) check_signers(options.signers);
  std::vector<FileFindings> files;
  for (const std::string& path : options.paths)
    for (FileFindings& found : findings_of(path, options)) {
      code = std::max(code, found.exit_code);
      if (found.kind == FileKind::unreadable)
        say_error(results::text::printable(found.why_unreadable));
      else if (!options.json)
        fmt::print("{}", findings_text(found, options.verbose,
                                       options.paths.size() > 1 || found.path != options.paths.front() ||
                                           found.kind == FileKind::series || is_unreadable(found)));
      if (options.json) files.push_back(std::move(found));
    }
  if (options.json) fmt::print("{}", findings_json(files, code));
  return code;
}

int show(const ShowOptions& options) {
  results::TableStyle style = terminal_style(options.look.width, options.look.ascii);
  const LoadedReport loaded = load_report(options.path);
  say_findings(options.path, loaded.validation);
  const std::vector<results::Record>& records = loaded.report.records;
  style.order = parse_order(options.sort, records);
  if (loaded.is_unfinished)
    fmt::print("Records of a run, without its report: {}{}; the context and the plan are not in this file.\n{}",
               results::text::count(records.size(), "record"),
               loaded.is_torn ? ", and a last line that was cut off" : "", results::show_records(records, style));
  else
    fmt::print("{}", with_named_errors(options.path, [&] { return results::show_report(loaded.report, style); }));
  return 0;
}

}  // namespace

Action add_validate(CLI::App& command, const Words&) {
  const auto options = std::make_shared<ValidateOptions>();
  command
      .add_option("FILE", options->paths,
                  "report.json, records.jsonl of an unfinished run, or a bundle (trainwatt bundle)")
      ->required();
  command.add_option("--kit", options->kit, "kit (trainwatt freeze) that the runs must be of");
  command.add_option("--signers", options->signers, "file of allowed signers of a bundle, as ssh-keygen reads it");
  CLI::Option* verbose = command.add_flag("--verbose", options->verbose, "print every run rule with what was found");
  command.add_flag("--json", options->json, "print JSON: faults, notes and rules with their codes")->excludes(verbose);
  return [options] { return validate(*options); };
}

Action add_show(CLI::App& command, const Words&) {
  const auto options = std::make_shared<ShowOptions>();
  command.add_option("FILE", options->path, report_help)->required();
  add_look(command, options->look);
  add_sort(command, options->sort, plan_order);
  return [options] { return show(*options); };
}

}  // namespace tw::bench::tool
