// Which reports may be held against each other, and which of their points belong together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "results/analysis/verdict.hpp"
#include "results/compare/differences.hpp"
#include "results/record/known_texts.hpp"
#include "results/record/report_io.hpp"
#include "tests/results/compare/compared.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

TEST(Comparison, AMissingFieldBlocksTheFiguresThatNeedIt) {
  std::vector<SystemInput> systems = {made_system("A", {made_record(id, slow, 100)}),
                                      made_system("B", {made_record(id, fast, 100)})};
  systems[1].missing_fields = {{"/records/0/trials/0/skew", "1.1", {"samples-per-joule"}}, {"/note", "1.1", {}}};
  const Comparison c = compare(systems, {});
  ASSERT_NE(difference(c, "missing field"), nullptr);
  for (const FigureComparison& figure : c.figures)
    EXPECT_EQ(figure.rows[0].systems[1].ratio.verdict == Claim::not_comparable,
              figure.figure.name == "samples-per-joule")
        << figure.figure.name;
}

/// The reason names the remedy where each offer's batch grew with its ranks, and only there.
TEST(Comparison, ABatchThatGrewWithTheRanksNamesItsRemedy) {
  for (const bool grew : {true, false}) {
    Record b = made_record(id, fast);
    b.workload.global_batch *= 2;
    if (grew)
      b.workload.ranks *= 2;
    else
      b.workload.accumulate *= 2;
    const Comparison c = of_single(made_record(id, slow), b);
    const Difference* batch = difference(c, "global batch");
    ASSERT_NE(batch, nullptr);
    EXPECT_TRUE(batch->blocking);
    EXPECT_EQ(batch->why.find("--global-batch") != std::string::npos, grew) << batch->why;
  }
}

/// As the program of that launch wrote it.
void launched(SystemInput& system, const std::string& launch) {
  for (Report& run : system.runs) {
    run.context.launch = launch;
    for (Record& record : run.records) record.launch = launch;
  }
}

TEST(Comparison, AMeasurementBesideItselfIsBlocked) {
  std::vector<SystemInput> systems = {made_system("A", {made_record(id, slow)}),
                                      made_system("B", {made_record(id, slow)})};
  const auto is_blocked = [&] {
    const Comparison c = compare(systems, {});
    const Difference* copy = difference(c, "samples");
    EXPECT_EQ(c.compared, copy == nullptr);
    EXPECT_EQ(ratio(c).verdict == Claim::not_comparable, copy != nullptr) << ratio(c).reason;
    if (copy != nullptr) {
      EXPECT_TRUE(copy->blocking);
      EXPECT_EQ(copy->system_value, "A and B are the same");
      EXPECT_EQ(difference(c, "run of its own"), nullptr) << "once is enough";
    }
    return copy != nullptr;
  };
  EXPECT_TRUE(is_blocked()) << "the very same samples, whatever launches they name";
  for (SystemInput& system : systems) system.runs[0].records[0].launch.reset();
  EXPECT_TRUE(is_blocked()) << "the very same samples, of a program that named no launch";
  launched(systems[0], "one"), launched(systems[1], "one");
  EXPECT_TRUE(is_blocked());
  systems[1].runs[0].records[0].trials[0].window_s *= 1.01, summarise(systems[1].runs[0].records[0]);
  EXPECT_TRUE(is_blocked()) << "a copy that somebody changed is no second measurement";
  launched(systems[1], "two");
  EXPECT_FALSE(is_blocked()) << "two launches, each of samples of its own";
}

