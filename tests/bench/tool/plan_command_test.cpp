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
  const auto runs = [](const Json& point) { return point["runs"]; };
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
        EXPECT_GT(plan["seconds"].get<double>(), 5 * 60 * std::ranges::count(plan["points"], Json(true), runs))
            << which;
        EXPECT_LE(plan["seconds"].get<double>(), most_seconds) << which;
      }
}

/// What `trainwatt probe --json` writes on a node with memory for all points, whose clocks can be set.
std::string node_with(const std::vector<std::string>& gpus, int cores) {
  Json node =
      Json::parse(R"({"host": "n1", "cpu": {"bf16": true}, "memory": {"total_bytes": 1099511627776}, "meters": [],
  "telemetry": [], "knobs": [{"kind": "gpu_clock_mhz", "domain": "nvml:GPU-1", "writable": true, "minimum": 210,
                              "maximum": 1980, "values": [], "reason": "", "detail": "", "grant": ""},
                             {"kind": "cpu_frequency_mhz", "domain": "cpu", "writable": true, "minimum": 800,
                              "maximum": 3200, "values": [], "reason": "", "detail": "", "grant": ""}]})");
  node["gpus"] = gpus, node["cpu"]["cores"] = cores;
  return node.dump();
}

/// By the pace that devices are taken to have: with whole steps where these are longer than windows, and with the
/// search for micro-batches.
TEST(PlanCommand, SuitesEndInTimeAtThePaceOfTheirDevices) {
  const auto expect = [](const std::string& node, const char* device_class, int ranks, const std::string& which) {
    const std::string path = file_with(node, "-paced");
    for (const auto& [suite, most_seconds] : {std::tuple("standard", 3600.), std::tuple("procurement", 4 * 3600.)}) {
      const Outcome o = run({"plan", "--json", "--on", path, "--suite", suite, "--device-class", device_class,
                             "--job-ranks", std::to_string(ranks)});
      ASSERT_EQ(o.code, 0) << o.err;
      const Json plan = Json::parse(o.out);
      const std::string what = which + ", " + std::to_string(ranks) + " ranks, " + suite;
      EXPECT_FALSE(plan["pace"].is_null()) << what;
      EXPECT_LE(plan["seconds"].get<double>(), most_seconds) << what;
      EXPECT_TRUE(plan["left_out"].empty()) << what;
      for (const Json& point : plan["points"]) {
        EXPECT_EQ(point["seconds_are_estimated"], point["runs"]) << what << " " << point["id"];
        EXPECT_FALSE(point["seconds_are_least"].get<bool>()) << what << " " << point["id"];
      }
    }
    std::remove(path.c_str());
  };
  for (const char* gpu : {"NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe",
                          "NVIDIA H200", "NVIDIA B200"})
    for (const int ranks : {1, 2, 4, 8, 16})
      expect(node_with(std::vector<std::string>(static_cast<std::size_t>(ranks), gpu), 64), "gpu", ranks, gpu);
  for (const auto& [cores, all_ranks] :
       {std::pair(2, std::vector{1, 2}), std::pair(16, std::vector{1, 2, 4, 8, 16}),
        std::pair(64, std::vector{1, 2, 4, 8, 16}), std::pair(128, std::vector{1, 2, 4, 8, 16})})
    for (const int ranks : all_ranks) expect(node_with({}, cores), "cpu", ranks, std::to_string(cores) + " cores");
}

TEST(PlanCommand, RanksThatShareAGpuTakeLonger) {
  const auto plan_on = [](std::size_t gpus, const std::vector<std::string>& options) {
    const std::string path = file_with(node_with(std::vector<std::string>(gpus, "NVIDIA H200"), 64), "-shared");
    std::vector<std::string> arguments{"plan", "--json", "--on", path, "--device-class", "gpu", "--job-ranks", "8"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome o = run(arguments);
    std::remove(path.c_str());
    EXPECT_EQ(o.code, 0) << o.err;
    return Json::parse(o.out);
  };
  const std::vector<std::string> long_steps{"--model",        "gpt2-1558m", "--device", "cuda", "--micro-batch", "1",
                                            "--global-batch", "4096",       "--window", "1",    "--trials",      "3"};
  EXPECT_GT(plan_on(1, long_steps)["seconds"].get<double>(), 4 * plan_on(8, long_steps)["seconds"].get<double>());
  // The search for a micro-batch is estimated even where the time of the steps is not.
  const Json few_steps = plan_on(8, {"--model", "gpt2-tiny", "--device", "cuda", "--steps", "20", "--micro-batch",
                                     "auto", "--global-batch", "64"});
  EXPECT_TRUE(few_steps["seconds"].is_null());
  EXPECT_GT(few_steps["points"][0]["micro_batch_search_seconds"].get<double>(), 0);
  EXPECT_FALSE(few_steps["pace"].is_null());
}

TEST(PlanCommand, AnOldProbeHasNoPace) {
  const Json plan = planned({"--suite", "standard", "--device-class", "gpu"});
  EXPECT_TRUE(plan["pace"].is_null());
  EXPECT_TRUE(plan["points"][0]["seconds_are_least"].get<bool>());
}

TEST(PlanCommand, TheRanksOfTheJobAreNoAxis) {
  const Json job = planned({"--suite", "standard", "--device-class", "gpu", "--job-ranks", "8"});
  EXPECT_EQ(job["points"].size(), 8u);
  const Json axis = planned({"--suite", "standard", "--device-class", "gpu", "--ranks", "8"});
  EXPECT_EQ(axis["points"].size(), 6u);
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
