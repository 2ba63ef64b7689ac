// One measurement under several names.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "results/compare/comparison.hpp"

namespace tw::results {

/// What each system has measured of one workload, by run; null: nothing.
struct MeasuredSystem {
  std::string name;
  std::vector<const Record*> runs;
};
using MeasuredSystems = std::vector<MeasuredSystem>;

/// Trials that took the same to the last bit are one measurement, whatever their reports say of when and by whom they
/// were made; so are those whose noise is the same (results/analysis/fingerprint.hpp), and one point of one launch,
/// whatever its samples are. It counts once, and says nothing of two systems.
/// `workloads` is filled in by the caller. The noise of a run is compared with that of the 64 runs before it.
std::vector<Difference> copies(const MeasuredSystems& systems, std::size_t reference);
/// The same among runs of one plan, of all points; each entry names two runs.
std::vector<Difference> copies(const std::vector<const Report*>& runs);
/// The numbers from 1 up to the greatest that are not among these: "1, 4 to 6"; empty if none is missing.
std::string missing_of(const std::set<int>& numbers);
/// The same of the indices that runs state; empty if none of them states any.
std::string missing_runs(const std::vector<Report>& runs);
/// Blocks a system whose runs all state one index, as only several copies of one run, or the same run of several
/// series, do: scripts/repeat gives each run of a series its own, and with it its own order of points. Blocks a series
/// with a gap, too; of one run, which alone decides nothing, only where `one_is_enough` (with earlier runs).
std::vector<Difference> index_differences(const std::vector<Report>& runs, bool one_is_enough = false);

/// Names two launches of a system that ran at the same time on hosts of one name. It blocks nothing: machines may share
/// a name.
std::vector<Difference> overlap_differences(const std::vector<Report>& runs);

}  // namespace tw::results