TEST(Comparison, TwoPointsOfARunAreComparedAndTheRunIsNoted) {
  std::vector<SystemInput> systems = {made_system("A", {made_record(id, slow)}),
                                      made_system("B", {made_record("gpt2-tiny/bf16/acc2/np2", fast)})};
  Record& other = systems[1].runs[0].records[0];
  other.workload.micro_batch = 16, other.workload.accumulate = 2;
  launched(systems[0], "one"), launched(systems[1], "one");
  const Comparison c = compare(systems, {});
  EXPECT_EQ(ratio(c).verdict, Claim::single_run) << ratio(c).reason;
  ASSERT_NE(difference(c, "run of its own"), nullptr);
  EXPECT_FALSE(difference(c, "run of its own")->blocking);
  EXPECT_EQ(difference(c, "samples"), nullptr);
}

TEST(Comparison, OfTwoCopiesBesideAReferenceNoneIsASystem) {
  std::vector<SystemInput> systems = {made_system("A", {made_record(id, slow)}),
                                      made_system("B", {made_record(id, fast)}),
                                      made_system("C", {made_record(id, fast)})};
  launched(systems[0], "one"), launched(systems[1], "two"), launched(systems[2], "two");
  const Comparison c = compare(systems, {});
  EXPECT_EQ(ratio(c, 1).verdict, Claim::not_comparable) << "whose it is nobody knows";
  EXPECT_EQ(ratio(c, 2).verdict, Claim::not_comparable);
  EXPECT_EQ(difference(c, "samples")->system_value, "B and C are the same");
}

TEST(Comparison, ARunThatTwoSystemsShareIsFoundAmongSeveral) {
  std::vector<SystemInput> systems = {made_system("A", {made_record(id, slow)}),
                                      made_system("B", {made_record(id, fast)})};
  for (SystemInput& system : systems) repeat(system, 5);
  EXPECT_EQ(ratio(compare(systems, {})).verdict, Claim::better);
  systems[1].runs[3] = systems[0].runs[1];
  EXPECT_EQ(ratio(compare(systems, {})).verdict, Claim::not_comparable);
}

TEST(Comparison, JoulesThatTellNotAllSaySo) {
  std::vector<SystemInput> systems = {made_system("A", {made_record(id, slow, 100, Scope::package)}),
                                      made_system("B", {made_record(id, fast, 100, Scope::package)})};
  for (SystemInput& system : systems) system.runs[0].records[0].setting["gpu_clock_mhz"].requested = SetPoint(900);
  const Comparison c = compare(systems, {});
  const Difference* scope = difference(c, "scope of energy");
  ASSERT_NE(scope, nullptr);
  EXPECT_EQ(scope->why,
            "joules of package do not include all that training on cpu draws while gpu_clock_mhz was set: joules of "
            "scope node are needed");
}

