// Which points of a report nobody has to consider: those that another one beats in speed and in energy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// Of the valid points that train the same (workload hash) in the same global batch, whatever setting, precision and split of
/// the batch: those whose means no other one reaches or passes in samples/s and in samples/J alike; of runs to a target in the time
/// and in the joules to it, whose samples are worth what they help to get there. Runs for a time and runs to a target are
/// never in one front. The cheapest point is one of them at any price of hours and joules, as long as all take the same nodes.
struct Front {
  std::string hash;                  ///< of the workload
  std::int64_t global_batch = 0;
  bool to_target = false;            ///< time and joules to the target; else samples/s and samples/J
  Scope scope = Scope::none;         ///< of the joules
  std::vector<std::size_t> records;  ///< places in the report, the fastest first
  /// Places of those whose means another one beats in both, but no interval: nobody may drop them.
  std::vector<std::size_t> alike;
  std::size_t others = 0;            ///< points that another one beats in both beyond their intervals
  std::size_t without = 0;           ///< valid points of the workload that have no such joules, and were held against none
  std::set<std::string> precisions;  ///< of those that were held against each other
  /// The one of `records` that lies farthest from the line between the ends, both axes scaled to their span: where more
  /// speed begins to cost more energy than before, and the reverse. Absent below three points, and where they lie on the
  /// line or outside it.
  std::optional<std::size_t> knee;
  /// What each of `records` costs, to its target or a sample, at the prices of all points; empty where these have none, or not
  /// the same.
  std::vector<double> costs;
  /// Of `records`; absent without costs, and where the cost of another point, on the front or not, may be as low within the
  /// intervals of its time and its joules.
  std::optional<std::size_t> cheapest;
};

/// Of points whose two figures are the more the better: those whose values none other reaches or passes in both, by falling
/// `first`, the place among them of the knee, and those that are not on the front and not shown to be beaten (all as in Front).
struct TradeOff {
  std::vector<std::size_t> front;
  std::optional<std::size_t> knee;
  std::vector<std::size_t> alike;
};
struct TwoFigures {
  Estimate first, second;
};
/// The less the better made the more the better, with its interval.
Estimate negated(const Estimate& e);
TradeOff trade_off(const std::vector<TwoFigures>& points);

/// One for each workload that has at least two such points with joules of a common scope that tells of all its points
/// (results/analysis/scopes.hpp). `left_out`: places of points that are held against nothing; a front may then be
/// empty.
std::vector<Front> pareto_fronts(const Report& report, const std::set<std::size_t>& left_out = {});

/// "of bf16 and float32, which may not train alike"; empty of one precision.
std::string unlike_precisions(const std::set<std::string>& precisions);

}  // namespace tw::results
