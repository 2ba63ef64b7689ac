// What a search's outcome may claim, and which points lie on the front of speed against energy.
#include "results/search.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "results/choice.hpp"
#include "results/pareto.hpp"

namespace tw {
namespace {

Estimate figure(double value, double half = 0) {
  Estimate e;
  e.value = value, e.low = value - half, e.high = value + half;
  e.statistic = "mean", e.count = 3;
  return e;
}

Record record(const std::string& id, double speed, double per_joule, const char* status = "valid") {
  Record r;
  r.id = id;
  r.workload.model = "gpt2-tiny", r.workload.hash = "one";
  r.summary.samples_per_s = figure(speed, 0.03 * speed);
  r.summary.samples_per_j["device"] = figure(per_joule, 0.04 * per_joule);
  r.verdict.status = status;
  return r;
}

/// At the found settings, at three clocks of which one is too slow, and the two once more.
Report searched() {
  Report report;
  report.records = {record("w", 100, 1.0),          record("w/c=1900", 98, 1.1), record("w/c=1500", 96, 1.25),
                    record("w/c=900", 60, 1.5),     record("w/again", 101, 1.0), record("w/c=1500/again", 97, 1.2)};
  SearchOutcome outcome;
  outcome.workload = "w", outcome.merit = "energy", outcome.scope = "device", outcome.max_slowdown = 0.05;
  outcome.points = 20, outcome.measured = 3;
  outcome.found = "w/again", outcome.best = "w/c=1500/again";
  conclude(outcome, report.records);
  report.search.emplace().push_back(outcome);
  return report;
}
const SearchGoal goal{SearchMerit::energy, 0.05};

TEST(SearchOutcome, ItsRatiosAreOfWhatWasMeasuredOnceMore) {
  const Report report = searched();
  const SearchOutcome& outcome = report.search->front();
  ASSERT_TRUE(outcome.merit_ratio && outcome.speed_ratio);
  EXPECT_DOUBLE_EQ(outcome.merit_ratio->value, 1 / 1.2);
  EXPECT_DOUBLE_EQ(outcome.speed_ratio->value, 97.0 / 101);
  // 4 % of each in quadrature.
  EXPECT_NEAR(*outcome.merit_ratio->high - outcome.merit_ratio->value, outcome.merit_ratio->value * 0.04 * std::sqrt(2.0), 1e-12);
  EXPECT_EQ(search_faults(report, goal), std::vector<std::string>());
}

TEST(SearchOutcome, AClaimThatTheRecordsDoNotBearOutIsAFault) {
  const auto faults_of = [](auto change, SearchGoal asked = goal) {
    Report report = searched();
    change(report);
    return search_faults(report, asked).size();
  };
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().measured = 2; }), 1u);
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().merit_ratio->value = 0.5; }), 1u);
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().speed_ratio->low = 0.99; }), 1u);
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().best = "w/c=1900/again"; }), 3u) << "and has no record";
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().best.clear(); }), 3u) << "a better setting was measured";
  EXPECT_EQ(faults_of([](Report& r) { r.records[2].verdict.status = "invalid"; }), 1u) << "what does not count is not the best";
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().reason = "x"; }), 1u);
  EXPECT_EQ(faults_of([](Report&) {}, {SearchMerit::edp, 0.05}), 1u) << "another merit than the plan's";
  EXPECT_EQ(faults_of([](Report&) {}, {SearchMerit::energy, 0.5}), 1u) << "more slowdown than the plan allows";
}

TEST(SearchOutcome, MeritsAreOfASample) {
  const Record r = record("w", 50, 0.25);
  EXPECT_DOUBLE_EQ(merit_of(r, {SearchMerit::energy}, "device")->value, 4);
  EXPECT_DOUBLE_EQ(merit_of(r, {SearchMerit::edp}, "device")->value, 4 * 0.02);
  EXPECT_NEAR(*merit_of(r, {SearchMerit::edp}, "device")->high, 0.08 * (1 + 0.05), 1e-12) << "3 % and 4 % in quadrature";
  // 3600 an hour is 1 a second; 3.6e6 a kWh is 1 a joule.
  EXPECT_DOUBLE_EQ(merit_of(r, {SearchMerit::cost, 0, 3600, 3.6e6}, "device")->value, 0.02 + 4);
  EXPECT_FALSE(merit_of(r, goal, "package"));
  EXPECT_FALSE(merit_of(record("w", 50, 0.25, "invalid"), goal, "device"));
}

TEST(ParetoFront, HoldsWhatNothingBeatsInBoth) {
  Report report;
  report.records = {record("a", 100, 1.0), record("slow", 70, 1.1), record("b", 90, 1.6), record("c", 60, 1.8),
                    record("worse", 89, 1.5), record("bad", 200, 9, "invalid"), record("a/again", 300, 9)};
  const std::vector<Front> fronts = pareto_fronts(report);
  ASSERT_EQ(fronts.size(), 1u);
  EXPECT_EQ(fronts[0].records, (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_EQ(fronts[0].others, 2u);
  EXPECT_EQ(fronts[0].knee, 1u);
  const std::string text = front_text(report, {false, 100});
  EXPECT_NE(text.find("knee"), std::string::npos) << text;
  EXPECT_EQ(text.find("worse"), std::string::npos) << text;
}

TEST(ParetoFront, WorkloadsAndScopesAreApart) {
  Report report;
  report.records = {record("a", 100, 1.0), record("b", 90, 1.6), record("c", 60, 1.8), record("d", 50, 2)};
  report.records[2].workload.hash = report.records[3].workload.hash = "two";
  EXPECT_EQ(pareto_fronts(report).size(), 2u);
  report.records[3].summary.samples_per_j.clear();
  EXPECT_EQ(pareto_fronts(report).size(), 1u) << "one point is no front";
}

TEST(ParetoFront, AnInwardBendHasNoKnee) {
  Report report;
  report.records = {record("a", 100, 1.0), record("b", 60, 1.1), record("c", 50, 2)};
  ASSERT_EQ(pareto_fronts(report).size(), 1u);
  EXPECT_FALSE(pareto_fronts(report)[0].knee);
}

}  // namespace
}  // namespace tw
