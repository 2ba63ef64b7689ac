// Rules for regression checks: what is kept, what is violated, what could not be checked, and what is no rule.
#include "results/baseline.hpp"

#include <gtest/gtest.h>

#include "tests/results/made_reports.hpp"

namespace tw {
namespace {

using namespace testing;

const std::vector<double> before = {100, 101, 99, 100.5, 99.5};
constexpr const char *one = "gpt2-tiny/bf16", *two = "gpt2-tiny/float32";

Record second(Record record) {
  record.id = two, record.workload.precision = "float32";
  return record;
}
std::vector<double> times(double factor) {
  std::vector<double> values = before;
  for (double& v : values) v *= factor;
  return values;
}

/// Of a new report whose two points run at these shares of the baseline's speed.
std::vector<RuleCheck> check(const std::string& rule, double first, double other,
                             void (*change)(SystemInput&) = nullptr) {
  std::vector<SystemInput> systems = {
      made_system("base", {made_record(one, before), second(made_record(two, before))}),
      made_system("new", {made_record(one, times(first)), second(made_record(two, times(other)))})};
  if (change != nullptr) change(systems[1]);
  CompareOptions options;
  options.also = {"efficiency"};
  return check_baseline(baseline_from_json(R"({"rules": [{"name": "r", )" + rule + "}]}"), systems,
                        compare(systems, options));
}
std::string statuses(const std::vector<RuleCheck>& checks) {
  std::string all;
  for (const RuleCheck& c : checks) all += (all.empty() ? "" : ", ") + c.status;
  return all;
}

TEST(Baseline, Variance) {
  const std::string rule = R"("kind": "variance", "figure": "throughput", "most_below": 0.05)";
  EXPECT_EQ(statuses(check(rule, 1, 1)), "kept, kept");
  EXPECT_EQ(statuses(check(rule, 0.9, 2)), "violated, kept") << "faster is no regression";
  EXPECT_EQ(statuses(check(rule + R"(, "most_above": 0.5)", 0.9, 2)), "violated, violated");
  const std::vector<RuleCheck> checks = check(rule, 0.9, 1);
  EXPECT_EQ(checks[0].point, one);
  EXPECT_NE(checks[0].text.find("-10.0 % (allowed: -5.00 %); the interval"), std::string::npos) << checks[0].text;
  EXPECT_NE(checks[0].text.find("bears it out"), std::string::npos) << checks[0].text;
}

TEST(Baseline, SurelyTakesTheWholeInterval) {
  const std::string rule = R"("kind": "variance", "figure": "throughput", "most_below": 0.05)";
  const std::vector<RuleCheck> near = check(rule, 0.948, 1);
  EXPECT_EQ(near[0].status, "violated");
  EXPECT_NE(near[0].text.find("does not bear it out"), std::string::npos) << near[0].text;
  EXPECT_EQ(statuses(check(rule + R"(, "surely": true)", 0.948, 0.9)), "kept, violated");
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
}

TEST(Baseline, Failure) {
  const std::string rule = R"("kind": "failure")";
  EXPECT_EQ(statuses(check(rule, 1, 1)), "kept");
  const auto failed = [](SystemInput& s) { s.runs[0].records[1].verdict = {"failed", {}, {"rank 1 died"}}; };
  const auto missing = [](SystemInput& s) { s.runs[0].records.pop_back(); };
  const auto unsupported = [](SystemInput& s) { s.runs[0].records[1].verdict = {"unsupported", {}, {"no such type"}}; };
  const auto throttled = [](SystemInput& s) { s.runs[0].records[0].verdict.flags.emplace_back("throttled"); };
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
       "is no key of a variance rule"},
      {rule(R"("name": "r", "kind": "value", "figure": "efficiency", "at_least": 1)"), "joules of which scope"},
      {rule(R"("name": "r", "kind": "value", "figure": "throughput", "scope": "node", "at_least": 1)"), "no joules"},
      {rule(R"("kind": "failure")"), "has no name"},
      {rule(R"("name": "r", "kind": "failure", "at_most": 0.5)"), "/rules/0"},
  };
  for (const auto& [said, word] : wrong) EXPECT_NE(said.find(word), std::string::npos) << said << " | " << word;
  EXPECT_EQ(fault(R"(/* weekly */ {"note": "n", "rules": [{"name": "r", "kind": "failure"}]} // end)"), "none");
}

}  // namespace
}  // namespace tw
