#include "bench/tool/inputs/systems.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>
#include <set>
#include <utility>

#include "bench/plan/options/option_value.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/terminal/terminal.hpp"
#include "bench/tool/inputs/findings.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/inputs/series.hpp"
#include "results/compare/baseline.hpp"
#include "results/compare/differences.hpp"
#include "results/compare/run_variance.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code code;
  return fs::exists(path, code);
}

/// "out/r1/report.json" is r1, "a.json" is a.
std::string name_of(const std::string& path) {
  const fs::path file = fs::path(path).lexically_normal();
  const std::string folder = file.parent_path().filename().string();
  const std::string stem = file.stem().string();
  return stem == "report" && !folder.empty() && folder != "." && folder != ".." ? folder : stem;
}

/// The reports of a folder of runs, in the order of their numbers; of anything else the path itself.
std::vector<std::string> runs_of(const std::string& path) {
  std::vector<std::string> reports;
  for (const fs::path& run : run_folders(path)) {
    const fs::path report = run / "report.json";
    if (!exists(report.string()))
      throw UsageError("run-without-report",
                       report.string() +
                           ": missing: finish this run with trainwatt-train --resume, or list the reports to "
                           "compare");
    reports.push_back(report.string());
  }
  return reports.empty() ? std::vector<std::string>{path} : reports;
}

/// The reports of "FILE,FILE,…", the end of `word`; each FILE may be a folder of runs. A file of that whole name is
/// taken as it is.
std::vector<std::string> reports_of(const std::string& list, const std::string& word) {
  std::vector<std::string> reports;
  if (list.empty() || list.starts_with(',') || list.ends_with(',') || list.find(",,") != list.npos)
    throw UsageError("bad-value", fmt::format("\"{}\": the name of a file is missing: give NAME=FILE,FILE,…", word));
  for (const std::string& file : exists(list) ? std::vector<std::string>{list} : split(list, ','))
    for (std::string& path : runs_of(file)) reports.push_back(std::move(path));
  return reports;
}

/// FILE,FILE,… or NAME=FILE,FILE,… where there is no file of that very name.
results::SystemInput system_of(const std::string& word) {
  results::SystemInput system;
  const std::size_t equal = word.find('=');
  if (equal == std::string::npos || equal == 0 || exists(word)) {
    system.paths = reports_of(word, word);
    std::error_code code;
    const fs::path path = fs::path(word).lexically_normal();
    system.name = fs::is_directory(word, code) ? (path.has_filename() ? path : path.parent_path()).filename().string()
                                               : name_of(system.paths.front());
    return system;
  }
  system.name = word.substr(0, equal);
  system.paths = reports_of(word.substr(equal + 1), word);
  return system;
}

/// `is_one_of_many`: the system has more files or runs, so that each line says whose it is.
void add_findings(results::SystemInput& system, const std::string& path, bool is_one_of_many,
                  results::Validation& found) {
  const std::string whose = is_one_of_many ? path + ": " : "";
  for (const results::Fault& fault : found.violations) system.faults.push_back(whose + results::fault_line(fault));
  for (const results::Fault& note : found.warnings) system.notes.push_back(whose + results::fault_line(note));
  for (const std::string& doubt : joule_doubts(found)) system.joule_doubts.push_back(whose + doubt);
  for (results::MissingField& field : found.missing_fields) system.missing_fields.push_back(std::move(field));
  found.violations.clear();  // whoever asked says them
  say_findings(path, found);
}

/// A folder of scripts/repeat has the number of its run in its name. A run that states no index is of none.
void check_folder(const std::string& path, LoadedReport& run) {
  std::error_code code;
  const fs::path whole = fs::absolute(path, code);  // report.json, given within its folder, has a folder, too
  const std::string folder = (code ? fs::path(path) : whole).lexically_normal().parent_path().filename().string();
  if (!run.report.context.run_index) return;
  if (std::optional<results::Fault> other = left_out_fault(folder, run.report))
    run.validation.violations.push_back(std::move(*other));
}