// What blocks, and what is noted. Each case changes one thing in B.
struct Case {
  const char* what;
  bool blocking;
  void (*change)(SystemInput&);
};
const Case cases[] = {
    {"global batch", true, [](SystemInput& s) { s.runs[0].records[0].workload.global_batch = 128; }},
    {"precision", true, [](SystemInput& s) { s.runs[0].records[0].workload.precision = "float32"; }},
    {"precision of summed gradients", true,
     [](SystemInput& s) {
       s.runs[0].records[0].execution =
           Execution{StepMode::eager, false, "mpi", "host memory", std::nullopt, 0, true, "bf16"};
     }},
    {"workload", true,
     [](SystemInput& s) { s.runs[0].records[0].workload.seq_len = 64, s.runs[0].records[0].workload.hash = "other"; }},
    {"workload hash", true, [](SystemInput& s) { s.runs[0].records[0].workload.hash = "other"; }},
    {"verdict", true,
     [](SystemInput& s) {
       s.runs[0].records[0].verdict = {Status::invalid, {}, {"throttled: heat"}};
     }},
    {"flag debug_build", true,
     [](SystemInput& s) { s.runs[0].records[0].verdict.flags.emplace_back(Flag::debug_build); }},
    {"flag unstable", true, [](SystemInput& s) { s.runs[0].records[0].verdict.flags.emplace_back(Flag::unstable); }},
    {"validation", true, [](SystemInput& s) { s.faults = {"/records/0: forged"}; }},
    {"note of validation", false, [](SystemInput& s) { s.notes = {"/schema_version: newer"}; }},
    {"flag oversubscribed", false,
     [](SystemInput& s) { s.runs[0].records[0].verdict.flags.emplace_back(Flag::oversubscribed); }},
    {"run rule steady", false, [](SystemInput& s) { s.runs[0].records[0].verdict.flags.emplace_back(Flag::drift); }},
    {"run rule throttling", false,
     [](SystemInput& s) { s.runs[0].records[0].verdict.flags.emplace_back(Flag::throttled); }},
    {"run rule temperature", false,
     [](SystemInput& s) {
       s.runs[0].records[0].start = StartTemperature{std::nan(""), 0};
     }},
    {"program", false, [](SystemInput& s) { s.runs[0].program.version = "0.2.0"; }},
    {"nvidia_driver", false, [](SystemInput& s) { s.runs[0].context.versions["nvidia_driver"] = "580.82"; }},
    {"libraries of the ranks", false,
     [](SystemInput& s) { s.runs[0].context.devices[1].libraries = {"oneDNN 3.7.2"}; }},
    {"CPU", false, [](SystemInput& s) { s.runs[0].context.hosts[0].cpu = "Another CPU"; }},
    {"CPU governor", false, [](SystemInput& s) { s.runs[0].context.hosts[0].cpu_governor = "powersave"; }},
    {"hypervisor", false, [](SystemInput& s) { s.runs[0].context.hosts[0].hypervisor = "kvm"; }},
    {"devices", false, [](SystemInput& s) { s.runs[0].context.devices[0].name = "Another"; }},
    {"split of the batch", false,
     [](SystemInput& s) {
       s.runs[0].records[0].workload.micro_batch = 16, s.runs[0].records[0].workload.accumulate = 2;
     }},
    {"threads of a rank", false, [](SystemInput& s) { s.runs[0].records[0].workload.threads_per_rank = 2; }},
    {"gpu_clock_mhz requested", false,
     [](SystemInput& s) { s.runs[0].records[0].setting["gpu_clock_mhz"].requested = SetPoint(1305); }},
    {"environment OMP_NUM_THREADS", false,
     [](SystemInput& s) { s.runs[0].context.environment["OMP_NUM_THREADS"] = "2"; }},
    {"plan", false, [](SystemInput& s) { s.runs[0].plan.canonical_json = R"({"points":[],"window_s":5})"; }},
    {"plan: window_s", false, [](SystemInput& s) { s.runs[0].plan.canonical_json = R"({"points":[],"window_s":5})"; }},
    {"run", false, [](SystemInput& s) { s.runs[0].context.warnings.emplace_back("interrupted by SIGTERM"); }},
};

TEST(Comparability, EachDifferenceIsNamedAndBlocksOrIsNoted) {
  for (const Case& one : cases) {
    SystemInput b = made_system("B", {made_record(id, fast)});
    one.change(b);
    const Comparison c = compare({made_system("A", {made_record(id, slow)}), b}, {});
    const Difference* found = difference(c, one.what);
    ASSERT_NE(found, nullptr) << one.what;
    EXPECT_EQ(found->blocking, one.blocking) << one.what;
    EXPECT_EQ(found->system, 1u);
    EXPECT_EQ(ratio(c).verdict, one.blocking                                      ? Claim::not_comparable
                                : one.what == std::string_view("run rule steady") ? Claim::no_claim
                                                                                  : Claim::single_run)
        << one.what << ": " << ratio(c).reason;
    EXPECT_EQ(ratio(c).value.has_value(), !one.blocking) << one.what;
    EXPECT_EQ(c.compared, !one.blocking) << one.what;
    EXPECT_EQ(figure(c).overall[1].value.has_value(), !one.blocking) << one.what;
    if (!one.blocking) continue;
    const std::string named = one.what == std::string("workload hash") ? "workload" : one.what;
    EXPECT_NE(ratio(c).reason.find(named), std::string::npos) << ratio(c).reason;
    EXPECT_TRUE(figure(c).rows[0].systems[1].figure) << "the figure is shown, no ratio is claimed";
  }
}

