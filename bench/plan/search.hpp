// Where in a grid of settings the best one lies, found with few measurements.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "bench/plan/plan.hpp"

namespace tw {

/// One workload at all combinations of set points.
struct SearchSpace {
  std::size_t found = 0;                                 ///< place in the plan of the point at the found settings
  std::vector<KnobKind> kinds;                           ///< the costliest to change first
  std::vector<std::vector<double>> values;               ///< of each kind, ascending
  std::map<std::vector<std::size_t>, std::size_t> points;  ///< places in the plan, by place along each kind
};
/// Of all workloads, in the order of the plan. Throws UsageError where some combination is not in the plan.
std::vector<SearchSpace> search_spaces(const RunPlan& plan);

/// What a search sees of a point: nothing where it is not valid.
struct Look {
  double merit = 0;     ///< the less the better
  double slowdown = 0;  ///< share of the speed at the found settings that is lost
};
using TakeALook = std::function<std::optional<Look>(std::size_t point)>;

/// Golden section along each kind in turn, from the largest values (Kiefer 1953, by Fibonacci numbers on the grid), until a
/// whole round changes nothing, then the neighbours of the best: right where merit and slowdown have one minimum along each
/// kind. Points that are too slow are the worse the slower. nullopt: no point is both valid and fast enough.
/// `look` is asked once for each point.
std::optional<std::size_t> find_best(const SearchSpace& space, double max_slowdown, const TakeALook& look);

}  // namespace tw