/// Runs in the order in which they were made, each with its path: "run 2" is the second file that is named.
void sort_by_time(results::SystemInput& system) {
  std::vector<std::size_t> order(system.runs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t run) { return system.runs[run].context.started_at; });
  std::vector<results::Report> runs;
  std::vector<std::string> paths;
  for (const std::size_t run : order)
    runs.push_back(std::move(system.runs[run])), paths.push_back(std::move(system.paths[run]));
  system.runs = std::move(runs), system.paths = std::move(paths);
}

/// Where the answer does not name them all.
std::string where_all_faults_are(const results::Comparison& comparison) {
  std::set<std::string> texts;
  for (const results::AwardObstacle& one : comparison.not_an_award) texts.insert(one.text);
  if (texts.size() <= results::most_named_obstacles) return {};
  const results::ComparedSystem& system = comparison.systems[comparison.not_an_award.front().system];
  return fmt::format(" All faults of an offer: trainwatt validate {} --kit KIT", system.paths.front());
}

std::vector<results::SystemInput> read_run_variance(const std::vector<std::string>& words,
                                                    const std::vector<results::SystemInput>& systems,
                                                    const results::CompareOptions& options) {
  std::vector<results::SystemInput> groups = words.empty() ? std::vector<results::SystemInput>() : read_systems(words);
  if (const auto fault = results::fault_of(groups, systems, options))
    throw UsageError(fault->code, "--run-variance: " + fault->text);
  return groups;
}

std::map<std::string, double> read_weights(const std::vector<std::string>& words) {
  if (words.size() == 1 && (exists(words[0]) || words[0].find('=') == std::string::npos))
    return with_text_of(
        "--weights", words[0], InputKind::weights,
        [](const std::string& text) { return results::weights_from_json(text); }, "bad-weights");
  std::map<std::string, double> weights;
  for (const std::string& word : words) {
    const std::size_t equal = word.rfind('=');
    double weight = 0;
    const char* const end = word.data() + word.size();
    if (equal == std::string::npos || equal == 0 || std::from_chars(word.data() + equal + 1, end, weight).ptr != end ||
        equal + 1 == word.size())
      throw UsageError("bad-value", "--weights " + word + ": must be TEXT=NUMBER, or one JSON file");
    weights[word.substr(0, equal)] = weight;
  }
  return weights;
}

std::size_t reference_of(const std::vector<results::SystemInput>& systems, const std::string& name) {
  if (name.empty()) return 0;
  std::vector<std::string> known;
  for (std::size_t i = 0; i < systems.size(); ++i) {
    if (systems[i].name == name || systems[i].paths == std::vector<std::string>{name}) return i;
    known.push_back(systems[i].name);
  }
  throw_unknown("reference", name, known);
}

void price(std::vector<results::SystemInput>& systems, results::CompareOptions& options, const results::Prices& prices,
           const PriceOptions& wanted) {
  check_names(wanted, results::text::texts_of(systems, &results::SystemInput::name));
  std::vector<results::PriceRow> rows;
  for (results::SystemInput& system : systems) {
    rows.push_back(price_of(prices, wanted, system.name, system.runs));
    system.price = rows.back();
  }
  say_doubts(rows);
  options.currency = prices.currency, options.sensitivity_share = wanted.sensitivity_percent / 100;
}

}  // namespace

