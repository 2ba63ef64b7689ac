#include "bench/plan/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "bench/plan/options/axes.hpp"

namespace tw::bench {
namespace {

/// A point's id without its setting: equal for the points of one workload.
auto workload_of(const Point& point) {
  return std::tuple(point.network.name, point.layers, point.table_rows_at_most,
                    point.precision, point.is_automatic, point.micro_batch,
                    point.accumulate, point.seq_len, point.ranks);
}

/// Better ones are less: those that count and are fast enough by merit, then the others by how far they are off.
using Rank = std::pair<int, double>;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr Rank nowhere{2, infinity};

class Finder {
 public:
  Finder(const SearchSpace& space, double max_slowdown, const TakeALook& look)
      : space_(space), max_slowdown_(max_slowdown), look_(look) {
    for (const auto& values : space.values) {
      std::vector<std::size_t>& taken = taken_.emplace_back(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) taken[i] = i;
      at_.push_back(values.size() - 1);
    }
  }

  /// Every move is to a better point, so that it ends; along one kind a second round finds nothing new to look at.
  std::optional<std::size_t> operator()() {
    for (bool moved = true; moved && !is_empty();) {
      moved = false;
      for (std::size_t kind = 0; kind < at_.size() && !is_empty(); ++kind) {
        Place step(at_.size(), 0);
        step[kind] = 1;
        moved = along(step) || moved;
      }
      if (!moved && !is_empty()) moved = to_better_neighbour();
    }
    const auto best = std::ranges::min_element(ranks_, {}, [](const auto& one) { return one.second; });
    return best != ranks_.end() && best->second.first == 0 ? std::optional(space_.points.at(best->first))
                                                           : std::nullopt;
  }

 private:
  using Place = std::vector<std::ptrdiff_t>;

  bool is_empty() const {
    return std::ranges::any_of(taken_, [](const auto& values) { return values.empty(); });
  }
  Rank rank_at(const std::vector<std::size_t>& at) {
    const auto known = ranks_.find(at);
    if (known != ranks_.end()) return known->second;
    const Look seen = look_(space_.points.at(at));
    for (const power::KnobKind kind : seen.refused) drop(kind, at);
    Rank rank = nowhere;
    if (seen.is_valid && seen.refused.empty())
      rank = seen.slowdown <= max_slowdown_ ? Rank{0, seen.merit} : Rank{1, seen.slowdown};
    return ranks_.emplace(at, rank).first->second;
  }
  /// What a device does not take once it never takes: the grid goes on without that value.
  void drop(power::KnobKind kind, const std::vector<std::size_t>& at) {
    const auto found = std::ranges::find(space_.kinds, kind);
    if (found == space_.kinds.end()) return;
    const auto axis = static_cast<std::size_t>(found - space_.kinds.begin());
    std::vector<std::size_t>& taken = taken_[axis];
    const auto is_taken = [&](const auto& one) { return one.first[axis] == at[axis] && one.second < nowhere; };
    if (std::ranges::any_of(ranks_, is_taken) || std::erase(taken, at[axis]) == 0) return;
    has_dropped_ = true;
    if (at_[axis] != at[axis] || taken.empty()) return;
    const auto above = std::ranges::upper_bound(taken, at[axis]);
    at_[axis] = above == taken.begin() ? taken.front() : *(above - 1);
  }
  /// `steps` of the values that are taken away from where it is; nullopt outside the grid.
  std::optional<std::vector<std::size_t>> away(const Place& step, std::ptrdiff_t steps) const {
    std::vector<std::size_t> at;
    for (std::size_t axis = 0; axis < at_.size(); ++axis) {
      const std::vector<std::size_t>& taken = taken_[axis];
      const std::ptrdiff_t here = std::ranges::lower_bound(taken, at_[axis]) - taken.begin();
      const std::ptrdiff_t there = here + steps * step[axis];
      if (there < 0 || there >= static_cast<std::ptrdiff_t>(taken.size())) return std::nullopt;
      at.push_back(taken[static_cast<std::size_t>(there)]);
    }
    return at;
  }
  /// All places on the line through where it is, those known not to count left out.
  std::vector<std::vector<std::size_t>> line(const Place& step) const {
    std::vector<std::vector<std::size_t>> places;
    std::ptrdiff_t first = 0;
    while (away(step, first - 1)) --first;
    for (std::ptrdiff_t i = first; const auto at = away(step, i); ++i)
      if (const auto known = ranks_.find(*at); known == ranks_.end() || known->second < nowhere) places.push_back(*at);
    return places;
  }
  /// To the best place that a Fibonacci search over the line finds; false if it stays. What turns out not to count
  /// says nothing about where the best lies: the line is then searched anew without it.
  bool along(const Place& step) {
    const std::vector<std::size_t> before = at_;
    std::vector<std::vector<std::size_t>> places;
    do {
      has_dropped_ = false;
      if (is_empty()) return false;
      places = line(step);
    } while (!narrow(places, step));
    const auto better = [&](const auto& a, const auto& b) { return known_rank(a) < known_rank(b); };
    const auto best = std::ranges::min_element(places, better);
    if (best == places.end() || !(known_rank(*best) < known_rank(at_))) return at_ != before;
    at_ = *best;
    return true;
  }
  /// With F(k) > n each comparison takes one new look. False if a look told that its place does not count.
  bool narrow(const std::vector<std::vector<std::size_t>>& places, const Place& step) {
    const std::size_t n = places.size();
    const auto counts = [&](std::size_t place) {
      if (place > n || rank_at(places[place - 1]) < nowhere) return true;
      if (has_dropped_) drop_around(places, place - 1, step);
      return false;
    };
    const auto rank = [&](std::size_t place) { return place > n ? nowhere : rank_at(places[place - 1]); };
    std::size_t small = 1, large = 1;
    while (large <= n) std::tie(small, large) = std::pair(large, small + large);
    std::size_t below = 0;  // the best lies behind this place, counted from 1, and before below + large
    while (large > 2) {
      const std::size_t left = below + large - small, right = below + small;
      if (left == right) break;
      if (!counts(right) || !counts(left)) return false;
      if (rank(right) < rank(left)) below = left;
      std::tie(small, large) = std::pair(large - small, small);
    }
    return n != 1 || (rank_at(places[0]), !has_dropped_);
  }
  /// Refusals come in stretches and cost next to nothing, unlike what is measured each time that the line is searched
  /// anew: up and down from a refused place until one is taken.
  void drop_around(const std::vector<std::vector<std::size_t>>& places, std::size_t place, const Place& step) {
    const auto values_across = [&] {
      std::size_t values = 0;
      for (std::size_t axis = 0; axis < step.size(); ++axis) values += step[axis] == 0 ? taken_[axis].size() : 0;
      return values;
    };
    const std::size_t before = values_across();
    for (const bool upwards : {false, true})
      for (std::size_t i = place; upwards ? i + 1 < places.size() : i > 0;) {
        i = upwards ? i + 1 : i - 1;
        has_dropped_ = false;
        rank_at(places[i]);
        if (!has_dropped_ || values_across() != before) break;
      }
    has_dropped_ = true;
  }
  Rank known_rank(const std::vector<std::size_t>& at) const {
    const auto known = ranks_.find(at);
    return known == ranks_.end() ? nowhere : known->second;
  }
  /// All steps of one value at most along each kind, those along one kind first.
  std::vector<Place> neighbours() const {
    std::vector<Place> all = {{}};
    for (std::size_t axis = 0; axis < at_.size(); ++axis) {
      std::vector<Place> longer;
      for (const Place& one : all)
        for (const std::ptrdiff_t step : {0, -1, 1}) {
          longer.push_back(one);
          longer.back().push_back(step);
        }
      all = std::move(longer);
    }
    std::erase_if(all, [](const Place& one) { return std::ranges::count(one, 0) == std::ssize(one); });
    std::ranges::stable_sort(all, {}, [](const Place& one) { return -std::ranges::count(one, 0); });
    return all;
  }
  /// Where a neighbour, diagonal ones included, is better: to the best of the line that leads there.
  bool to_better_neighbour() {
    for (const Place& step : neighbours()) {
      std::optional<std::vector<std::size_t>> at;
      do {
        has_dropped_ = false;
        at = away(step, 1);
        if (at) rank_at(*at);
      } while (has_dropped_ && !is_empty());
      if (is_empty()) return false;
      if (!at || !(known_rank(*at) < known_rank(at_))) continue;
      const std::vector<std::size_t> neighbour = *at;
      if (along(step)) return true;
      at_ = neighbour;
      return true;
    }
    return false;
  }

