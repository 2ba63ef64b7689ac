// `trainwatt bundle`: a run's folder, or that of several runs, as one file to hand in.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/terminal/terminal.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/archive.hpp"
#include "bench/tool/inputs/options.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/inputs/series.hpp"
#include "bench/tool/inputs/signature.hpp"
#include "bench/tool/terminal.hpp"
#include "results/export/bundle.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

namespace fs = std::filesystem;

struct BundleOptions {
  std::string folder, out;
  std::string sign;    ///< key for ssh-keygen; empty: no signature
  bool force = false;  ///< also of a report that is not good, which the bundle then says
};

/// The files of a run that are there; those of a folder are plain ones.
results::BundleFiles files_of(const fs::path& folder) {
  std::error_code code;
  if (!fs::is_directory(folder, code))
    throw UsageError("bad-folder",
                     folder.string() + ": not a folder: give the folder of a run (trainwatt-train --out)");
  results::BundleFiles files;
  for (const char* name : {results::report_file, results::records_file, results::run_file}) {
    const fs::path file = folder / name;
    const fs::file_status status = fs::status(file, code);
    if (!fs::exists(status)) continue;
    if (!fs::is_regular_file(status)) throw UsageError("bad-file", file.string() + ": not a regular file");
    files[name] = read_report_file(file.string());
  }
  if (!files.contains(results::report_file))
    throw UsageError("no-report", fmt::format("{}: no {} in this folder: {}", folder.string(), results::report_file,
                                              files.contains(results::run_file)
                                                  ? "its run is unfinished; finish it with trainwatt-train --resume"
                                                  : "give the folder of a run (trainwatt-train --out)"));
  return files;
}

/// Says what is wrong with what is to be bundled; whether it is bundled all the same.
bool may_force(const fs::path& folder, const std::vector<results::Fault>& faults, bool force) {
  const std::string name = results::text::printable(folder.string());
  for (const results::Fault& fault : faults)
    say_on_stderr(fmt::format("{}: fault[{}]: {}", name, fault.code, results::fault_line(fault)));
  if (!force)
    say_error(with_code("report-faulty", name + ": not bundled because of the faults above; with --force it is "
                                                "bundled, and the bundle says so"));
  return force;
}

/// A run without any point is no offer, and one without a valid point decides nothing.
void check_points(const fs::path& folder, const results::Report& report, bool force) {
  const std::string name = results::text::printable(folder.string());
  if (report.records.empty() && !force)
    throw UsageError("no-points", name +
                                      ": this run has measured no point: finish it with trainwatt-train --resume, or "
                                      "bundle it as it is with --force");
  if (std::ranges::none_of(report.records, results::is_valid))
    say_warning(with_code("no-points", name + ": no point of this run is valid: no comparison takes any of it"));
}

/// Of one run, before it is packed; nullopt if its report is not good and `force` was not given, which is said.
std::optional<results::BundleFiles> bundle_of(const fs::path& folder, bool force) {
  const results::BundleFiles run = files_of(folder);
  // As the buyer will: what the files say of each other too.
  const auto check = [&](const std::vector<std::string>& over) {
    return with_named_errors((folder / results::report_file).string(), [&] {
      results::BundleFiles files = results::make_bundle(run, over);
      return std::pair(std::move(files), results::validate_bundle(files));
    });
  };
  auto [files, found] = check({});
  check_points(folder, results::report_from_json(files.at(results::report_file), results::UnknownNames::left_out),
               force);
  if (found.violations.empty()) return std::move(files);
  return may_force(folder, found.violations, force) ? std::optional(check(lines_of(found.violations)).first)
                                                    : std::nullopt;
}

/// The bundle of several runs; nullopt as above, also where they are not runs of one plan.
std::optional<results::BundleFiles> bundle_of_runs(const fs::path& folder, const std::vector<fs::path>& runs,
                                                   bool force) {
  if (runs.size() > most_offered_runs)
    throw UsageError("too-many-runs", fmt::format("{}: {} runs; a bundle holds at most {}", folder.string(),
                                                  runs.size(), most_offered_runs));
  std::vector<std::pair<std::string, std::string>> packed;
  std::vector<results::Report> reports;
  for (const fs::path& run : runs) {
    const std::optional<results::BundleFiles> files = bundle_of(run, force);
    if (!files) return std::nullopt;
    reports.push_back(with_named_errors((run / results::report_file).string(),
                                        [&] { return results::report_from_json(files->at(results::report_file)); }));
    packed.emplace_back(run.filename().string(), pack(*files));
  }
  std::vector<std::pair<std::string, const results::Report*>> named;
  for (std::size_t i = 0; i < runs.size(); ++i) named.emplace_back(packed[i].first, &reports[i]);
  const std::vector<results::Fault> faults = series_faults(named);
  if (!faults.empty() && !may_force(folder, faults, force)) return std::nullopt;
  return make_series(packed, lines_of(faults));
}

/// Packs a run's folder into one archive. 1: its report is not good.
int bundle(const BundleOptions& command) {
  refuse_existing(command.out);
  const std::vector<fs::path> runs = run_folders(command.folder);
  std::optional<results::BundleFiles> made =
      runs.empty() ? bundle_of(command.folder, command.force) : bundle_of_runs(command.folder, runs, command.force);
  if (!made) return 1;
  results::BundleFiles& files = *made;
  if (!command.sign.empty()) files[results::signature_file] = sign(files.at(results::sums_file), command.sign);
  const std::string bytes = pack(files);
  write_out(command.out, bytes);
  const std::string what = runs.empty() ? "" : results::text::count(runs.size(), "run") + ", ";
  fmt::print("{}: tar archive compressed with zstd, {}{}, {}{}\nSHA-256 {}\n", results::text::printable(command.out),
             what, results::text::count(files.size(), "file"), results::text::bytes(static_cast<double>(bytes.size())),
             command.sign.empty() ? "" : ", signed", results::sha256_hex(bytes));
  return 0;
}

}  // namespace

Action add_bundle(CLI::App& command, const Words&) {
  const auto options = std::make_shared<BundleOptions>();
  command.add_option("DIR", options->folder, "folder of a run (trainwatt-train --out), or of a series of runs")
      ->required();
  add_out(command, options->out);
  command.add_option("--sign", options->sign, "private key with which ssh-keygen signs the checksums");
  command.add_flag("--force", options->force, "bundle a report that has faults; the bundle then says so");
  return [options] { return bundle(*options); };
}

}  // namespace tw::bench::tool