std::vector<results::SystemInput> read_systems(const std::vector<std::string>& words) {
  std::vector<results::SystemInput> systems;
  std::set<std::string> names;
  for (const std::string& word : words) {
    systems.push_back(system_of(word));
    const std::string& name = systems.back().name;
    if (word.starts_with(name + "=") && !names.insert(name).second)
      throw UsageError("duplicate-value", fmt::format("two systems are named {}: give each its own name", name));
  }
  names.clear();
  for (results::SystemInput& system : systems) {
    const std::string name = system.name;
    for (int i = 2; !names.insert(system.name).second; ++i) system.name = fmt::format("{}#{}", name, i);
    const std::vector<std::string> files = std::exchange(system.paths, {});
    for (const std::string& file : files) {
      LoadedRuns loaded = load_runs(file);
      const bool is_one_of_many = files.size() > 1 || loaded.runs.size() > 1;
      add_findings(system, file, is_one_of_many, loaded.found);
      for (auto& [path, run] : loaded.runs) {
        if (run.is_unfinished && words.size() > 1)
          throw UsageError("unfinished-run",
                           path +
                               ": records of an unfinished run: finish it with trainwatt-train --resume, "
                               "and give its report.json");
        check_folder(path, run);
        add_findings(system, path, is_one_of_many, run.validation);
        system.runs.push_back(std::move(run.report)), system.paths.push_back(std::move(path));
      }
    }
    sort_by_time(system);
  }
  return systems;
}

int code_of(const results::Comparison& comparison) {
  constexpr int nothing = 4;
  const auto say = [](const std::string& text) {
    std::fflush(stdout);  // keeps the order of output and error in one pipe or log file
    say_on_stderr(error_line("trainwatt", text));
  };
  if (!comparison.compared) {
    std::string text = "nothing could be compared: " + comparison.answer.front();
    const auto first = [&](auto is_it) { return std::ranges::find_if(comparison.differences, is_it); };
    const auto batch = first([](const results::Difference& d) { return d.blocking && d.what == "global batch"; });
    const auto of_class =
        first([](const results::Difference& d) { return d.blocking && d.what == results::device_class_difference; });
    const bool is_class = of_class != comparison.differences.end();
    const bool is_batch = !is_class && batch != comparison.differences.end();
    const auto why = is_class ? of_class : is_batch ? batch : first(&results::Difference::blocking);
    if (why != comparison.differences.end() && !why->why.empty()) text += " " + results::text::sentence(why->why);
    say(is_class   ? with_code("device-class-differs", text)
        : is_batch ? with_code("global-batch-differs", text)
                   : with_code("not-comparable", text));
    return nothing;
  }
  if (!comparison.is_tender || (comparison.decided() && comparison.not_an_award.empty())) return 0;
  if (comparison.not_an_award.empty())
    say(with_code("no-verdict", "the tender has no verdict: " + comparison.answer.front()));
  else
    say(with_code("not-an-award", comparison.answer.front() + where_all_faults_are(comparison)));
  return nothing;
}

results::Comparison compared(const std::vector<results::SystemInput>& systems, const results::CompareOptions& options) {
  return with_named_errors(files_of(systems), [&] {
    try {
      return results::compare(systems, options);
    } catch (const results::OptionError& error) {
      throw UsageError(error.code(), error.what());
    }
  });
}

std::string files_of(const std::vector<results::SystemInput>& systems) {
  std::vector<std::string> paths;
  for (const results::SystemInput& system : systems)
    paths.insert(paths.end(), system.paths.begin(), system.paths.end());
  return fmt::format("{}", fmt::join(paths, ", "));
}

void compare_as(const SystemsOptions& wanted, std::vector<results::SystemInput>& systems,
                results::CompareOptions& options) {
  options.scope = parse_scope(wanted.scope), options.only = wanted.only;
  if (!wanted.weights.empty()) options.weights = read_weights(wanted.weights);
  options.reference = reference_of(systems, wanted.reference);
  if (const std::optional<results::Prices> prices = read_prices(wanted.prices))
    price(systems, options, *prices, wanted.prices);
  options.run_variance = read_run_variance(wanted.run_variance, systems, options);
  options.is_tender = !wanted.kit.empty();
  if (options.is_tender)
    for (results::SystemInput& system : systems)
      system.offer_faults = offer_faults(system.runs, system.paths, wanted.kit);
}

}  // namespace tw::bench::tool
