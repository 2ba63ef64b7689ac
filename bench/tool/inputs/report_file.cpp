#include "bench/tool/inputs/report_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "bench/plan/options/option_value.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/terminal/terminal.hpp"
#include "bench/tool/inputs/archive.hpp"
#include "bench/tool/inputs/recorded_networks.hpp"
#include "bench/tool/inputs/series.hpp"
#include "bench/tool/inputs/suite_points.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/known_texts.hpp"
#include "results/record/repeat_program.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largest_mib = 256;  // a report of an hour at a thousand steps a second has half of that

LoadedReport loaded(std::string bytes) {
  CheckedReport checked = check_report(std::move(bytes));
  if (checked.bundle)
    if (const std::vector<results::Fault> faults = results::checksum_faults(*checked.bundle); !faults.empty())
      throw std::runtime_error(results::fault_line(faults.front()) + "; trainwatt validate lists all faults");
  if (!checked.report) throw std::runtime_error(checked.why_unreadable);
  return {std::move(*checked.report), checked.is_unfinished, checked.is_torn, std::move(checked.found)};
}

[[noreturn]] void refuse_folder(const std::string& path) {
  const std::map<int, fs::path> runs = numbered_runs(path);
  if (const fs::path report = fs::path(path) / "report.json"; runs.empty())
    throw UsageError("bad-file", fs::exists(report)
                                     ? fmt::format("{}: a folder; give {}", path, report.string())
                                     : path + ": a folder without a report.json; give the report of a run");
  const std::string first = (runs.begin()->second / "report.json").string();
  if (runs.size() == 1) throw UsageError("folder-of-runs", fmt::format("{}: a folder of 1 run; give {}", path, first));
  throw UsageError(
      "folder-of-runs",
      fmt::format(
          "{}: a folder of {} runs; this command takes one of them, such as {}; trainwatt compare and trainwatt html "
          "take the folder",
          path, runs.size(), first));
}

/// A warning on stderr, as say_faults().
void say_first(const std::string& path, const std::vector<std::string>& lines, bool is_note) {
  if (lines.empty()) return;
  const std::string more = lines.size() > 1 ? fmt::format(" (and {} more)", lines.size() - 1) : "";
  const std::string text = fmt::format("{}: {}{}; see trainwatt validate {}", path, lines.front(), more, path);
  say_on_stderr(warning_line("trainwatt", is_note ? with_code("report-note", text) : with_code("report-faulty", text)));
}

/// Rates by a counting rule that this version does not know can be any: no command shows them or claims anything.
void leave_out_flops(results::Record& record) {
  results::Summary& s = record.summary;
  if (s.flops_rule.empty() || results::rule_of_flops.is(s.flops_rule)) return;
  const char* const reason = "flops_rule_unknown: FLOPs are counted by a rule that this version does not know";
  s.flops_per_s.reset(), s.of_ceiling.reset(), s.mfu.reset(), s.peak_flops_per_s.reset();
  s.of_ceiling_reason = s.mfu_reason = reason;
  s.model_flops_per_sample = 0, s.hardware_flops_per_sample.reset();
  for (auto& [scope, rate] : s.flops_per_w) rate.reset();
}

/// Reads what `read` reads of a text that has been validated.
template <class Read>
void take(CheckedReport& checked, Read read) {
  try {
    checked.report = read();
  } catch (const std::runtime_error& error) {
    checked.why_unreadable = error.what();
    if (checked.found.violations.empty()) checked.found.violations.push_back({"unreadable", "", error.what()});
    return;
  }
  results::add_left_out_flags(checked.report->records, checked.found);
  const std::string file = checked.bundle ? results::report_file : "";
  const auto is_of_report = [&](const results::Fault& fault) { return fault.file == file; };
  if (std::ranges::any_of(checked.found.violations, is_of_report)) {  // its fields may be anything
    results::summarise(*checked.report);
    return;
  }
  results::Validation more;
  check_networks(*checked.report, more);
  check_suite(*checked.report, more);
  for (results::Fault& fault : more.violations)
    checked.found.violations.push_back(results::in_file(file, std::move(fault)));
  for (results::Fault& note : more.warnings) checked.found.warnings.push_back(results::in_file(file, std::move(note)));
  const auto is_older = [](const results::Record& record) {
    return results::interval_rule(record.summary) != results::IntervalRule::student;
  };
  // An older program's statistics were compared with its samples; every command shows those of this version.
  if (std::ranges::any_of(checked.report->records, is_older)) results::summarise(*checked.report);
  for (results::Record& record : checked.report->records) leave_out_flops(record);
}

