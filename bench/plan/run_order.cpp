#include "bench/plan/run_order.hpp"

#include <algorithm>
#include <numeric>

namespace tw::bench {

std::vector<std::size_t> run_order(const RunPlan& plan, int run) {
  std::vector<std::size_t> order(plan.points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (plan.search) return order;
  const auto shift = static_cast<std::size_t>(run - 1);
  for (std::size_t first = 0; first < order.size();) {
    const auto differs = [&](const Point& point) { return point.setting != plan.points[first].setting; };
    const auto begin = plan.points.begin() + static_cast<std::ptrdiff_t>(first);
    const auto n = static_cast<std::size_t>(std::find_if(begin, plan.points.end(), differs) - begin);
    // The square's first row is 0, 1, n-1, 2, n-2, …; row r adds r, modulo n. The plan's order is the first row.
    std::vector<std::size_t> row(n), place(n);
    for (std::size_t i = 0; i < n; ++i) row[i] = i % 2 == 1 ? (i + 1) / 2 : (n - i / 2) % n;
    for (std::size_t i = 0; i < n; ++i) place[row[i]] = i;
    for (std::size_t i = 0; i < n; ++i) order[first + i] = first + place[(row[i] + shift) % n];
    first += n;
  }
  return order;
}

}  // namespace tw::bench
