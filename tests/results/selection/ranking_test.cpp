// The order of points by a figure of merit.
#include "results/selection/ranking.hpp"

#include <gtest/gtest.h>

#include "results/analysis/verdict.hpp"
#include "results/terminal/tables.hpp"
#include "tests/results/golden.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

/// A valid record with figures of these values; 0: absent.
Record record(const std::string& id, double samples_per_s, double package_flops_per_w = 0, double target_s = 0) {
  const auto estimate = [](double value) {
    return value > 0 ? std::optional(Estimate{value, {}, {}, Statistic::mean, 3}) : std::nullopt;
  };
  Record r;
  r.id = id;
  r.verdict.status = Status::valid;
  r.summary.samples_per_s = estimate(samples_per_s);
  r.summary.flops_per_w[Scope::package] = estimate(package_flops_per_w);
  r.summary.flops_per_w[Scope::dram] = estimate(package_flops_per_w > 0 ? 10 / package_flops_per_w : 0);
  r.summary.to_target = ToTarget{};
  r.summary.to_target->time_s = estimate(target_s);
  return r;
}
std::string order(std::vector<Record> records, const std::string& merit, Scope scope = Scope::none) {
  sort_records(records, order_by(*find_merit(merit), scope, records));
  std::string ids;
  for (const Record& r : records) ids += r.id;
  return ids;
}

TEST(Ranking, BestFirst) {
  const std::vector<Record> records = {record("a", 10, 3, 60), record("b", 30, 1, 20), record("c", 20, 2, 40)};
  EXPECT_EQ(order(records, "throughput"), "bca");
  EXPECT_EQ(order(records, "efficiency"), "acb") << "of package, the first of those as many have";
  EXPECT_EQ(order(records, "efficiency", Scope::dram), "bca");
  EXPECT_EQ(order(records, "time-to-target"), "bca") << "less is better";
}

TEST(Ranking, WhatDoesNotCountComesLast) {
  std::vector<Record> records = {record("f", 0),         record("i", 90, 9, 9), record("n", 40),
                                 record("a", 10, 3, 60), record("u", 0),        record("b", 30, 1, 20)};
  records[0].verdict.status = Status::failed;
  records[1].verdict.status = Status::invalid;
  records[4].verdict.status = Status::unsupported;
  EXPECT_EQ(order(records, "throughput"), "nbaifu");
  EXPECT_EQ(order(records, "efficiency"), "abnifu") << "absent joules are not none";
  EXPECT_EQ(order(records, "time-to-target"), "banifu") << "never reached is longest";
  EXPECT_EQ(order(records, "efficiency", Scope::facility), "nabifu") << "nobody has it: the order of the run";
  EXPECT_EQ(order(records, "of-ceiling"), "nabifu");
}

TEST(Ranking, AmongEqualsTheOrderOfTheRun) {
  EXPECT_EQ(order({record("b", 5), record("a", 5), record("c", 5)}, "throughput"), "bac");
  std::vector<Record> records = {record("b", 1), record("a", 2)};
  sort_records(records, Order{});
  EXPECT_EQ(records[0].id, "b");
}

TEST(Ranking, ByAxesWhateverTheOrderOfTheRun) {
  std::vector<Record> records;
  const auto add = [&](const char* id, const char* model, const char* precision, std::int64_t accumulate,
                       std::optional<double> clock = {}) {
    Record& added = records.emplace_back(record(id, 1));
    added.workload.model = model, added.workload.precision = precision, added.workload.accumulate = accumulate;
    if (clock) added.setting["gpu_clock_mhz"].requested = *clock;
  };
  add("h", "resnet-tiny", "float32", 1);
  add("f", "gpt2-774m", "bf16", 16);
  add("c", "gpt2-774m", "float32", 4, 900);
  add("e", "gpt2-774m", "bf16", 4);
  add("d", "gpt2-774m", "float32", 4, 1305);
  add("g", "gpt2-1558m", "float32", 1);
  add("b", "gpt2-774m", "float32", 4);
  add("a", "gpt2-774m", "float32", 1);
  Order by_axes;
  by_axes.by_axes = true;
  sort_records(records, by_axes);
  std::string ids;
  for (const Record& one : records) ids += one.id;
  EXPECT_EQ(ids, "abcdefgh");
}

TEST(Ranking, AShareAboveTheCeilingIsNotTheBest) {
  std::vector<Record> records = {record("a", 1), record("b", 1)};
  records[0].summary.of_ceiling = 2.5, records[1].summary.of_ceiling = 0.5;
  EXPECT_EQ(order(records, "of-ceiling"), "ba");
}