/// Whether a text that is no report is at least one that was cut or changed. A cut may leave nothing, or a few letters.
bool is_of_a_report(const std::string& text) {
  if (!results::json_fault(text).empty()) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    return first == text.npos || text[first] == '{';
  }
  const auto json = nlohmann::json::parse(text);
  return json.is_object() && json.contains("schema_version");
}

}  // namespace

std::map<int, fs::path> numbered_runs(const fs::path& folder) {
  constexpr std::string_view begins = "run-";
  std::map<int, fs::path> runs;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, code)) {
    const std::string name = entry.path().filename().string();
    int number = 0;
    const char* const end = name.data() + name.size();
    if (!name.starts_with(begins) || !entry.is_directory(code)) continue;
    if (std::from_chars(name.data() + begins.size(), end, number).ptr != end || number <= 0) continue;
    const std::string its_name = fmt::format("{}{}", begins, number);
    if (name != its_name)
      throw UsageError("bad-folder", fmt::format("{}: rename it to {}, as {} names runs", entry.path().string(),
                                                 its_name, results::repeat_program));
    runs[number] = entry.path();
  }
  return runs;
}

std::string read_report_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    throw UsageError("cannot-read", path + ": " + std::strerror(errno) + ": check the path");
  if (S_ISDIR(status.st_mode)) refuse_folder(path);
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))
    throw UsageError("bad-file", path + ": neither a file nor a pipe; give a report.json");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UsageError("cannot-read", path + ": " + std::strerror(errno) + ": check the path");
  std::string text;
  std::vector<char> block(std::size_t{1} << 20);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > largest_mib << 20)
      throw UsageError("bad-file", fmt::format("{}: too large for a report (maximum {} MiB)", path, largest_mib));
  }
  if (file.bad()) throw UsageError("cannot-read", path + ": cannot be read");
  return text;
}

std::vector<std::string> joule_doubts(const results::Validation& found) {
  std::vector<std::string> lines;
  for (const results::Fault& note : found.warnings)
    if (note.code == "energy_near_power" || note.code == "energy_below_parts")
      lines.push_back(results::fault_line(note));
  return lines;
}

LoadedReport load_report(const std::string& path) {
  return with_named_errors(path, [&] { return loaded(read_report_file(path)); });
}

LoadedRuns load_runs(const std::string& path) {
  LoadedRuns all;
  std::string bytes = with_named_errors(path, [&] { return read_report_file(path); });
  std::optional<Series> series = open_series(bytes);
  if (!series) {
    all.runs.emplace_back(path, with_named_errors(path, [&] { return loaded(std::move(bytes)); }));
    return all;
  }
  all.found = std::move(series->found);
  for (auto& [name, run] : series->runs) {
    const std::string place = path + ":" + name;
    all.runs.emplace_back(place, with_named_errors(place, [&] { return loaded(std::move(run)); }));
  }
  std::vector<std::pair<std::string, const results::Report*>> reports;
  for (std::size_t i = 0; i < all.runs.size(); ++i)
    reports.emplace_back(series->runs[i].first, &all.runs[i].second.report);
  std::ranges::move(series_faults(reports), std::back_inserter(all.found.violations));
  return all;
}

std::vector<std::string> lines_of(const std::vector<results::Fault>& faults) {
  return results::text::texts_of(faults, results::fault_line);
}

void say_faults(const std::string& path, const std::vector<std::string>& lines) { say_first(path, lines, false); }

void say_findings(const std::string& path, const results::Validation& found) {
  say_first(path, lines_of(found.violations), false);
  say_first(path, lines_of(found.warnings), true);
}

