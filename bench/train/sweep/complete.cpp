#include "bench/train/sweep/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/terminal/error_line.hpp"
#include "bench/terminal/terminal.hpp"
#include "bench/train/job/outcome.hpp"
#include "results/analysis/completeness.hpp"
#include "results/analysis/conditions.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"
#include "results/validation/validate.hpp"

namespace tw::bench {
namespace fs = std::filesystem;
namespace {

/// Throws Stop if only the version that wrote it can read it.
results::Report report_of(const fs::path& path, const std::string& text, const results::Program& its) {
  try {
    return results::report_from_json(text);
  } catch (const std::runtime_error& error) {
    throw Stop(exit_environment, "bad-report",
               fmt::format("{}: {}: version {} ({}) wrote it: use that version", path.string(), error.what(),
                           its.version, its.git_commit));
  }
}

}  // namespace

std::string why_refused(const results::Report& report) {
  const auto is_good = [](const results::Record& record) { return results::is_valid(record); };
  if (std::ranges::any_of(report.records, is_good)) return {};
  const auto first = std::ranges::find_if(report.records, results::has_refused_setting);
  if (first == report.records.end()) return {};
  const std::vector<std::string>& reasons = first->verdict.reasons;
  return with_code("setting-refused",
                   results::text::printable(fmt::format(
                       "no point was measured: {}: {}: trainwatt probe lists what can be set here, and the permission "
                       "that it needs",
                       first->id, reasons.empty() ? "a set point was refused" : reasons.front())));
}

int exit_code_of(const results::Report& report) {
  return why_refused(report).empty() ? results::exit_code(report) : exit_environment;
}

std::optional<int> code_of_complete(const Sweep& sweep) {
  const std::optional<Earlier>& earlier = sweep.folder.earlier();
  if (!earlier || earlier->start.plan.canonical_json != sweep.plan.canonical_json()) return std::nullopt;
  int code = -1;
  on_root(sweep.job, [&] {
    const fs::path path = sweep.folder.path() / results::report_file;
    const bool is_whole = sweep.plan.search || earlier->records.size() == sweep.plan.points.size();
    if (!is_whole || !fs::exists(path)) return;
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    // Another version may know other rules: the report is not damaged for that, and could not be written again.
    const results::Program mine = results::program_info("trainwatt-train"), &its = earlier->start.program;
    const bool is_ours = its.version == mine.version && its.git_commit == mine.git_commit;
    if (const results::Validation found = results::validate_report(text.str()); is_ours && !found.violations.empty())
      throw Stop(exit_environment, "bad-report",
                 fmt::format("{}: damaged: {}: move it away, and --resume writes it again", path.string(),
                             results::fault_line(found.violations.front())));
    const results::Report report = report_of(path, text.str(), its);
    if (!results::missing_points(report).empty()) return;
    code = exit_code_of(report);
    say_on_stderr(
        fmt::format("trainwatt-train: {} is complete: all points are measured", sweep.folder.path().string()));
    if (const std::string refused = why_refused(report); !refused.empty())
      say_on_stderr(error_line("trainwatt-train", refused));
    std::printf("report: %s\n", path.c_str());
    std::fflush(stdout);
  });
  code = std::stoi(sweep.job.broadcast(std::to_string(code)));
  return code < 0 ? std::nullopt : std::optional(code);
}

}  // namespace tw::bench
