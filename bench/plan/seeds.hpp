// The seeds of runs to a target.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "bench/plan/plan.hpp"

namespace tw::bench {

/// What was asked to be trained, apart from how it is run: neither ranks nor micro-batch nor settings are in it, so
/// that machines of any size train the same with the same seeds.
struct AskedTraining {
  std::string model;
  std::optional<int> layers;
  std::optional<std::int64_t> table_rows;
  std::int64_t seq_len = 0;
  std::string precision;
  std::optional<std::int64_t> accumulate, global_batch;  ///< as written; absent: they follow from ranks and task
  auto operator<=>(const AskedTraining&) const = default;
};

/// Gives each of the plan's points its seeds. A list is dealt in the order of plan.points. Counted ones count up from
/// the plan's seed, over the trainings in ascending order; points of one training have the same seeds. `asked` has each
/// point by its id. Throws UsageError for a list that is no multiple of the points, or a seed that leaves no room.
void deal_seeds(RunPlan& plan, const TargetRequest& target, const std::map<std::string, AskedTraining>& asked);

}  // namespace tw::bench
