// One measurement under several names.
#pragma once

#include <cstddef>
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
/// were made; so is one point of one launch, whatever its samples are. It counts once, and says nothing of two systems.
/// `workloads` is filled in by the caller.
std::vector<Difference> copies(const MeasuredSystems& systems, std::size_t reference);

}  // namespace tw::results