TEST(Comparability, RunRulesAreNamedWithTheFlagsThatBreakThem) {
  Record b = made_record(id, fast);
  b.verdict.flags.emplace_back(Flag::steps_given);
  Record other = made_record("gpt2-tiny/bf16/other", fast);
  other.workload.hash = "other";
  other.verdict.flags.clear();
  SystemInput a = made_system("A", {made_record(id, slow), other});
  const Comparison c = compare({a, made_system("B", {b, other})}, {});
  const Difference* window = difference(c, "run rule window");
  ASSERT_NE(window, nullptr);
  EXPECT_EQ(window->reference_value, "broken (short)");
  EXPECT_EQ(window->system_value, "broken (short, steps_given)");
  EXPECT_EQ(window->workloads, std::vector<std::size_t>{0}) << "the other point keeps it";
  EXPECT_NE(window->why.find("60 s"), std::string::npos) << window->why;
  for (const char* flag : {"flag short", "flag steps_given"})
    EXPECT_EQ(difference(c, flag), nullptr) << flag << " is said by its rule";
}

TEST(Comparability, TheReferencesOwnFaultsBlockAll) {
  SystemInput a = made_system("A", {made_record(id, slow)});
  a.faults = {"/plan/sha256: is not the SHA-256 of canonical_json", "another"};
  const Comparison c =
      compare({a, made_system("B", {made_record(id, fast)}), made_system("C", {made_record(id, fast)})}, {});
  EXPECT_FALSE(c.compared);
  EXPECT_EQ(ratio(c, 2).verdict, Claim::not_comparable);
}

/// The mean of the runs is one of the same work: also the reference's, whose first run alone stands for it elsewhere.
TEST(Comparability, TheRunsOfASystemAreHeldAgainstEachOther) {
  const auto with = [](std::size_t changed, void (*change)(Record&)) {
    std::vector<SystemInput> systems = {several("A", {made_record(id, slow)}), several("B", {made_record(id, fast)})};
    change(systems[changed].runs[2].records[0]);
    return compare(systems, {});
  };
  EXPECT_EQ(ratio(with(0, [](Record&) {})).verdict, Claim::better);
  struct {
    const char* what;
    void (*change)(Record&);
  } const runs[] = {
      {"global batch", [](Record& r) { r.workload.global_batch = 128; }},
      {"precision", [](Record& r) { r.workload.precision = "float32"; }},
      {"losses_differ", [](Record& r) { r.trials[0].loss[0] *= 2; }},
      {"verdict",
       [](Record& r) {
         r.verdict = {Status::invalid, {}, {"throttled: heat"}};
       }},
      {"flag debug_build", [](Record& r) { r.verdict.flags.emplace_back(Flag::debug_build); }},
  };
  for (const auto& run : runs)
    for (const std::size_t changed : {0, 1}) {
      SCOPED_TRACE(std::string(run.what) + " of " + (changed == 0 ? "the reference" : "the other"));
      const Comparison c = with(changed, run.change);
      const auto of_changed = [&](const Difference& d) { return d.what == run.what && d.system == changed; };
      ASSERT_EQ(std::ranges::count_if(c.differences, of_changed), 1) << "once is enough";
      const Difference& found = *std::ranges::find_if(c.differences, of_changed);
      EXPECT_TRUE(found.blocking);
      EXPECT_EQ(found.why.starts_with("between its runs 1 and 3"), changed == 0) << found.why;
      EXPECT_EQ(ratio(c).verdict, Claim::not_comparable) << ratio(c).reason;
      EXPECT_FALSE(c.compared);
    }
}

