#include "bench/tool/inputs/series.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/kit.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "results/compare/copies.hpp"
#include "results/export/bundle.hpp"
#include "results/record/repeat_program.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view packed_run = ".tar.zst";

std::string run_name(std::size_t index) { return fmt::format("run-{}", index); }

/// The inverse; 0 for any other name.
std::size_t number_of(std::string_view name) {
  constexpr std::string_view prefix = "run-";
  std::size_t index = 0;
  if (name.starts_with(prefix)) std::from_chars(name.data() + prefix.size(), name.data() + name.size(), index);
  return run_name(index) == name ? index : 0;
}

std::string index_of(const results::Report& report) {
  return report.context.run_index ? std::to_string(*report.context.run_index) : "none";
}

std::string readme(std::size_t runs, const std::vector<std::string>& forced_over) {
  std::string out = fmt::format(
      "An offer of {0} runs, measured with trainwatt\n\n"
      "Each run-N.tar.zst is the bundle of one run, with its own report and README.txt. All are runs of one plan.\n",
      runs);
  if (!forced_over.empty())
    out += "\nThis bundle was made by --force: its runs do not belong together, see bundle.json.\n";
  return out +
         "\nChecking\n"
         "  trainwatt validate OFFER.tar.zst --kit KIT.json   checks each run, that they are launches of one plan,\n"
         "                                                    and that there are as many as the kit asks for\n"
         "  tar --zstd -xf OFFER.tar.zst                      unpacks the bundles of the runs\n"
         "  sha256sum -c SHA256SUMS                           checks the files alone, unpacked, without trainwatt\n";
}

/// bundle.json against the runs that are there.
void check_bundle_json(const std::string& text, std::size_t runs, results::Validation& found) {
  const auto broken = [&](const std::string& what, const std::string& where = "") {
    found.violations.push_back({"bundle_file", where, what, results::bundle_file});
  };
  if (const std::string fault = results::json_fault(text); !fault.empty()) return broken("not JSON: " + fault);
  const Json json = Json::parse(text);
  const Json version = json.is_object() ? json.value("bundle_version", Json()) : Json();
  if (const std::string why =
          results::version_obstacle(version.is_string() ? version.get<std::string>() : "", results::bundle_version);
      !why.empty())
    return broken(why, "/bundle_version");
  if (json.value("runs", Json()) != Json(runs)) broken(fmt::format("is not {}, the number of its runs", runs), "/runs");
  const Json forced = json.value("forced_over", Json());
  if (!forced.is_array()) return broken("is not a list", "/forced_over");
  for (const Json& line : forced)
    found.warnings.push_back(
        {"bundle_forced", "",
         "was made with --force over: " + (line.is_string() ? line.get<std::string>() : line.dump()),
         results::bundle_file});
}

}  // namespace

std::vector<fs::path> run_folders(const fs::path& folder) {
  std::vector<fs::path> all;
  std::set<int> numbers;
  for (auto& [number, run] : numbered_runs(folder)) all.push_back(std::move(run)), numbers.insert(number);
  if (const std::string missing = results::missing_of(numbers); !missing.empty())
    throw UsageError(
        "runs-missing",
        fmt::format("{}: run-{} exists, but not run {}: a series needs all its runs; the same {} command makes the "
                    "missing ones",
                    folder.string(), *numbers.rbegin(), missing, results::repeat_program));
  return all;
}

results::BundleFiles make_series(const std::vector<std::pair<std::string, std::string>>& runs,
                                 const std::vector<std::string>& forced_over) {
  results::BundleFiles files;
  for (const auto& [name, bytes] : runs) files[name + std::string(packed_run)] = bytes;
  files[results::bundle_file] = results::bundle_json(forced_over, runs.size());
  files[results::readme_file] = readme(runs.size(), forced_over);
  files[results::sums_file] = results::checksums(files);
  return files;
}

