// The Pareto front of a report: the points that no other one beats in both speed and energy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// The Pareto front of the valid points with one workload hash and global batch, whatever their setting, precision and
/// split of the batch: those whose means no other point reaches or exceeds in both samples/s and samples/J; for runs to
/// a target, in time and joules to the target. Timed runs and runs to a target are never in one front. The cheapest
/// point is on the front at any price of hours and joules, as long as all points take the same nodes.
struct Front {
  std::string hash;                  ///< of the workload
  std::int64_t global_batch = 0;
  bool to_target = false;            ///< time and joules to the target; else samples/s and samples/J
  Scope scope = Scope::none;         ///< of the joules
  std::vector<std::size_t> records;  ///< places in the report, the fastest first
  /// Places of those whose means another one beats in both, but not beyond the intervals: they may not be dropped.
  std::vector<std::size_t> alike;
  std::size_t others = 0;            ///< points that another one beats in both beyond their intervals
  std::size_t without = 0;           ///< valid points of the workload without such joules, which were not compared
  std::set<std::string> precisions;  ///< of those that were compared with each other
  /// Place in `records` of the point farthest from the line between the ends, both axes scaled to their span: from
  /// there on more speed costs more energy than before, and the reverse. Absent below three points, and if the points
  /// lie on the line or outside it.
  std::optional<std::size_t> knee;
  /// Cost of each of `records`, to its target or of a sample, at the prices of all points; empty if these have none, or
  /// different ones.
  std::vector<double> costs;
  /// Place in `records`; absent without costs, and if another point, on the front or not, may cost as little within the
  /// intervals of its time and its joules.
  std::optional<std::size_t> cheapest;
};

/// The front of points for whose two figures more is better, by falling `first`; the place of the knee in it; and
/// points off the front that are not shown to be beaten (all as in Front).
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
/// (results/analysis/scopes.hpp). `left_out`: places of points that are compared with nothing; a front may then be
/// empty.
std::vector<Front> pareto_fronts(const Report& report, const std::set<std::size_t>& left_out = {});

/// "of bf16 and float32, which may not train alike"; empty of one precision.
std::string unlike_precisions(const std::set<std::string>& precisions);

}  // namespace tw::results
