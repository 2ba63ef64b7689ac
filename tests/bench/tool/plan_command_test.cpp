// `trainwatt plan` of the suites for jobs of one node, as a user runs it: which points, and how long they take at most.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/bench/tool/outcome.hpp"

namespace {

using namespace tw::testing;
using Json = nlohmann::json;

/// A node with memory for all suites, whose clocks can all be set.
std::string able_node() {
  static const std::string path = file_with(
      R"({"host": "n1", "cpu": {"bf16": true}, "memory": {"total_bytes": 1099511627776}, "meters": [], "telemetry": [],
  "knobs": [{"kind": "gpu_clock_mhz", "domain": "nvml:GPU-1", "writable": true, "minimum": 210, "maximum": 1980,
             "values": [], "reason": "", "detail": "", "grant": ""},
            {"kind": "cpu_frequency_mhz", "domain": "cpu", "writable": true, "minimum": 800, "maximum": 3200,
             "values": [], "reason": "", "detail": "", "grant": ""}]})",
      "-able");
  return path;
}

Json planned(std::vector<std::string> words) {
  words.insert(words.begin(), {"plan", "--json", "--on", able_node()});
  const Outcome o = run(words);
  EXPECT_EQ(o.code, 0) << o.err;
  return Json::parse(o.out.empty() ? "{}" : o.out);
}

std::set<int> ranks_in(const Json& plan) {
  std::set<int> ranks;
  for (const Json& point : plan["points"]) ranks.insert(point["ranks"].get<int>());
  return ranks;
}

TEST(PlanCommand, ASuiteForAJobOfOneNodeKeepsItsAxisOfRanksAndItsLimit) {
  for (const auto& [suite, most_seconds] : {std::tuple("standard", 3600.), std::tuple("procurement", 4 * 3600.)})
    for (const char* device_class : {"cpu", "gpu"})
      for (const int ranks : {1, 2, 4, 8, 16}) {
        const Json plan =
            planned({"--suite", suite, "--device-class", device_class, "--job-ranks", std::to_string(ranks)});
        const std::string which = plan["suite"].get<std::string>() + " " + device_class + " " + std::to_string(ranks);
        EXPECT_EQ(plan["suite"], suite) << which << ": it is not changed";
        EXPECT_EQ(ranks_in(plan), (std::set<int>{1, std::max(1, ranks / 2), ranks})) << which;
        EXPECT_EQ(plan["nodes"], 1) << which;
        EXPECT_TRUE(plan["left_out"].empty()) << which;
        EXPECT_GT(plan["seconds"].get<double>(), 1800) << which;
        EXPECT_LE(plan["seconds"].get<double>(), most_seconds) << which;
      }
}

TEST(PlanCommand, TheRanksOfTheJobAreNoAxis) {
  const Json job = planned({"--suite", "standard", "--device-class", "gpu", "--job-ranks", "8"});
  EXPECT_EQ(job["points"].size(), 10u);
  const Json axis = planned({"--suite", "standard", "--device-class", "gpu", "--ranks", "8"});
  EXPECT_EQ(axis["points"].size(), 8u);
  EXPECT_EQ(axis["suite"], "standard (changed: ranks)");
  // Given both, some of the job's ranks train.
  EXPECT_EQ(ranks_in(planned({"--model", "gpt2-tiny", "--ranks", "1,2", "--job-ranks", "8"})), (std::set<int>{1, 2}));
  EXPECT_EQ(ranks_in(planned({"--model", "gpt2-tiny", "--ranks", "scaling", "--job-ranks", "6"})),
            (std::set<int>{1, 3, 6}));
  EXPECT_EQ(ranks_in(planned({"--model", "gpt2-tiny", "--ranks", "2", "--job-ranks", "8", "--nodes", "4"})),
            (std::set<int>{2}));
  EXPECT_EQ(ranks_in(planned({"--model", "gpt2-tiny", "--job-ranks", "8", "--nodes", "2"})), (std::set<int>{8}));
}

TEST(PlanCommand, ARankOfTheJobThatIsNotThereIsRefused) {
  expect_refused(run({"plan", "--suite", "quick", "--job-ranks", "0"}),
                 "error[bad-value]: --job-ranks 0: value too small (minimum 1)");
  expect_refused(run({"plan", "--suite", "quick", "--job-ranks", "2", "--nodes", "4"}),
                 "error[options-conflict]: --job-ranks 2: fewer than the 4 nodes");
  expect_refused(run({"plan", "--model", "gpt2-tiny", "--ranks", "4", "--job-ranks", "2"}),
                 "error[bad-value]: --ranks 4: value too large: the job has 2 ranks");
  expect_refused(run({"plan", "--suite", "standard", "--ranks", "6"}),
                 "error[batch-not-divisible]: global batch 16 is not divisible by 6 ranks: choose 1, 2, 4 or 8 ranks");
}

}  // namespace