std::optional<Series> open_series(const std::string& bytes) {
  if (!is_packed(bytes)) return std::nullopt;
  Series series;
  try {
    series.files = unpack(bytes);
  } catch (const ArchiveError&) {
    return std::nullopt;  // as a bundle it is refused with the cause
  }
  if (series.files.contains(results::report_file)) return std::nullopt;
  for (std::size_t i = 1; i <= most_offered_runs; ++i) {
    const auto run = series.files.find(run_name(i) + std::string(packed_run));
    if (run == series.files.end()) break;
    series.runs.emplace_back(run_name(i), run->second);
  }
  if (series.runs.empty()) return std::nullopt;
  series.found.violations = results::checksum_faults(series.files);
  for (const auto& [name, content] : series.files) {
    const std::size_t run = name.ends_with(packed_run) ? number_of(name.substr(0, name.size() - packed_run.size())) : 0;
    const bool is_known = name == results::bundle_file || name == results::readme_file || name == results::sums_file ||
                          name == results::signature_file;
    if (!is_known && (run == 0 || run > series.runs.size()))
      series.found.violations.push_back(
          {"bundle_file", "", fmt::format("does not belong to a bundle of runs 1 to {}", series.runs.size()), name});
  }
  if (const auto json = series.files.find(results::bundle_file); json == series.files.end())
    series.found.violations.push_back({"bundle_file", "", "is missing", results::bundle_file});
  else
    check_bundle_json(json->second, series.runs.size(), series.found);
  return series;
}

std::optional<results::Fault> left_out_fault(const std::string& name, const results::Report& report) {
  // scripts/repeat gives the run in run-N the index N. Without one a run has the order of the first.
  const std::size_t number = number_of(name);
  if (number == 0 || static_cast<std::size_t>(report.context.run_index.value_or(1)) == number) return std::nullopt;
  return results::Fault{"run_left_out", "",
                        fmt::format("{} has run index {}: it is another run of the series; hand in all runs, named as "
                                    "{} named them",
                                    name, index_of(report), results::repeat_program)};
}

std::vector<results::Fault> series_faults(const std::vector<std::pair<std::string, const results::Report*>>& runs) {
  std::vector<results::Fault> faults;
  std::map<std::string, std::string> launches, indices;
  for (const auto& [name, report] : runs) {
    const auto& [first_name, first] = runs.front();
    if (report->plan.canonical_json != first->plan.canonical_json)
      faults.push_back({"other_plan", "", fmt::format("{} ran another plan than {}", name, first_name)});
    // A resumed run has several launches. No other run may have any of them.
    std::vector<std::string> its = {report->context.launch.value_or("")};
    for (const results::RunPart& part : report->parts.value_or(std::vector<results::RunPart>()))
      if (part.context) its.push_back(part.context->launch.value_or(""));
    for (const std::string& launch : its)
      if (const auto [known, is_new] = launches.emplace(launch, name); !is_new && !launch.empty())
        faults.push_back(
            {"same_launch", "",
             fmt::format("{} and {} are the same launch: each run must be launched separately", name, known->second)});
    const std::string index = index_of(*report);
    if (std::optional<results::Fault> other = left_out_fault(name, *report)) faults.push_back(std::move(*other));
    if (const auto [known, is_new] = indices.emplace(index, name); !is_new)
      faults.push_back(
          {"same_order", "",
           fmt::format("{} and {} have the run index {}: start them with {}", name, known->second, index,
                       results::repeat_program)});
  }
  std::vector<const results::Report*> reports;
  for (const auto& [name, report] : runs) reports.push_back(report);
  std::vector<std::pair<results::Difference, std::size_t>> pairs;  // of runs, with how many points
  if (reports.size() > 1)
    for (const results::Difference& copy : results::copies(reports)) {
      const auto same =
          std::ranges::find(pairs, copy.system_value, [](const auto& one) { return one.first.system_value; });
      if (same == pairs.end())
        pairs.emplace_back(copy, 1);
      else
        ++same->second;
    }
  for (const auto& [copy, points] : pairs)
    faults.push_back(
        {"same_samples", "",
         fmt::format("{} in {}: {}", copy.system_value, results::text::count(points, "point"), copy.why)});
  return faults;
}

std::optional<results::Fault> fewer_runs(const std::string& kit_path, std::size_t runs) {
  const Request request = read_config(kit_path, read_input("--kit", kit_path, {InputKind::kit}));
  const auto asked = static_cast<std::size_t>(request.repeat.value_or(1));
  if (runs >= asked) return std::nullopt;
  return results::Fault{"fewer_runs", "",
                        fmt::format("{} asks for {} runs, and {} {} handed in", results::text::printable(kit_path),
                                    asked, runs, runs == 1 ? "was" : "were")};
}

}  // namespace tw::bench::tool