TEST(Comparability, EqualReportsHaveNoDifferenceButTheirFlagsAndRules) {
  const Comparison c = of_single(made_record(id, slow), made_record(id, fast));
  for (const Difference& d : c.differences) {
    EXPECT_TRUE(d.what.starts_with("flag ") || d.what.starts_with("run rule ")) << d.what;
    EXPECT_EQ(d.reference_value, d.system_value);
    EXPECT_TRUE(d.workloads.empty()) << "of all workloads";
  }
}

TEST(Comparability, JoulesOfTwoScopesAreNeverHeldAgainstEachOther) {
  const Comparison c = of_single(made_record(id, slow, 200, Scope::package), made_record(id, fast, 300, Scope::device));
  const Difference* scope = difference(c, "scope of energy");
  ASSERT_NE(scope, nullptr);
  EXPECT_TRUE(scope->blocking);
  EXPECT_EQ(scope->reference_value, "package");
  EXPECT_EQ(scope->system_value, "device");
  EXPECT_EQ(ratio(c).verdict, Claim::single_run) << "the speed has no joules in it";
  EXPECT_FALSE(ratio(c, 1, "samples-per-joule").value);
  // GPUs are trained on and CPUs are read.
  Record a = made_record(id, slow, 200, Scope::package), b = made_record(id, fast, 200, Scope::package);
  for (Record* r : {&a, &b}) r->workload.device = "cuda";
  CompareOptions options;
  options.scope = Scope::package;
  const Comparison of_part = of_single(a, b, options);
  ASSERT_NE(difference(of_part, "scope of energy"), nullptr);
  EXPECT_EQ(ratio(of_part, 1, "samples-per-joule").verdict, Claim::not_comparable);
}

TEST(Comparability, MethodsOfEnergyAreNoted) {
  Record b = made_record(id, fast, 200);
  for (Trial& trial : b.trials) trial.energy[0].method = Method::integrated_power;
  const Comparison c = of_single(made_record(id, slow, 200), b);
  ASSERT_NE(difference(c, "method of energy (node)"), nullptr);
  EXPECT_FALSE(difference(c, "method of energy (node)")->blocking);
  EXPECT_TRUE(ratio(c, 1, "samples-per-joule").value);
}

TEST(Comparability, ARuleOfFlopsBlocksFlopsAlone) {
  Record b = made_record(id, fast, 200);
  b.summary.flops_rule = "another";
  CompareOptions options;
  options.figures = {"throughput", "efficiency"};
  const Comparison c = of_single(made_record(id, slow, 200), b, options);
  EXPECT_EQ(ratio(c).verdict, Claim::single_run);
  EXPECT_EQ(ratio(c, 1, "efficiency").verdict, Claim::not_comparable);
}

TEST(Comparability, AnotherWordingOfTheRuleOfFlopsBlocksNothing) {
  Record a = made_record(id, slow, 200), b = made_record(id, fast, 200);
  a.summary.flops_rule = rule_of_flops.wordings[1], b.summary.flops_rule = rule_of_flops.text();
  EXPECT_EQ(difference(of_single(a, b), "FLOP rule"), nullptr);
}

TEST(Comparability, TargetsHaveToBeTheSame) {
  const std::vector<double> seconds = {100, 101, 102, 99, 98};
  Record b = made_target_record(id, times(seconds, 0.5));
  const Comparison c = of_single(made_target_record(id, seconds), b);
  EXPECT_EQ(ratio(c, 1, "time-to-target").verdict, Claim::single_run) << "less is better";
  EXPECT_NEAR(*ratio(c, 1, "time-to-target").value, 0.5, 1e-9);
  b.target->value = 0.2, b.workload.hash = workload_hash(b.workload, b.target);
  const Comparison other = of_single(made_target_record(id, seconds), b);
  ASSERT_NE(difference(other, "target"), nullptr);
  EXPECT_TRUE(difference(other, "target")->blocking);
  EXPECT_EQ(ratio(other, 1, "time-to-target").verdict, Claim::not_comparable);
  Record few = made_target_record(id, times(seconds, 0.5));
  few.target->drawn_tokens = 64;
  ASSERT_NE(difference(of_single(made_target_record(id, seconds), few), "target"), nullptr) << "with an equal hash";
  EXPECT_NE(workload_hash(few.workload, few.target), few.workload.hash);
}

