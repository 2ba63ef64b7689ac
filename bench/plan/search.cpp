#include "bench/plan/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "bench/plan/set_points.hpp"

namespace tw {
namespace {

/// A point's id without its setting: equal for the points of one workload.
auto workload_of(const Point& point) {
  return std::tuple(point.network.name, point.layers, point.precision, point.micro_batch, point.accumulate, point.seq_len, point.ranks);
}

/// Better ones are less: those that count and are fast enough by merit, then the others by how far they are off.
using Rank = std::pair<int, double>;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Rank nowhere{2, infinity};

class Finder {
 public:
  Finder(const SearchSpace& space, double max_slowdown, const TakeALook& look)
      : space_(space), max_slowdown_(max_slowdown), look_(look) {
    for (const auto& values : space.values) at_.push_back(values.size() - 1);
  }

  std::optional<std::size_t> operator()() {
    constexpr int most_rounds = 4;
    for (int round = 0; round < most_rounds; ++round) {
      const std::vector<std::size_t> before = at_;
      for (std::size_t kind = 0; kind < at_.size(); ++kind) {
        along(kind);
        while (step_down(kind)) {
        }
      }
      if (at_ == before && round > 0) break;
      if (at_.size() == 1) break;
    }
    return rank_at(at_).first == 0 ? std::optional(space_.points.at(at_)) : std::nullopt;
  }

 private:
  Rank rank_at(const std::vector<std::size_t>& at) {
    const auto known = ranks_.find(at);
    if (known != ranks_.end()) return known->second;
    Rank rank = nowhere;
    if (const std::optional<Look> seen = look_(space_.points.at(at)))
      rank = seen->slowdown <= max_slowdown_ ? Rank{0, seen->merit} : Rank{1, seen->slowdown};
    return ranks_.emplace(at, rank).first->second;
  }
  /// Counted from 1; beyond the last value there is nothing.
  Rank rank_along(std::size_t kind, std::size_t place) {
    if (place > space_.values[kind].size()) return nowhere;
    std::vector<std::size_t> at = at_;
    at[kind] = place - 1;
    return rank_at(at);
  }
  /// Fibonacci search over the places 1 … n: with F(k) > n each comparison takes one new look.
  void along(std::size_t kind) {
    const std::size_t n = space_.values[kind].size();
    std::size_t small = 1, large = 1;
    while (large <= n) std::tie(small, large) = std::pair(large, small + large);
    std::size_t below = 0;  // the best lies behind this place, and before below + large
    while (large > 2) {
      const std::size_t left = below + large - small, right = below + small;
      if (left == right) break;
      if (rank_along(kind, right) < rank_along(kind, left)) below = left;
      std::tie(small, large) = std::pair(large - small, small);
    }
    std::size_t best = 1;
    for (std::size_t place = 1; place <= n; ++place)
      if (is_known(kind, place) && (!is_known(kind, best) || rank_along(kind, place) < rank_along(kind, best))) best = place;
    at_[kind] = best - 1;
  }
  bool is_known(std::size_t kind, std::size_t place) const {
    std::vector<std::size_t> at = at_;
    at[kind] = place - 1;
    return ranks_.contains(at);
  }
  /// To the better neighbour, if one is.
  bool step_down(std::size_t kind) {
    const std::size_t place = at_[kind] + 1;
    const Rank here = rank_along(kind, place);
    for (const std::size_t next : {place - 1, place + 1})
      if (next >= 1 && next <= space_.values[kind].size() && rank_along(kind, next) < here) {
        at_[kind] = next - 1;
        return true;
      }
    return false;
  }

  const SearchSpace& space_;
  const double max_slowdown_;
  const TakeALook& look_;
  std::vector<std::size_t> at_;
  std::map<std::vector<std::size_t>, Rank> ranks_;
};

}  // namespace

std::vector<SearchSpace> search_spaces(const RunPlan& plan) {
  std::vector<SearchSpace> spaces;
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    if (!plan.points[i].setting.empty()) continue;
    SearchSpace space;
    space.found = i;
    std::vector<std::size_t> others;
    std::map<KnobKind, std::set<double>> values;
    for (std::size_t j = 0; j < plan.points.size(); ++j) {
      if (j == i || workload_of(plan.points[j]) != workload_of(plan.points[i])) continue;
      others.push_back(j);
      for (const auto& [kind, value] : plan.points[j].setting) values[kind].insert(value);
    }
    for (const KnobKind kind : settings_by_cost)
      if (const auto written = values.find(kind); written != values.end()) {
        space.kinds.push_back(kind);
        space.values.emplace_back(written->second.begin(), written->second.end());
      }
    for (const std::size_t j : others) {
      std::vector<std::size_t> at;
      if (plan.points[j].setting.size() != space.kinds.size()) break;
      for (std::size_t kind = 0; kind < space.kinds.size(); ++kind) {
        const double value = plan.points[j].setting.at(space.kinds[kind]);
        at.push_back(static_cast<std::size_t>(std::ranges::lower_bound(space.values[kind], value) - space.values[kind].begin()));
      }
      space.points[at] = j;
    }
    std::size_t combinations = 1;
    for (const auto& along : space.values) combinations *= along.size();
    if (space.kinds.empty() || space.points.size() != combinations)
      throw UsageError(fmt::format("--search needs all combinations of set points for {}: write them as one grid", plan.points[i].id));
    spaces.push_back(std::move(space));
  }
  return spaces;
}

std::optional<std::size_t> find_best(const SearchSpace& space, double max_slowdown, const TakeALook& look) {
  return Finder(space, max_slowdown, look)();
}

}  // namespace tw
