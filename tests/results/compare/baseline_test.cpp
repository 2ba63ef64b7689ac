// Rules for regression checks: what is kept, what is violated, what could not be checked, and what is no rule.
#include "results/compare/baseline.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "results/terminal/tables.hpp"
#include "tests/results/compare/compared.hpp"

namespace tw {

using namespace results;

namespace {

using testing::made_record, testing::made_report, testing::made_system, testing::several;

const std::vector<double> before = {100, 101, 99, 100.5, 99.5};
constexpr const char *one = "gpt2-tiny/bf16", *two = "gpt2-tiny/float32";

Record second(Record record) {
  record.id = two, record.workload.precision = "float32";
  return record;
}
std::vector<double> times_at(double factor) {
  std::vector<double> values = before;
  for (double& v : values) v *= factor * (1 + 1e-12);  // never the same measurement
  return values;
}

/// Five runs of two points, at these shares of the baseline's speed, which differ as its trials do.
SystemInput runs_of(const std::string& name, double first, double other) {
  SystemInput system = made_system(name, {});
  system.runs.clear();
  for (const double share : before)
    system.runs.push_back(made_report(
        {made_record(one, times_at(first * share / 100)), second(made_record(two, times_at(other * share / 100)))}));
  return system;
}

/// Of a new report whose two points run at these shares of the baseline's speed.
std::vector<RuleCheck> check(const std::string& rule, double first, double other,
                             const std::function<void(SystemInput&)>& change = nullptr) {
  std::vector<SystemInput> systems = {runs_of("base", 1 + 1e-9, 1 + 1e-9), runs_of("new", first, other)};
  if (change != nullptr) change(systems[1]);
  CompareOptions options;
  options.also = {"efficiency"};
  return check_baseline(baseline_from_json(R"({"rules": [{"name": "r", )" + rule + "}]}"), systems,
                        compare(systems, options));
}
std::string statuses(const std::vector<RuleCheck>& checks) {
  std::string all;
  for (const RuleCheck& c : checks) all += std::string(all.empty() ? "" : ", ") + to_string(c.status);
  return all;
}

TEST(Baseline, Variance) {
  const std::string rule = R"("kind": "variance", "figure": "throughput", "most_below": 0.05)";
  EXPECT_EQ(statuses(check(rule, 1, 1)), "kept, kept");
  EXPECT_EQ(statuses(check(rule, 0.9, 2)), "violated, kept") << "faster is no regression";
  EXPECT_EQ(statuses(check(rule + R"(, "most_above": 0.5)", 0.9, 2)), "violated, violated");
  const std::vector<RuleCheck> checks = check(rule, 0.9, 1);
  EXPECT_EQ(checks[0].point, one);
  EXPECT_NE(checks[0].text.find("-10.0 % (allowed: at most 5.00 % below); the interval"), std::string::npos) << checks[0].text;
  EXPECT_NE(checks[0].text.find("lies outside"), std::string::npos) << checks[0].text;
}

TEST(Baseline, OnlyWholeIntervalsDecide) {
  const std::string rule = R"("kind": "variance", "figure": "throughput", "most_below": 0.05)";
  const std::vector<RuleCheck> near = check(rule, 0.948, 1);
  EXPECT_EQ(near[0].status, RuleState::undecided);
  EXPECT_NE(near[0].text.find("reaches inside"), std::string::npos) << near[0].text;
  const std::vector<RuleCheck> inside = check(rule, 0.955, 1);
  EXPECT_EQ(statuses(inside), "undecided, kept") << "a loss of more than 5 % is not shut out";
  EXPECT_NE(inside[0].text.find("reaches outside; "), std::string::npos) << inside[0].text;
  for (const char* said : {"; the interval (", "lies inside; ", " % would have shown"})
    EXPECT_NE(inside[1].text.find(said), std::string::npos) << inside[1].text;
  for (const char* surely : {"true", "false"})
    EXPECT_EQ(statuses(check(rule + R"(, "surely": )" + surely, 0.948, 0.9)), "undecided, violated") << "changes nothing";
}

TEST(Baseline, OneRunOfEachKeepsNoRule) {
  const std::vector<SystemInput> systems = {made_system("A", {made_record(one, {100, 140, 60})}),
                                            made_system("B", {made_record(one, {96, 60, 130})})};
  const Comparison c = compare(systems, {});
  const std::vector<RuleCheck> checks = check_baseline(
      baseline_from_json(
          R"({"rules": [{"name": "r", "kind": "variance", "figure": "throughput", "most_below": 0.05}]})"),
      systems, c);
  EXPECT_EQ(statuses(checks), "undecided");
  EXPECT_EQ(c.figures.at(0).rows.at(0).systems.at(1).ratio.code, "single_run");
  const std::string text = comparison_text(c, checks, {false, 100});
  EXPECT_NE(text.find("Rules: 0 violated, 1 undecided, 0 not checked, 0 kept"), std::string::npos) << text;
  EXPECT_NE(text.find("undecided    r, "), std::string::npos) << text;
}

TEST(Baseline, NothingIsDecidedWithoutAnInterval) {
  std::vector<SystemInput> systems = {made_system("A", {made_record(one, times_at(1))}),
                                      made_system("B", {made_record(one, times_at(0.5))})};
  const auto status = [&](const char* rule) {
    return statuses(check_baseline(
        baseline_from_json(std::string(R"({"rules": [{"name": "r", "kind": "variance", "figure": "throughput", )") + rule + "}]}"),
        systems, compare(systems, {})));
  };
  constexpr const char *surely = R"("most_below": 0.05, "surely": true)", *plainly = R"("most_below": 0.05)";
  EXPECT_EQ(status(surely), "undecided") << "half as fast in one run";
  EXPECT_EQ(status(R"("most_below": 0.6)"), "undecided");
  std::vector<SystemInput> single = systems;
  for (SystemInput& system : systems) testing::repeat(system, 5);
  EXPECT_EQ(status(surely), "violated");
  EXPECT_EQ(status(R"("most_below": 0.6)"), "kept");
  systems = single;
  systems[1].runs[0].records[0].verdict.flags.emplace_back(Flag::busy_host);
  EXPECT_EQ(status(surely), "undecided") << "half as fast on a busy machine passes no gate";
  EXPECT_EQ(status(plainly), "undecided");
  EXPECT_EQ(status(R"("most_below": 0.6)"), "undecided") << "a busy machine shows nothing";
}

TEST(Baseline, PointsAreChosenByTheirIds) {
  const std::string rule = R"("kind": "variance", "figure": "throughput", "most_below": 0.05, "points": )";
  EXPECT_EQ(statuses(check(rule + R"(["float32"])", 0.5, 1)), "kept");
  EXPECT_EQ(statuses(check(rule + R"(["resnet"])", 0.5, 1)), "not checked");
}

TEST(Baseline, Value) {
  EXPECT_EQ(statuses(check(R"("kind": "value", "figure": "throughput", "at_least": 80, "at_most": 120)", 0.9, 0.7)),
            "kept, violated");
  EXPECT_EQ(statuses(check(R"("kind": "value", "figure": "step-time-p99", "at_most": 0.7)", 1, 0.5)), "kept, violated")
      << "0.64 s and twice that";
  EXPECT_EQ(statuses(check(R"("kind": "value", "figure": "efficiency", "scope": "node", "at_least": 1)", 1, 1)),
            "not checked, not checked");
}

TEST(Baseline, FiguresWithoutAnInterval) {
  const std::vector<RuleCheck> checks =
      check(R"("kind": "variance", "figure": "step-time-p99", "most_above": 0.1)", 1, 0.5);
  EXPECT_EQ(statuses(checks), "kept, violated");
  EXPECT_NE(checks[0].text.find("this figure has no interval"), std::string::npos) << checks[0].text;
}

TEST(Baseline, Failure) {
  const std::string rule = R"("kind": "failure")";
  EXPECT_EQ(statuses(check(rule, 1, 1)), "kept");
  const auto failed = [](SystemInput& s) { s.runs[0].records[1].verdict = {Status::failed, {}, {"rank 1 died"}}; };
  const auto missing = [](SystemInput& s) { s.runs[0].records.pop_back(); };
  const auto unsupported = [](SystemInput& s) { s.runs[0].records[1].verdict = {Status::unsupported, {}, {"no such type"}}; };
  const auto throttled = [](SystemInput& s) { s.runs[0].records[0].verdict.flags.emplace_back(Flag::throttled); };
  EXPECT_EQ(statuses(check(rule, 1, 1, failed)), "violated");
  EXPECT_NE(check(rule, 1, 1, failed)[0].text.find("gpt2-tiny/float32 is failed"), std::string::npos);
  EXPECT_EQ(statuses(check(rule, 1, 1, missing)), "violated") << "what is gone has not passed";
  EXPECT_EQ(statuses(check(rule + R"(, "at_most": 1)", 1, 1, failed)), "kept");
  EXPECT_EQ(statuses(check(rule, 1, 1, unsupported)), "kept");
  EXPECT_EQ(statuses(check(rule, 1, 1, throttled)), "kept");
  EXPECT_EQ(statuses(check(rule + R"(, "flags": ["throttled"])", 1, 1, throttled)), "violated");
}

TEST(Baseline, WhatIsNotComparableIsNotChecked) {
  const auto other = [](SystemInput& s) { s.runs[0].records[0].workload.global_batch = 32; };
  const std::vector<RuleCheck> checks =
      check(R"("kind": "variance", "figure": "throughput", "most_below": 0.05)", 0.5, 1, other);
  EXPECT_EQ(statuses(checks), "not checked, kept");
  EXPECT_NE(checks[0].text.find("global batch"), std::string::npos);
}

const std::string speed_rule = R"("kind": "variance", "figure": "throughput", "most_below": 0.05)",
                  value_rule = R"("kind": "value", "figure": "throughput", "at_least": 80)",
                  plain_rule = R"("kind": "variance", "figure": "step-time-p99", "most_above": 0.1)",
                  failure_rule = R"("kind": "failure", "flags": ["throttled"])";

TEST(Baseline, WhatIsFaultyKeepsNoRule) {
  const auto forged = [](SystemInput& s) { s.faults = {"/records/0: forged"}; };
  for (const std::string& rule : {speed_rule, value_rule, plain_rule, failure_rule}) {
    const std::vector<RuleCheck> checks = check(rule, 1, 1, forged);
    EXPECT_EQ(statuses(checks), "not checked") << rule;
    EXPECT_NE(checks[0].text.find("/records/0: forged"), std::string::npos) << checks[0].text;
  }
  // The baseline's own faults are of all rules but those that are about the report alone.
  const auto of_baseline = [&](const std::string& rule) {
    std::vector<SystemInput> systems = {made_system("base", {made_record(one, before)}),
                                        made_system("new", {made_record(one, times_at(1.001))})};
    forged(systems[0]);
    return statuses(check_baseline(baseline_from_json(R"({"rules": [{"name": "r", )" + rule + "}]}"), systems,
                                   compare(systems, {})));
  };
  for (const std::string& rule : {speed_rule, plain_rule, failure_rule}) EXPECT_EQ(of_baseline(rule), "not checked");
  EXPECT_EQ(of_baseline(value_rule), "kept");
}

TEST(Baseline, EveryRunIsLookedAt) {
  const auto with_run = [](double speed, bool throttled) {
    return [speed, throttled](SystemInput& s) {
      Report other = made_report({made_record(one, times_at(speed)), second(made_record(two, times_at(1.002)))});
      other.context.started_at = "2026-03-02T10:00:00Z", other.context.finished_at = "2026-03-02T10:10:00Z";
      if (throttled) other.records[1].verdict.flags.emplace_back(Flag::throttled);
      s.runs.push_back(other);
    };
  };
  EXPECT_EQ(statuses(check(value_rule, 1, 1, with_run(0.99, false))), "kept, kept");
  const std::vector<RuleCheck> slow = check(value_rule, 1, 1, with_run(0.5, false));
  EXPECT_EQ(statuses(slow), "violated, kept");
  EXPECT_NE(slow[0].text.find("run 6: 50"), std::string::npos) << slow[0].text;
  EXPECT_EQ(statuses(check(plain_rule, 1, 1, with_run(0.4, false))), "violated, kept") << "of the mean over the runs";
  EXPECT_EQ(statuses(check(failure_rule, 1, 1, with_run(1.001, true))), "violated");
  const auto without = [](SystemInput& s) {
    Report other = made_report({second(made_record(two, times_at(1.002)))});
    s.runs.push_back(other);
  };
  EXPECT_EQ(statuses(check(value_rule, 1, 1, without)), "not checked, kept");
  EXPECT_EQ(statuses(check(plain_rule, 1, 1, without)), "not checked, kept");
  EXPECT_EQ(statuses(check(failure_rule, 1, 1, without)), "violated");
}

TEST(Baseline, WhatNoDeviceCanDoIsInNoRule) {
  const Verdict none = {Status::unsupported, {}, {"no such type"}};
  const auto of = [&](const std::string& rule, bool in_baseline, bool in_report) {
    std::vector<SystemInput> systems = {
        several("base", {made_record(one, before), second(made_record(two, before))}),
        several("new", {made_record(one, times_at(1.001)), second(made_record(two, times_at(1.001)))})};
    if (in_baseline)
      for (Report& run : systems[0].runs) run.records[1].verdict = none;
    if (in_report)
      for (Report& run : systems[1].runs) run.records[1].verdict = none;
    return statuses(check_baseline(baseline_from_json(R"({"rules": [{"name": "r", )" + rule + "}]}"), systems,
                                   compare(systems, {})));
  };
  EXPECT_EQ(of(speed_rule, true, true), "kept");
  EXPECT_EQ(of(speed_rule, true, false), "kept");
  EXPECT_EQ(of(speed_rule, false, true), "kept, not checked") << "what the baseline could, and this cannot";
  EXPECT_EQ(of(value_rule, true, true), "kept");
  EXPECT_EQ(of(value_rule, true, false), "kept, kept");
  EXPECT_EQ(of(value_rule, false, true), "kept, not checked");
}

TEST(Baseline, MistakesAreNamedWithTheirPlace) {
  const auto fault = [](const std::string& text) {
    try {
      baseline_from_json(text);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const auto rule = [&](const std::string& fields) { return fault(R"({"rules": [{)" + fields + "}]}"); };
  const std::pair<std::string, std::string> wrong[] = {
      {fault("rules"), "not JSON"},
      {fault("{}"), "rules"},
      {fault(R"({"rules": []})"), "/rules"},
      {rule(R"("name": "r")"), "/rules/0/kind"},
      {rule(R"("name": "r", "kind": "lambda")"), "variance, value or failure"},
      {rule(R"("name": "r", "kind": "variance", "figure": "throughput")"), "neither most_below nor most_above"},
      {rule(R"("name": "r", "kind": "variance", "figure": "speed", "most_below": 0.1)"), "known: throughput"},
      {rule(R"("name": "r", "kind": "variance", "figure": "throughput", "most_below": -0.1)"), "/rules/0"},
      {rule(R"("name": "r", "kind": "variance", "figure": "throughput", "at_most": 1)"),
       "is no key for a variance rule"},
      {rule(R"("name": "r", "kind": "value", "figure": "efficiency", "at_least": 1)"), "joules of which scope"},
      {rule(R"("name": "r", "kind": "value", "figure": "throughput", "scope": "node", "at_least": 1)"), "no joules"},
      {rule(R"("name": "r", "kind": "variance", "figure": "step-time-p99", "most_above": 1, "surely": true)"),
       "step-time-p99 has none"},
      {rule(R"("name": "r", "kind": "variance", "figure": "throughput", "most_below": 5)"), "0.05 for 5 %"},
      {rule(R"("name": "r", "kind": "failure", "flags": ["trottled"])"), "\"trottled\" is not a known flag"},
      {rule(R"("kind": "failure")"), "has no name"},
      {rule(R"("name": "r", "kind": "value", "figure": "throughput", "at_least": 2, "at_most": 1)"), "/rules/0"},
      {rule(R"("name": "r", "kind": "failure", "at_most": 0.5)"), "/rules/0"},
  };
  // One fault is one fault: nothing of the forms of other kinds.
  for (const auto& [said, what] :
       {std::pair(rule(R"("name": "r", "kind": "variance", "figure": "throughput", "most_below": "0.05")"),
                  "/rules/0/most_below: must be a number, not \"0.05\""),
        {rule(R"("name": "", "kind": "variance", "figure": "throughput", "most_below": 0.05)"),
         "/rules/0/name: is empty"},
        {rule(R"("name": "r", "kind": "value", "figure": "throughput", "at_least": 1, "points": "bf16")"),
         "/rules/0/points: must be an array, not \"bf16\""},
        {rule(R"("name": "r", "kind": "failure"}, {"name": "s", "kind": "failure", "at_most": -1)"),
         "/rules/1/at_most: must be at least 0, is -1"}}) {
    EXPECT_TRUE(said.starts_with(what)) << said;
    EXPECT_EQ(said.find(" more)"), std::string::npos) << said;
  }
  for (const auto& [said, word] : wrong) EXPECT_NE(said.find(word), std::string::npos) << said << " | " << word;
  EXPECT_EQ(fault(R"(/* weekly */ {"note": "n", "rules": [{"name": "r", "kind": "failure"}]} // end)"), "none");
}

TEST(Baseline, FiguresThatFollowFromTheSpeedDecideNothingOfOneRun) {
  for (const char* name : {"throughput", "flops", "step-time-p99"}) {
    const std::string rule =
        std::string(R"("kind": "variance", "figure": ")") + name + R"(", "most_below": 0.05, "most_above": 0.05)";
    const BaselineRules rules = baseline_from_json(R"({"rules": [{"name": "r", )" + rule + "}]}");
    const std::vector<SystemInput> once = {made_system("A", {made_record(one, times_at(1))}),
                                           made_system("B", {made_record(one, times_at(0.5))})};
    EXPECT_EQ(statuses(check_baseline(rules, once, compare(once, {}))), "undecided") << name;
    EXPECT_EQ(statuses(check(rule, 0.5, 0.5)), "violated, violated") << name;
  }
  EXPECT_EQ(compared_figure_of("flops"), "throughput");
  EXPECT_EQ(compared_figure_of("step-time-p99"), "");
}

}  // namespace
}  // namespace tw