TEST(Comparability, ATargetThatNobodyHadReachedIsNamed) {
  const auto record = [] {
    Record one = made_target_record(id, {100, 101, 102, 99, 98});
    one.target->extrapolated_from = "runs of gpt2-tiny";
    summarise(one);
    return one;
  };
  const Comparison c = of_single(record(), record());
  ASSERT_NE(difference(c, "flag extrapolated"), nullptr);
  EXPECT_FALSE(difference(c, "flag extrapolated")->blocking);
  EXPECT_NE(difference(c, "flag extrapolated")->why.find("nobody had trained this task"), std::string::npos);
}

/// Who may choose the seeds chooses how many steps a target takes; the speed of a step does not depend on them.
TEST(Comparability, RunsToATargetHaveTheSameSeeds) {
  const std::vector<double> seconds = {100, 101, 102, 99, 98};
  const auto system = [&](const char* name, double factor, const std::vector<std::uint64_t>& of_runs) {
    SystemInput system = made_system(name, {made_target_record(id, times(seconds, factor), 200)});
    repeat(system, of_runs.size());
    for (std::size_t run = 0; run < of_runs.size(); ++run)
      for (Trial& trial : system.runs[run].records[0].trials)
        trial.target_run->seed = trial.target_run->seed * of_runs[run] + (of_runs[run] - 1) * 12;
    return system;
  };
  const std::vector<std::uint64_t> counted(5, 1), chosen(5, 7);
  const auto of_target = [](const Comparison& c) {
    return std::vector{ratio(c, 1, "time-to-target").verdict, ratio(c, 1, "energy-to-target").verdict};
  };
  const Comparison same = compare({system("A", 1, counted), system("B", 0.5, counted)}, {});
  EXPECT_EQ(of_target(same), (std::vector{Claim::better, Claim::better}));
  EXPECT_EQ(difference(same, "seeds_differ"), nullptr);
  const Comparison c = compare({system("A", 1, counted), system("B", 0.5, chosen)}, {});
  EXPECT_EQ(of_target(c), (std::vector{Claim::not_comparable, Claim::not_comparable}));
  EXPECT_EQ(ratio(c).verdict, Claim::better) << "throughput";
  ASSERT_NE(difference(c, "seeds_differ"), nullptr);
  EXPECT_TRUE(difference(c, "seeds_differ")->blocking);
  EXPECT_EQ(difference(c, "seeds_differ")->reference_value, "1 to 5");
  EXPECT_EQ(difference(c, "seeds_differ")->system_value, "79, 86, 93, 100, 107");
  EXPECT_NE(ratio(c, 1, "time-to-target").reason.find("seeds_differ: 79, 86, 93, 100, 107 in B, 1 to 5 in A"),
            std::string::npos)
      << ratio(c, 1, "time-to-target").reason;
  // More runs of one side with the same seeds are alike, more of lucky ones are not.
  EXPECT_EQ(of_target(compare({system("A", 1, {1, 1, 1}), system("B", 0.5, counted)}, {}))[0], Claim::better);
  EXPECT_EQ(of_target(compare({system("A", 1, {1, 2, 3}), system("B", 0.5, {3, 1, 2})}, {}))[0], Claim::better);
  EXPECT_EQ(of_target(compare({system("A", 1, {1, 1, 7}), system("B", 0.5, {1, 7, 7})}, {}))[0], Claim::not_comparable);
}