TEST(Ranking, TheScopeIsThatOfMostRecords) {
  std::vector<Record> records = {record("a", 1), record("b", 2)};
  EXPECT_EQ(order_by(*find_merit("efficiency"), {}, records).scope, Scope::node) << "of none the widest";
  records[0].summary.flops_per_w[Scope::node] = records[0].summary.samples_per_s;
  EXPECT_EQ(order_by(*find_merit("efficiency"), {}, records).scope, Scope::node);
  EXPECT_EQ(text_of(order_by(*find_merit("efficiency"), {}, records)), "node FLOP/J");
  EXPECT_EQ(order_by(*find_merit("throughput"), {}, records).scope, Scope::none);
  EXPECT_EQ(find_merit("speed"), nullptr);
}

TEST(Ranking, TheScopeTellsOfWhatTrains) {
  std::vector<Record> records = {record("a", 1, 3), record("b", 2, 4), record("c", 3)};
  for (Record& one : records) {
    one.workload.device = "cpu";
    one.summary.flops_per_w[Scope::device] = one.summary.samples_per_s;  // an idle GPU's
  }
  EXPECT_EQ(order_by(*find_merit("efficiency"), {}, records).scope, Scope::package);
  EXPECT_EQ(order_by(*find_merit("efficiency"), Scope::device, records).scope, Scope::device) << "asked for";
  records[1].workload.device = "cuda";
  EXPECT_EQ(order_by(*find_merit("efficiency"), {}, records).scope, Scope::node)
      << "all else is of one of the two only";
}

TEST(Ranking, NoOrderIsClaimedThatIsNone) {
  const std::vector<Record> records = {record("a", 1), record("b", 2)};
  const Order by = order_by(*find_merit("efficiency"), {}, records);
  EXPECT_EQ(explain(by, records), "in the order of the run: no valid point has the figure \"node FLOP/J\"");
  std::vector<Record> on_cpu = records;
  on_cpu[0].summary.mfu_reason = "device cpu: the list has GPUs only";
  EXPECT_EQ(explain(order_by(*find_merit("mfu"), {}, on_cpu), on_cpu),
            "in the order of the run: no valid point has the figure \"share of the vendor's peak\", because: "
            "device cpu: "
            "the list has GPUs only");
  const Order by_speed = order_by(*find_merit("throughput"), {}, records);
  EXPECT_EQ(explain(by_speed, records), "by samples/s, best first; points that do not count come last");
}

TEST(Ranking, SamplesOfTwoNetworksHaveAnOrderEach) {
  std::vector<Record> records = {record("g", 1, 5), record("r", 100, 4), record("h", 2, 7), record("s", 200, 6)};
  for (const std::size_t i : {0u, 2u}) records[i].workload.hash = "gpt2";
  for (const std::size_t i : {1u, 3u}) records[i].workload.hash = "resnet";
  EXPECT_EQ(order(records, "throughput"), "hgsr");
  EXPECT_EQ(explain(order_by(*find_merit("throughput"), {}, records), records),
            "by samples/s, best first within each workload; points that do not count come last");
  EXPECT_EQ(order(records, "efficiency"), "hsgr") << "FLOPs are of any";
}

TEST(Ranking, EveryMeritIsInTheTable) {
  for (const Report& report : {sample_energy_report(), sample_target_report()})
    for (const Merit& merit : merits()) {
      const Order by = order_by(merit, {}, report.records);
      if (!merit.of(report.records[0].summary, by.scope)) continue;  // as a target's, where there is none
      const std::string all = summary_table(report, {false, 400, true, by});
      EXPECT_TRUE(all.starts_with("  " + explain(by, report.records))) << all;
      // In the narrowest table its column is the one that stays.
      const std::string narrow = summary_table(report, {false, 10, true, by});
      const std::string head = narrow.substr(narrow.find("  point"), narrow.find("verdict") - narrow.find("  point"));
      const std::map<std::string_view, std::string> titles = {{"throughput", "samples/s"},
                                                              {"flops", "FLOP/s"},
                                                              {"of-ceiling", "of ceiling"},
                                                              {"efficiency", "package FLOP/J"},
                                                              {"samples-per-joule", "package samples/J"},
                                                              {"time-to-target", "to target"},
                                                              {"steps-to-target", "steps"},
                                                              {"energy-to-target", "package J"},
                                                              {"cost-to-target", "cost"}};
      ASSERT_TRUE(titles.contains(merit.name)) << merit.name;
      EXPECT_TRUE(head.find("  " + titles.at(merit.name) + "  ") != std::string::npos) << merit.name << ": " << head;
    }
}

TEST(Ranking, SortedTable) {
  Report report = sample_report();
  const Order by = order_by(*find_merit("throughput"), {}, report.records);
  std::swap(report.records[0], report.records[2]);  // the unsupported one first
  expect_golden("summary_sorted_100.txt", summary_table(report, {false, 100, true, by}));
  Report energy = sample_target_report();
  expect_golden("summary_target_sorted_120.txt",
                summary_table(energy, {false, 120, true,
                                       order_by(*find_merit("energy-to-target"), Scope::package, energy.records)}));
}

}  // namespace
}  // namespace tw
