// Several runs of one plan as one offer: a bundle whose files are the bundles of the runs (`trainwatt bundle` of a
// folder that scripts/repeat has filled). Each inner bundle is one that `trainwatt bundle` makes of a single run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/tool/inputs/archive.hpp"
#include "results/record/fault.hpp"
#include "results/record/record.hpp"
#include "results/record/report_io.hpp"
#include "results/validation/validate.hpp"

namespace tw::bench::tool {

/// Besides the bundles of the runs there are bundle.json, README.txt, the sums and their signature.
inline constexpr std::size_t most_offered_runs = most_archive_files - 4;

/// run-1, run-2, … in order of their numbers; empty if there is none. Throws UsageError (runs-missing) if one is
/// missing before the last.
std::vector<std::filesystem::path> run_folders(const std::filesystem::path& folder);

/// The bundle of several runs. `runs`: the name of each ("run-1") and its bundle. `forced_over`: what they break
/// together, where they are bundled all the same.
results::BundleFiles make_series(const std::vector<std::pair<std::string, std::string>>& runs,
                                 const std::vector<std::string>& forced_over);

struct Series {
  results::BundleFiles files;
  std::vector<std::pair<std::string, std::string>> runs;  ///< name and bytes of each bundle
  results::Validation found;  ///< sums, missing runs, over what it was forced; not the runs themselves
};
/// nullopt if `bytes` are anything else, a damaged archive among it.
std::optional<Series> open_series(const std::string& bytes);

/// run_left_out where the index of a run is not the number in its name ("run-1"); nullopt for any other name.
std::optional<results::Fault> left_out_fault(const std::string& name, const results::Report& report);
/// What is wrong with runs as runs of one plan: other_plan, same_launch, same_order, run_left_out, same_samples.
/// `runs`: the name of each ("run-1") and its report.
std::vector<results::Fault> series_faults(const std::vector<std::pair<std::string, const results::Report*>>& runs);

/// fewer_runs where a kit asks for more runs than there are. Throws UsageError if it cannot be read.
std::optional<results::Fault> fewer_runs(const std::string& kit_path, std::size_t runs);

}  // namespace tw::bench::tool