TEST(Matching, IsByWorkloadAndNotByName) {
  const Comparison c = of_single(made_record("one/name", slow), made_record("another/name", fast));
  EXPECT_EQ(c.workloads.at(0).id, "one/name");
  EXPECT_EQ(figure(c).rows.at(0).systems[1].record, "another/name");
  EXPECT_EQ(ratio(c).verdict, Claim::single_run);
}

TEST(Matching, OfSeveralTheOneOfTheSameSplitAndSettingIsTaken) {
  Record other = made_record("b/split", slow), set = made_record("b/set", slow);
  other.workload.micro_batch = 16, other.workload.accumulate = 2;
  set.setting["gpu_clock_mhz"].requested = SetPoint(1305);
  const Comparison c = compare(
      {made_system("A", {made_record("a", slow)}), made_system("B", {other, set, made_record("b/same", fast)})}, {});
  EXPECT_EQ(figure(c).rows.at(0).systems[1].record, "b/same");
  ASSERT_NE(difference(c, "points"), nullptr) << "what is left out is said";
  EXPECT_EQ(difference(c, "points")->system_value, "b/split and 1 more");
}

TEST(Comparability, PlansForTwoClassesOfDeviceAreNotCompared) {
  const auto of_class = [](const char* name, const char* device_class) {
    SystemInput system = made_system(name, {made_record("a", slow)});
    system.runs[0].plan.canonical_json =
        std::string(R"({"device_class":")") + device_class + R"(","points":[],"window_s":60})";
    return system;
  };
  const Comparison two = compare({of_class("A", "cpu"), of_class("B", "gpu")}, {});
  ASSERT_NE(difference(two, device_class_difference), nullptr);
  EXPECT_TRUE(difference(two, device_class_difference)->blocking);
  EXPECT_FALSE(two.compared);
  EXPECT_EQ(difference(compare({of_class("A", "gpu"), of_class("B", "gpu")}, {}), device_class_difference), nullptr);
}

TEST(Matching, WhatAPointLacksIsNamed) {
  const auto with_batch = [](const char* id, std::int64_t global) {
    Record record = made_record(id, slow);
    record.workload.global_batch = global, record.workload.accumulate = global / record.workload.micro_batch;
    return record;
  };
  const std::int64_t one = made_record("a", slow).workload.micro_batch;
  const Record small = with_batch("a/small", one), large = with_batch("a/large", 4 * one);
  Record other = large;
  const auto why = [](const Record& reference, const std::vector<Record>& system) {
    std::vector<const Record*> records;
    for (const Record& record : system) records.push_back(&record);
    const Record taken = system.front();
    return match_records({&taken, &reference}, records).at(1).why_missing;
  };
  const std::string batches = why(large, {small});
  EXPECT_NE(batches.find(std::to_string(4 * one)), std::string::npos) << batches;
  EXPECT_NE(batches.find("it has " + std::to_string(one)), std::string::npos) << batches;
  other.workload.precision = "tf32";
  const std::string precisions = why(other, {small});
  EXPECT_NE(precisions.find("tf32"), std::string::npos) << precisions;
  EXPECT_NE(precisions.find("it has " + small.workload.precision), std::string::npos) << precisions;
}

TEST(Matching, NoneIsChosenAmongSeveral) {
  Record first = made_record("b/900", slow), second = made_record("b/1305", fast);
  first.setting["gpu_clock_mhz"].requested = SetPoint(900);
  second.setting["gpu_clock_mhz"].requested = SetPoint(1305);
  const std::vector<SystemInput> systems = {made_system("A", {made_record("a", slow)}),
                                            made_system("B", {first, second})};
  const Comparison c = compare(systems, {});
  EXPECT_EQ(ratio(c).verdict, Claim::absent);
  EXPECT_NE(ratio(c).reason.find("ambiguous"), std::string::npos) << ratio(c).reason;
}

}  // namespace
}  // namespace tw
