// What is learned of how runs differ, and from what nothing is.
#include "results/compare/run_variance.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "results/analysis/verdict.hpp"
#include "results/export/export.hpp"
#include "tests/results/compare/compared.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

std::string code_of_fault(const std::vector<SystemInput>& earlier, const std::vector<SystemInput>& systems,
                          const CompareOptions& options = {}) {
  const auto fault = fault_of(earlier, systems, options);
  return fault ? fault->code : "";
}

TEST(RunVariance, ASingleRunOfEachDecidesNothing) {
  const Comparison c = compare({runs_at("A", {1}), runs_at("B", {1.5})}, {});
  EXPECT_EQ(ratio(c).verdict, Claim::single_run);
  EXPECT_EQ(ratio(c).code, "single_run");
  EXPECT_FALSE(ratio(c).is_range) << "the interval over trials";
  EXPECT_GT(*ratio(c).low, 1.4);
  EXPECT_FALSE(c.decided());
  EXPECT_FALSE(c.names_one());
  EXPECT_TRUE(c.compared);
  EXPECT_EQ(figure(c).ranking.at(0).rank, figure(c).ranking.at(1).rank);
  const nlohmann::json json = nlohmann::json::parse(comparison_json(c, {}));
  EXPECT_EQ(json["decided"], false);
  EXPECT_EQ(json["figures"][0]["overall"][1]["interval_over"], "trials");
  EXPECT_EQ(json["figures"][0]["overall"][1]["code"], "single_run");
  EXPECT_TRUE(c.answer.at(0).starts_with("Not decided: in this one run of each, ")) << c.answer[0];
}

TEST(RunVariance, EarlierRunsOfTheMachineLetItBeJudged) {
  CompareOptions options;
  options.run_variance = {runs_at("earlier", spread)};
  const std::vector<SystemInput> close = {runs_at("A", {1}), runs_at("B", {1.04})};
  EXPECT_EQ(code_of_fault(options.run_variance, close), "");
  EXPECT_EQ(ratio(compare(close, options)).verdict, Claim::no_difference) << "4 % is within what runs differ by";
  const Comparison c = compare({runs_at("A", {1}), runs_at("B", {1.5})}, options);
  EXPECT_EQ(ratio(c).verdict, Claim::better);
  EXPECT_LT(*ratio(c).low, 1.42) << "wider than over trials";
  ASSERT_EQ(c.learned.size(), 1u);
  EXPECT_EQ(c.learned[0].systems, (std::vector<std::size_t>{0, 1}));
  const nlohmann::json json = nlohmann::json::parse(comparison_json(c, {}));
  EXPECT_EQ(json["run_variance"][0]["files"][0], "earlier.json");
  EXPECT_EQ(json["figures"][0]["overall"][1]["interval_over"], "runs");
}

/// Of one side alone it is not enough, and another machine's runs say nothing.
TEST(RunVariance, OneMachineSaysNothingOfAnother) {
  SystemInput b = runs_at("B", {1.5});
  b.runs[0].context.hosts[0].cpu = "Another CPU";
  CompareOptions options;
  options.run_variance = {runs_at("earlier", spread)};
  EXPECT_EQ(code_of_fault(options.run_variance, {runs_at("A", {1}), b}), "run-variance-machine");
  EXPECT_EQ(ratio(compare({runs_at("A", {1}), b}, options)).verdict, Claim::single_run);
  // Each machine by its own.
  SystemInput other = runs_at("other", {0.7, 0.71, 0.72});
  for (Report& run : other.runs) run.context.hosts[0].cpu = "Another CPU";
  options.run_variance.push_back(other);
  EXPECT_EQ(code_of_fault(options.run_variance, {runs_at("A", {1}), b}), "");
  EXPECT_EQ(ratio(compare({runs_at("A", {1}), b}, options)).verdict, Claim::better);
}

TEST(RunVariance, NodesOfOneKindAreOneMachine) {
  Report a = made_report({}), b = a;
  b.context.hosts[0].name = "node2";
  for (DeviceEntry& device : b.context.devices) device.host = "node2", device.uuid = "another";
  EXPECT_EQ(machine_of(a), machine_of(b));
  b.context.devices.pop_back();
  EXPECT_NE(machine_of(a), machine_of(b)) << "another number of ranks";
  b = a, b.context.hosts[0].cores = 96;
  EXPECT_NE(machine_of(a), machine_of(b));
}

TEST(RunVariance, WhatCannotTeachIsRefused) {
  const std::vector<SystemInput> systems = {runs_at("A", {1}), runs_at("B", {1.1})};
  EXPECT_EQ(code_of_fault({runs_at("earlier", {1})}, systems), "run-variance-one-run");
  SystemInput copied = runs_at("earlier", {1, 1.01});
  copied.runs[1] = copied.runs[0], copied.runs[1].context.launch = "renamed";
  EXPECT_EQ(code_of_fault({copied}, systems), "run-variance-copy");
  SystemInput mixed = runs_at("earlier", spread);
  mixed.runs[2].context.hosts[0].cpu = "Another CPU";
  EXPECT_EQ(code_of_fault({mixed}, systems), "run-variance-machine");
  mixed.paths = {"e1.json", "e2.json", "e3.json"};
  const std::string of_group = fault_of({mixed}, systems, {})->text;
  EXPECT_NE(of_group.find(mixed.runs[0].context.hosts[0].cpu + " in e1.json, Another CPU in e3.json"),
            std::string::npos)
      << of_group;
  SystemInput fewer = runs_at("earlier", spread);
  for (Report& run : fewer.runs) run.context.hosts[0].usable_threads = 3, run.context.hosts[0].hypervisor = "kvm";
  fewer.paths = {"f1.json"};
  const std::string of_none = fault_of({fewer}, systems, {})->text;
  for (const char* said : {"usable threads 3 in f1.json, ", "hypervisor kvm in f1.json, none in A"})
    EXPECT_NE(of_none.find(said), std::string::npos) << of_none;
  EXPECT_EQ(of_none.find("cores"), std::string::npos) << "only what differs: " << of_none;
  SystemInput other = runs_at("earlier", spread);
  for (Report& run : other.runs) run.records[0].workload.precision = "float32";
  EXPECT_EQ(code_of_fault({other}, systems), "run-variance-workload");
  SystemInput faulty = runs_at("earlier", spread);
  faulty.faults = {"/records/0: forged"};
  EXPECT_EQ(code_of_fault({faulty}, systems), "run-variance-report");
}

