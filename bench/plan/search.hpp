// Where in a grid of settings the best one lies, found with few measurements.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "bench/plan/plan.hpp"

namespace tw::bench {

/// One workload at all combinations of set points.
struct SearchSpace {
  std::size_t found = 0;                                   ///< place in the plan of the point at the found settings
  std::vector<power::KnobKind> kinds;                      ///< the costliest to change first
  std::vector<std::vector<double>> values;                 ///< of each kind, ascending
  std::map<std::vector<std::size_t>, std::size_t> points;  ///< places in the plan, by place along each kind
};
/// Of all workloads, in the order of the plan. Throws UsageError if some combination is not in the plan.
std::vector<SearchSpace> search_spaces(const RunPlan& plan);

/// How many points a search over this space is likely to measure, those at the found settings and the two once more
/// included: where it turns at the first round of all kinds; of one kind that is the most.
std::size_t likely_looks(const SearchSpace& space);

/// What a search sees of a point.
struct Look {
  double merit = 0;                        ///< the less the better
  double slowdown = 0;                     ///< share of the speed at the found settings that is lost
  bool is_valid = true;                    ///< otherwise neither counts
  std::vector<power::KnobKind> refused{};  ///< whose value some device did not take: nothing was measured
};
using TakeALook = std::function<Look(std::size_t point)>;

/// Golden section along each kind in turn, from the largest values (Kiefer 1953, by Fibonacci numbers on the grid),
/// until a whole round changes nothing; then along the diagonal on which a neighbour is better, and again from the
/// start, until no neighbour is, diagonal ones included (as Hooke and Jeeves 1961). Of one kind that is the best where
/// merit and slowdown have one minimum along it; of several it is a local one. Points that are too slow are the worse
/// the slower. Values that are refused are left out of the grid, points that are not valid are passed over. nullopt: no
/// point that was looked at is both valid and fast enough. `look` is asked once for each point.
std::optional<std::size_t> find_best(const SearchSpace& space, double max_slowdown, const TakeALook& look);

}  // namespace tw::bench
