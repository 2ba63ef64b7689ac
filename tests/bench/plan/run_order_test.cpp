// The order of points in each of several runs of a plan.
#include "bench/plan/plan.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "tests/bench/plan/planned.hpp"

namespace tw {

using namespace bench;

namespace {

RunPlan plan_with(int accumulations, std::vector<std::string> more = {}) {
  std::string list = "1";
  for (int i = 2; i <= accumulations; ++i) list += "," + std::to_string(i);
  std::vector<std::string> words = {"--model", "gpt2-tiny", "--accumulate", list};
  words.insert(words.end(), more.begin(), more.end());
  return plan_of(words);
}

TEST(RunOrder, TheFirstRunHasThePlansOrder) {
  for (const int n : {1, 2, 3, 7, 8}) {
    const RunPlan plan = plan_with(n);
    std::vector<std::size_t> all(plan.points.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    EXPECT_EQ(run_order(plan, 1), all);
    EXPECT_EQ(run_order(plan, n + 1), all) << "after as many runs as points they begin again";
  }
}

TEST(RunOrder, OverAsManyRunsAsPointsEachStandsOnceInEachPlace) {
  for (const int n : {2, 3, 4, 5, 8}) {
    const RunPlan plan = plan_with(n);
    std::vector<std::set<std::size_t>> in_place(static_cast<std::size_t>(n));
    std::map<std::pair<std::size_t, std::size_t>, int> behind;
    for (int run = 1; run <= n; ++run) {
      const std::vector<std::size_t> order = run_order(plan, run);
      ASSERT_EQ(std::set(order.begin(), order.end()).size(), static_cast<std::size_t>(n));
      for (std::size_t i = 0; i < order.size(); ++i) {
        in_place[i].insert(order[i]);
        if (i > 0) ++behind[{order[i - 1], order[i]}];
      }
    }
    for (const auto& points : in_place) EXPECT_EQ(points.size(), static_cast<std::size_t>(n));
    if (n % 2 != 0) continue;
    EXPECT_EQ(behind.size(), static_cast<std::size_t>(n * (n - 1)));
    for (const auto& [pair, times] : behind) EXPECT_EQ(times, 1);
  }
}

TEST(RunOrder, SettingsStayOutermostAndAsWritten) {
  const RunPlan plan = plan_with(3, {"--cpu-frequency", "3000,2000,found"});
  for (int run = 1; run <= 4; ++run) {
    const std::vector<std::size_t> order = run_order(plan, run);
    for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(plan.points[order[i]].setting, plan.points[i].setting);
  }
}

TEST(RunOrder, TheNumberOfRunsIsNotInThePlansHash) {
  const std::string config = R"({"model": "gpt2-tiny", "steps": 3)";
  const RunPlan one = plan_of({"--config", "c.json"}, 2, config + "}");
  const RunPlan five = plan_of({"--config", "c.json"}, 2, config + R"(, "repeat": 5})");
  EXPECT_EQ(one.runs(), 1);
  EXPECT_EQ(five.runs(), 5);
  EXPECT_EQ(one.canonical_json(), five.canonical_json());
}

TEST(RunOrder, ALaunchIsOneRun) {
  EXPECT_NE(refusal({"--model", "gpt2-tiny", "--repeat", "5"}).find("[repeat-by-script]"), std::string::npos);
  for (const char* index : {"0", "1001", "99999999999999999999999"})  // the value as it was given
    EXPECT_EQ(refusal({"--model", "gpt2-tiny", "--run-index", index})
                  .find(std::string("[bad-value] --run-index ") + index + ": value too "),
              0u);
}

}  // namespace
}  // namespace tw
