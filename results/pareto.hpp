// Which points of a report nobody has to consider: those that another one beats in speed and in energy.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "results/record.hpp"

namespace tw {

/// Of the valid points that train the same (workload hash) in the same global batch, whatever setting, precision and split of
/// the batch: those that no other one reaches or passes in samples/s and in samples/J alike. The cheapest point is one of them at any price of
/// hours and joules, as long as all take the same nodes. Runs to a target are in
/// none: a sample of theirs is worth what it helps to get there.
struct Front {
  std::string hash;                  ///< of the workload
  std::string scope;                 ///< of the joules
  std::vector<std::size_t> records;  ///< places in the report, the fastest first
  std::size_t others = 0;            ///< points that were held against them, and lost
  /// The one of `records` that lies farthest from the line between the ends, both axes scaled to their span: where more
  /// speed begins to cost more energy than before, and the reverse. Absent below three points, and where they lie on the
  /// line or outside it.
  std::optional<std::size_t> knee;
};

/// One for each workload that has at least two valid points with joules of a common scope that tells of all its points
/// (results/scopes.hpp).
std::vector<Front> pareto_fronts(const Report& report);

}  // namespace tw
