#include "bench/plan/seeds.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "bench/plan/options/usage_error.hpp"
#include "results/record/text.hpp"

namespace tw::bench {
namespace {

void deal_listed(RunPlan& plan, const std::vector<std::uint64_t>& seeds) {
  const std::size_t points = plan.points.size();
  if (seeds.size() % points != 0)
    throw UsageError("bad-value", "seeds",
                     fmt::format("{}: {} for {} points: give a multiple of {}, or a count", key_ref("seeds"),
                                 results::text::count(seeds.size(), "seed"), points, points));
  const auto each = static_cast<std::ptrdiff_t>(seeds.size() / points);
  for (std::size_t i = 0; i < points; ++i) {
    const auto first = seeds.begin() + static_cast<std::ptrdiff_t>(i) * each;
    plan.points[i].seeds.assign(first, first + each);
  }
}

}  // namespace

void deal_seeds(RunPlan& plan, const TargetRequest& target, const std::map<std::string, AskedTraining>& asked) {
  if (!target.seeds.empty()) return deal_listed(plan, target.seeds);
  std::map<AskedTraining, std::uint64_t> first_seed;
  for (const Point& point : plan.points) first_seed.emplace(asked.at(point.id), 0);
  const auto count = static_cast<std::uint64_t>(target.seed_count), all = first_seed.size() * count;
  if (plan.seed > static_cast<std::uint64_t>(largest_seed) - all)
    throw bad_value(
        "seed", std::to_string(plan.seed),
        fmt::format("value too large (maximum {} for {} seeds)", static_cast<std::uint64_t>(largest_seed) - all, all));
  std::uint64_t next = plan.seed;
  for (auto& [training, first] : first_seed) first = next, next += count;
  for (Point& point : plan.points)
    for (std::uint64_t i = 0; i < count; ++i) point.seeds.push_back(first_seed.at(asked.at(point.id)) + i);
}

}  // namespace tw::bench
