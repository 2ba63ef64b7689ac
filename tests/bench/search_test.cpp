// Where a search looks, and what it takes for the best.
#include "bench/plan/search.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "bench/train/options.hpp"

namespace tw {
namespace {

RunPlan plan_of(std::vector<std::string> words) {
  words.insert(words.begin(), {"trainwatt-train", "--model", "resnet-tiny"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const ParseResult result = parse_options(static_cast<int>(argv.size()), argv.data());
  if (!result.options) throw UsageError(result.text);
  return make_plan(request_of(*result.options, ""), 1, "cpu");
}
std::string refusal(std::vector<std::string> words) {
  try {
    plan_of(std::move(words));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

double clock_of(const Point& point) { return point.setting.at(KnobKind::gpu_clock); }

/// A step of a + b/f seconds at a power of c + d·f³: an optimum inside.
Look clocked(double mhz, double best_mhz) {
  const double f = mhz / best_mhz, seconds = 0.2 + 0.8 / f;
  return {seconds * (2 + f * f * f), 1 - (0.2 + 0.8 * best_mhz / 1980) / seconds};
}

class SearchOfAClock : public testing::TestWithParam<std::pair<int, double>> {};

TEST_P(SearchOfAClock, FindsTheMinimumWithFewLooks) {
  const auto [points, best_mhz] = GetParam();
  const RunPlan plan = plan_of({"--search", "energy", "--gpu-clock", "600:" + std::to_string(600 + 15 * (points - 1)) + ":15"});
  const std::vector<SearchSpace> spaces = search_spaces(plan);
  ASSERT_EQ(spaces.size(), 1u);
  ASSERT_EQ(spaces[0].points.size(), static_cast<std::size_t>(points));
  EXPECT_TRUE(plan.points[spaces[0].found].setting.empty());
  std::set<std::size_t> looked;
  const auto best = find_best(spaces[0], 0.99, [&](std::size_t point) {
    EXPECT_TRUE(looked.insert(point).second) << "twice at " << clock_of(plan.points[point]);
    return clocked(clock_of(plan.points[point]), best_mhz);
  });
  ASSERT_TRUE(best);
  double least = 1e300, least_at = 0;
  for (const auto& [at, point] : spaces[0].points)
    if (const double merit = clocked(clock_of(plan.points[point]), best_mhz).merit; merit < least)
      least = merit, least_at = clock_of(plan.points[point]);
  EXPECT_EQ(clock_of(plan.points[*best]), least_at);
  // Fibonacci numbers grow by the golden ratio; two more for the neighbours.
  EXPECT_LE(looked.size(), 3 + std::log(points) / std::log(1.618));
}
INSTANTIATE_TEST_SUITE_P(Grids, SearchOfAClock,
                         testing::Values(std::pair(1, 600.), std::pair(2, 900.), std::pair(3, 630.), std::pair(12, 700.),
                                         std::pair(13, 100.), std::pair(33, 5000.), std::pair(90, 1305.), std::pair(93, 1000.)));

TEST(Search, AnOptimumThatIsTooSlowIsNotTaken) {
  const RunPlan plan = plan_of({"--search", "energy", "--gpu-clock", "600:1980:60"});
  const SearchSpace space = search_spaces(plan).at(0);
  // Slower the lower the clock, and always better.
  const auto look = [&](std::size_t point) { return Look{clock_of(plan.points[point]), 1 - clock_of(plan.points[point]) / 1980}; };
  const auto best = find_best(space, 0.1, look);
  ASSERT_TRUE(best);
  EXPECT_EQ(clock_of(plan.points[*best]), 1800) << "the lowest within 10 %";
  EXPECT_FALSE(find_best(space, 0.1, [](std::size_t) { return Look{1, 0.5}; })) << "all are too slow";
}

TEST(Search, PointsThatAreNotValidAreNone) {
  const RunPlan plan = plan_of({"--search", "energy", "--gpu-clock", "600:1980:60"});
  const SearchSpace space = search_spaces(plan).at(0);
  const auto best = find_best(space, 0.9, [&](std::size_t point) -> std::optional<Look> {
    if (clock_of(plan.points[point]) > 1500) return std::nullopt;  // as clocks that a board does not take
    return clocked(clock_of(plan.points[point]), 1305);
  });
  ASSERT_TRUE(best);
  EXPECT_LE(clock_of(plan.points[*best]), 1500);
  EXPECT_FALSE(find_best(space, 0.9, [](std::size_t) { return std::nullopt; }));
}

TEST(Search, SeveralKindsAreSearchedInTurn) {
  const RunPlan plan = plan_of({"--search", "edp", "--gpu-clock", "600:1980:60", "--gpu-power-limit", "300:700:50"});
  const SearchSpace space = search_spaces(plan).at(0);
  EXPECT_EQ(space.kinds, (std::vector{KnobKind::gpu_clock, KnobKind::gpu_power_limit}));
  EXPECT_EQ(space.points.size(), 24u * 9u);
  std::size_t looks = 0;
  const auto best = find_best(space, 0.5, [&](std::size_t point) {
    ++looks;
    const double clock = clock_of(plan.points[point]), limit = plan.points[point].setting.at(KnobKind::gpu_power_limit);
    return Look{std::pow((clock - 1200) / 100, 2) + std::pow((limit - 450) / 50, 2) + (clock - 1200) * (limit - 450) / 1e4, 0.1};
  });
  ASSERT_TRUE(best);
  EXPECT_EQ(clock_of(plan.points[*best]), 1200);
  EXPECT_EQ(plan.points[*best].setting.at(KnobKind::gpu_power_limit), 450);
  EXPECT_LE(looks, space.points.size() * 4 / 10);
}

TEST(Search, EachWorkloadIsOneOfItsOwn) {
  const RunPlan plan = plan_of({"--search", "energy", "--gpu-clock", "600:1980:60", "--precision", "float32,bf16", "--accumulate", "1,4"});
  EXPECT_EQ(search_spaces(plan).size(), 4u);
  EXPECT_EQ(plan.points.size(), 4u * 25u);
}

TEST(Search, WhatCannotBeSearchedIsRefused) {
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(refusal({"--search", "enrgy", "--gpu-clock", "600,900"}), "did you mean 'energy'"));
  EXPECT_TRUE(has(refusal({"--search", "energy"}), "nothing to choose from"));
  EXPECT_TRUE(has(refusal({"--search", "energy", "--gpu-clock", "found,900"}), "leave it out"));
  EXPECT_TRUE(has(refusal({"--search", "energy", "--cpu-governor", "powersave"}), "along numbers"));
  EXPECT_TRUE(has(refusal({"--search", "energy", "--gpu-clock", "600,900", "--max-slowdown", "120%"}), "a share below 1"));
  EXPECT_TRUE(has(refusal({"--search", "energy", "--gpu-clock", "600,900", "--kwh-price", "0.3"}), "--search cost"));
  EXPECT_TRUE(has(refusal({"--search", "cost", "--gpu-clock", "600,900"}), "--hour-price"));
  EXPECT_TRUE(has(refusal({"--max-slowdown", "5%"}), "are for --search"));
}

}  // namespace
}  // namespace tw