/// Several runs on one side say how the other's one run would differ, on the same machine.
TEST(RunVariance, SeveralRunsOfOneSideOnTheSameMachine) {
  const SystemInput a = runs_at("A", spread);
  SystemInput b = runs_at("B", {1.04});
  Comparison c = compare({a, b}, {});
  EXPECT_EQ(c.replicates, Replicates::runs);
  EXPECT_EQ(ratio(c).verdict, Claim::no_difference);
  EXPECT_EQ(ratio(compare({a, runs_at("B", {1.5})}, {})).verdict, Claim::better);
  EXPECT_EQ(ratio(compare({runs_at("B", {1.5}), a}, {})).verdict, Claim::worse);
  b.runs[0].context.hosts[0].cpu = "Another CPU";
  c = compare({a, b}, {});
  EXPECT_EQ(ratio(c).verdict, Claim::single_run) << "nobody knows how another machine's runs differ";
  EXPECT_TRUE(ratio(c).is_range);
}

/// A single run of a busy machine, or whose trials drift, is not what the earlier runs were.
TEST(RunVariance, ADisturbedRunClaimsNothing) {
  CompareOptions options;
  options.run_variance = {runs_at("earlier", spread)};
  for (const char* flag : {"busy_host", "steal", "drift"}) {
    SystemInput b = runs_at("B", {1.5});
    b.runs[0].records[0].verdict.flags.emplace_back(flag);
    for (const bool learned : {false, true}) {
      const Comparison c = compare({runs_at("A", {1}), b}, learned ? options : CompareOptions());
      EXPECT_EQ(ratio(c).verdict, Claim::no_claim) << flag;
      EXPECT_EQ(ratio(c).code, flag);
      EXPECT_EQ(ratio(c).is_range, !learned) << "one run each has no range of runs";
      if (learned) {
        EXPECT_LT(ratio(c).low.value(), ratio(c).high.value());
      }
    }
    // Of several runs the runs themselves show it; where most of them drift nothing was ever steady.
    SystemInput many = runs_at("B", times(spread, 1.5));
    many.runs[0].records[0].verdict.flags.emplace_back(flag);
    EXPECT_EQ(ratio(compare({runs_at("A", spread), many}, {})).verdict, Claim::better) << flag;
    for (Report& run : many.runs) run.records[0].verdict.flags.emplace_back(Flag::drift);
    EXPECT_EQ(ratio(compare({runs_at("A", spread), many}, {})).code, "drift");
  }
}

/// Of two workloads, at these shares of the speed `slow`, run by run.
SystemInput two_workloads(const std::string& name, const std::vector<double>& speeds) {
  SystemInput system = runs_at(name, speeds);
  for (Report& run : system.runs) {
    Record& other = run.records.emplace_back(run.records[0]);
    other.id = "other", other.workload.model = other.workload.hash = "other";
    for (Trial& trial : other.trials) trial.window_s *= 1.7;
  }
  return system;
}

/// A group that lacks one workload says nothing of the mean over all, and takes no other group's place.
TEST(RunVariance, GroupsKeepTheirPlacesOverWorkloads) {
  SystemInput whole = two_workloads("whole", {0.97, 1.01, 1.03}), first = two_workloads("first", {0.99, 1, 1.02}),
              second = two_workloads("second", {0.98, 1.01, 1.04});
  for (Report& run : first.runs) run.records.pop_back();
  for (Report& run : second.runs) run.records.erase(run.records.begin());
  const std::vector<SystemInput> systems = {two_workloads("A", {1}), two_workloads("B", {1.5})};
  CompareOptions options;
  options.run_variance = {first, second};
  const Comparison halves = compare(systems, options);
  EXPECT_EQ(ratio(halves, 1, "throughput", 0).verdict, Claim::better) << "each workload by the group that has it";
  EXPECT_EQ(ratio(halves, 1, "throughput", 1).verdict, Claim::better);
  EXPECT_EQ(figure(halves).overall.at(1).verdict, Claim::single_run) << "no run of either group has both";
  options.run_variance = {whole};
  const Ratio by_whole = figure(compare(systems, options)).overall.at(1);
  EXPECT_EQ(by_whole.verdict, Claim::better);
  options.run_variance = {first, whole, second};
  const Ratio with_more = figure(compare(systems, options)).overall.at(1);
  EXPECT_EQ(with_more.verdict, Claim::better);
  EXPECT_DOUBLE_EQ(*with_more.low, *by_whole.low) << "over all workloads the whole group alone counts";
}

}  // namespace
}  // namespace tw