void refuse_existing(const std::string& path) {
  std::error_code code;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, code)))
    throw UsageError("file-exists", path + ": already exists: choose another name with -o");
}

results::Scope parse_scope(const std::string& name) {
  const std::optional<results::Scope> scope = results::named<results::Scope>(name);
  if (scope) return *scope;
  std::vector<std::string> known;
  for (const results::Scope one : results::scopes_in_order) known.emplace_back(to_string(one));
  throw_unknown("scope", name, known);
}

results::Order parse_order(const SortOptions& options, const std::vector<results::Record>& records) {
  const bool by_axes = options.by == plan_order, by_run = options.by == run_order;
  const results::Merit* merit = by_axes || by_run ? nullptr : results::find_merit(options.by);
  if (!by_axes && !by_run && merit == nullptr) {
    std::vector<std::string> known = {plan_order, run_order};
    for (const results::Merit& one : results::merits()) known.emplace_back(one.name);
    throw_unknown("sort", options.by, known);
  }
  const results::Scope scope = parse_scope(options.scope);
  if (scope != results::Scope::none) {
    if (merit == nullptr || !merit->by_scope)
      throw UsageError("option-needs", "--scope: only with --sort efficiency, samples-per-joule or energy-to-target");
  }
  return merit == nullptr ? results::Order{nullptr, {}, by_axes} : results::order_by(*merit, scope, records);
}

std::string why_not_written(const std::filesystem::path& path, const std::system_error& error,
                            const std::string& option) {
  return fmt::format("{}: cannot be written: {}: {} with {}", path.string(), error.code().message(),
                     is_full_disk(error.code().value()) ? "free space, or choose another folder"
                                                        : "choose a folder that you can write to",
                     option);
}

void write_out(const std::filesystem::path& file, const std::string& bytes) {
  const std::filesystem::path folder = file.parent_path();
  try {
    results::create_folders(folder);
    results::write_atomically(file, bytes);
  } catch (const std::system_error& error) {
    throw EnvironmentError("not-written", why_not_written(file, error, "-o"));
  }
}

CheckedReport check_report(std::string bytes) {
  CheckedReport checked;
  if (is_packed(bytes)) {
    try {
      checked.bundle = unpack(bytes);
    } catch (const ArchiveError& error) {  // damaged, like a report that is not JSON: readable, but faulty
      checked.why_unreadable = error.what();
      checked.found.violations.push_back({"unreadable", "", error.what()});
      return checked;
    }
    const results::BundleFiles& files = *checked.bundle;
    checked.found = results::validate_bundle(files);
    const auto file = files.find(results::report_file);
    if (file == files.end()) {
      checked.why_unreadable = files.contains("run-1.tar.zst")
                                   ? "a bundle of several runs: trainwatt validate, compare and html take it; for this "
                                     "command, unpack it and give the bundle of one run"
                                   : "a bundle without a report";
      return checked;
    }
    take(checked, [&] { return results::report_from_json(file->second, results::UnknownNames::left_out); });
    return checked;
  }
  checked.is_unfinished = results::holds_record_lines(bytes);
  std::optional<results::Report> whole;
  checked.found =
      checked.is_unfinished ? results::validate_record_lines(bytes) : results::validate_report(bytes, whole);
  take(checked, [&] {
    if (!checked.is_unfinished)
      return whole ? std::move(*whole) : results::report_from_json(bytes, results::UnknownNames::left_out);
    results::Report report;
    results::RecordLines lines = results::record_lines(bytes, results::UnknownNames::left_out);
    report.records = std::move(lines.records), checked.is_torn = lines.torn;
    return report;
  });
  if (checked.report || checked.is_unfinished) return checked;
  checked.is_no_report = !is_of_a_report(bytes);
  if (const std::string other = other_kind(bytes, {InputKind::report}); !other.empty())
    checked.why_unreadable = with_code("wrong-file", other), checked.is_no_report = true;
  else if (checked.is_no_report)
    checked.why_unreadable += "; give the report.json of a run, its records.jsonl, or a bundle";
  return checked;
}

}  // namespace tw::bench::tool