  const SearchSpace& space_;
  const double max_slowdown_;
  const TakeALook& look_;
  std::vector<std::vector<std::size_t>> taken_;  ///< of each kind, the places of the values that no device has refused
  std::vector<std::size_t> at_;
  std::map<std::vector<std::size_t>, Rank> ranks_;
  bool has_dropped_ = false;
};

}  // namespace

std::vector<SearchSpace> search_spaces(const RunPlan& plan) {
  std::vector<SearchSpace> spaces;
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    if (!plan.points[i].setting.empty()) continue;
    SearchSpace space;
    space.found = i;
    std::vector<std::size_t> others;
    std::map<power::KnobKind, std::set<double>> values;
    for (std::size_t j = 0; j < plan.points.size(); ++j) {
      if (j == i || workload_of(plan.points[j]) != workload_of(plan.points[i])) continue;
      others.push_back(j);
      for (const auto& [kind, value] : plan.points[j].setting) values[kind].insert(value);
    }
    for (const power::KnobKind kind : settings_by_cost)
      if (const auto written = values.find(kind); written != values.end()) {
        space.kinds.push_back(kind);
        space.values.emplace_back(written->second.begin(), written->second.end());
      }
    for (const std::size_t j : others) {
      std::vector<std::size_t> at;
      if (plan.points[j].setting.size() != space.kinds.size()) break;
      for (std::size_t kind = 0; kind < space.kinds.size(); ++kind) {
        const double value = plan.points[j].setting.at(space.kinds[kind]);
        at.push_back(
            static_cast<std::size_t>(std::ranges::lower_bound(space.values[kind], value) - space.values[kind].begin()));
      }
      space.points[at] = j;
    }
    std::size_t combinations = 1;
    for (const auto& along : space.values) combinations *= along.size();
    if (space.kinds.empty() || space.points.size() != combinations)
      throw UsageError("option-needs", "search",
                       fmt::format("{}: set points are missing for {}: write all combinations as one grid",
                                   key_ref("search"), plan.points[i].id));
    spaces.push_back(std::move(space));
  }
  return spaces;
}

std::size_t likely_looks(const SearchSpace& space) {
  std::size_t looks = 0, neighbours = 1;
  for (const auto& values : space.values) {
    std::size_t small = 1, large = 1, steps = 0;  // as Finder::narrow
    while (large <= values.size()) std::tie(small, large) = std::pair(large, small + large), ++steps;
    looks += std::min(steps + 1, values.size());
    neighbours *= 3;
  }
  return std::min(looks + neighbours - 1, space.points.size()) + 3;
}

std::optional<std::size_t> find_best(const SearchSpace& space, double max_slowdown, const TakeALook& look) {
  return Finder(space, max_slowdown, look)();
}

}  // namespace tw::bench
