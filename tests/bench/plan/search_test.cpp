// Where a search looks, and what it takes for the best.
#include "bench/plan/search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bench/train/job/options.hpp"

#include "tests/bench/plan/planned.hpp"

namespace tw {

using namespace bench;
using namespace power;

namespace {

RunPlan plan_of(std::vector<std::string> words) {
  words.insert(words.begin(), {"trainwatt-train", "--model", "resnet-tiny"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const ParseResult result = parse_options(static_cast<int>(argv.size()), argv.data());
  if (!result.options) throw error_of(result);
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
  const auto best = find_best(space, 0.9, [&](std::size_t point) {
    if (clock_of(plan.points[point]) > 1500) return Look{0, 0, false};
    return clocked(clock_of(plan.points[point]), 1305);
  });
  ASSERT_TRUE(best);
  EXPECT_EQ(clock_of(plan.points[*best]), 1200);
  EXPECT_FALSE(find_best(space, 0.9, [](std::size_t) { return Look{0, 0, false}; }));
}

/// As a driver that lists its clocks: in steps of 15 MHz from `least` on.
Look listed(const Point& point, double best_mhz, double least = 0) {
  const double mhz = clock_of(point);
  Look look = clocked(mhz, best_mhz);
  if (std::fmod(mhz, 15) != 0 || mhz < least) look.is_valid = false, look.refused = {KnobKind::gpu_clock};
  return look;
}

TEST(Search, RefusedValuesAreNoReasonToTurn) {
  const RunPlan plan = plan_of({"--search", "energy", "--gpu-clock", "600:1980:50"});
  const SearchSpace space = search_spaces(plan).at(0);
  for (const double best_mhz : {300., 600., 900., 1050., 1350., 1500., 1950.}) {
    SCOPED_TRACE(best_mhz);
    const auto best = find_best(space, 0.99, [&](std::size_t point) { return listed(plan.points[point], best_mhz); });
    ASSERT_TRUE(best);
    double least = 1e300, least_at = 0;
    for (double mhz = 600; mhz <= 1980; mhz += 150)  // of both lists
      if (const double merit = clocked(mhz, best_mhz).merit; merit < least) least = merit, least_at = mhz;
    EXPECT_EQ(clock_of(plan.points[*best]), least_at);
  }
}

TEST(Search, WhateverShareIsRefusedTheRestIsSearched) {
  for (const int values : {20, 33, 54, 88}) {
    SCOPED_TRACE(values);
    const double last = 600 + 15 * (values - 1), first_taken = 600 + 15 * std::ceil(0.65 * values);
    const RunPlan plan = plan_of({"--search", "energy", "--gpu-clock", "600:" + std::to_string(last) + ":15"});
    const SearchSpace space = search_spaces(plan).at(0);
    std::size_t measured = 0;
    const auto best = find_best(space, 0.99, [&](std::size_t point) {
      const Look look = listed(plan.points[point], 300, first_taken);
      measured += look.is_valid;
      return look;
    });
    ASSERT_TRUE(best);
    EXPECT_LE(measured, 8u);
    EXPECT_EQ(clock_of(plan.points[*best]), first_taken);
  }
}

TEST(Search, OfSeveralKindsTheRefusedOneIsLeftOut) {
  const RunPlan plan = plan_of({"--search", "energy", "--gpu-clock", "600:1980:50", "--gpu-power-limit", "300:710:10"});
  const SearchSpace space = search_spaces(plan).at(0);
  std::size_t measured = 0;
  const auto best = find_best(space, 0.99, [&](std::size_t point) {
    const double clock = clock_of(plan.points[point]), limit = plan.points[point].setting.at(KnobKind::gpu_power_limit);
    Look look{std::pow((clock - 900) / 100, 2) + std::pow((limit - 450) / 50, 2), 0.1};
    if (std::fmod(clock, 15) != 0) look.refused.push_back(KnobKind::gpu_clock);
    if (limit > 650) look.refused.push_back(KnobKind::gpu_power_limit);
    measured += look.refused.empty();
    look.is_valid = look.refused.empty();
    return look;
  });
  ASSERT_TRUE(best);
  EXPECT_EQ(clock_of(plan.points[*best]), 900);
  EXPECT_EQ(plan.points[*best].setting.at(KnobKind::gpu_power_limit), 450);
  EXPECT_LE(measured, 10u * 36u / 4u);
}

// One minimum along each setting everywhere, and yet a diagonal of them: each point of it is the least of its row and column.
TEST(Search, ADiagonalValleyIsFollowedToItsEnd) {
  const RunPlan plan = plan_of({"--search", "energy", "--gpu-clock", "600:885:15", "--gpu-power-limit", "300:490:10"});
  const SearchSpace space = search_spaces(plan).at(0);
  ASSERT_EQ(space.points.size(), 400u);
  std::size_t looks = 0;
  const auto best = find_best(space, 0.5, [&](std::size_t point) {
    ++looks;
    const double x = (clock_of(plan.points[point]) - 600) / 15;
    const double y = (plan.points[point].setting.at(KnobKind::gpu_power_limit) - 300) / 10;
    return Look{1 + 0.2 * (x - y) * (x - y) + 0.01 * (x + y), 0.1};
  });
  ASSERT_TRUE(best);
  EXPECT_EQ(clock_of(plan.points[*best]), 600);
  EXPECT_EQ(plan.points[*best].setting.at(KnobKind::gpu_power_limit), 300);
  EXPECT_LE(looks, 100u);
}

// GPU clock and CPU frequency share a step's time, and each pays with its cube: the slowdown's edge is a diagonal.
TEST(Search, NoNeighbourOfTheBestIsBetterOnTheEdgeOfTheSlowdown) {
  const RunPlan plan = plan_of({"--search", "energy", "--gpu-clock", "600:1980:60", "--cpu-frequency", "1200:3500:100"});
  const SearchSpace space = search_spaces(plan).at(0);
  const auto look = [&](std::size_t point) {
    const double g = clock_of(plan.points[point]) / 1980, c = plan.points[point].setting.at(KnobKind::cpu_frequency) / 3500;
    const double seconds = 0.6 / g + 0.4 / c;
    return Look{seconds * (100 + 300 * g * g * g + 150 * c * c * c), 1 - 1 / seconds};
  };
  const auto best = find_best(space, 0.2, look);
  ASSERT_TRUE(best);
  ASSERT_LE(look(*best).slowdown, 0.2);
  const auto at = std::ranges::find(space.points, *best, [](const auto& one) { return one.second; })->first;
  for (const std::size_t x : {at[0] - 1, at[0], at[0] + 1})
    for (const std::size_t y : {at[1] - 1, at[1], at[1] + 1}) {
      const auto other = space.points.find({x, y});
      if (other == space.points.end() || look(other->second).slowdown > 0.2) continue;
      EXPECT_LE(look(*best).merit, look(other->second).merit) << x << " " << y;
    }
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
  EXPECT_TRUE(has(refusal({"--search", "enrgy", "--gpu-clock", "600,900"}),
                  "[unknown-name] unknown --search 'enrgy': did you mean 'energy'?"));
  EXPECT_TRUE(has(refusal({"--search", "energy"}), "[option-needs] --search"));
  EXPECT_TRUE(has(refusal({"--search", "energy", "--gpu-clock", "found,900"}), "[options-conflict] --gpu-clock found"));
  EXPECT_TRUE(has(refusal({"--search", "energy", "--cpu-governor", "powersave"}), "[options-conflict] --search"));
  EXPECT_TRUE(has(refusal({"--search", "energy", "--gpu-clock", "600,900", "--max-slowdown", "120%"}),
                  "[bad-value] --max-slowdown 120%"));
  EXPECT_TRUE(has(refusal({"--search", "energy", "--gpu-clock", "600,900", "--kwh-price", "0.3"}),
                  "[options-conflict] --search energy: leave out --kwh-price"));
  EXPECT_TRUE(has(refusal({"--search", "cost", "--gpu-clock", "600,900"}), "[option-needs] --search cost"));
  EXPECT_TRUE(has(refusal({"--max-slowdown", "5%"}), "[option-needs] --max-slowdown"));
}

}  // namespace
}  // namespace tw
