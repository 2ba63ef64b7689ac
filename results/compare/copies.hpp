// One measurement under several names. Internal to results/.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "results/compare/comparison.hpp"

namespace tw {

/// What each system has measured of one workload, by run; null: nothing.
struct MeasuredSystem {
  std::string name;
  std::vector<const Record*> runs;
};
using MeasuredSystems = std::vector<MeasuredSystem>;

/// Trials that took the same to the last bit are one measurement, whatever their reports say of when and by whom they
/// were made; so is one point of one launch, whatever its samples are. It counts once, and says nothing of two systems.
/// `workloads` is filled in by the caller.
std::vector<Difference> copies(const MeasuredSystems& systems, std::size_t reference);

/// Trials of one record whose steps took the same to the last digit, by place, the earlier one first, where no clock gives
/// that twice: the steps that differ from all others of their trial hold 12 digits or more between them that might have
/// been others. Of one step that is the logarithm of how many of its clock's ticks lie between the quartiles of the trial's
/// steps, so that equal, rounded and few steps are never taken for copies.
std::vector<std::pair<std::size_t, std::size_t>> copied_trials(const Record& record);

}  // namespace tw
