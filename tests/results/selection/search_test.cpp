// What a search's outcome may claim, and which points lie on the front of speed against energy.
#include "results/selection/search.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "results/analysis/statistics.hpp"
#include "results/analysis/trials.hpp"
#include "results/analysis/verdict.hpp"
#include "results/selection/pareto.hpp"
#include "results/terminal/choice.hpp"

namespace tw {

using namespace results;

namespace {

/// Three trials of ten steps around these samples/s and samples/J. Each trial's time scatters by 3 %, and with it its speed;
/// the power is the same in all, so that joules and speed do not scatter on their own.
Record point(const std::string& id, double speed, double per_joule, Status status = Status::valid,
              double scatter = 0.03, const std::vector<Scope>& scopes = {Scope::device}) {
  Record r;
  r.id = id;
  r.workload.model = "gpt2-tiny", r.workload.hash = "one", r.workload.device = "cuda";
  r.workload.global_batch = 10;
  for (const double off : {-scatter, 0., scatter}) {
    Trial& trial = r.trials.emplace_back();
    trial.window_s = 100 / speed / (1 + off);
    trial.step_time_s.assign(10, trial.window_s / 10);
    trial.loss.assign(10, 1);
    for (const Scope scope : scopes) {
      EnergyRow& row = trial.energy.emplace_back();
      row.scope = scope, row.domain = to_string(scope) + std::string(":0"), row.host = "node",
      row.method = Method::counter;
      row.energy_j = 100 / per_joule / (1 + off);
      row.uncertainty_j = 0;
    }
  }
  if (id.find("c=") != std::string::npos) r.setting["gpu_clock_mhz"].requested = SetPoint(1000);
  summarise(r);
  r.verdict = {};
  r.verdict.status = status;
  return r;
}

/// At the found settings, at three clocks of which one is too slow, one that was refused, and the two once more.
Report searched(double again_speed = 97, double again_per_joule = 1.2, double scatter = 0.06) {
  Report report;
  report.records = {point("w", 100, 1.0),         point("w/c=1900", 98, 1.1),
                    point("w/c=1500", 96, 1.25),  point("w/c=900", 60, 1.5),
                    point("w/c=901", 1, 1),       point("w/again", 101, 1.0, Status::valid, scatter),
                    point("w/c=1500/again", again_speed, again_per_joule, Status::valid, scatter)};
  report.records[4].trials.clear();
  report.records[4].summary = {};
  report.records[4].verdict.status = Status::unsupported;
  SearchOutcome outcome;
  outcome.workload = "w", outcome.merit = SearchMerit::energy, outcome.scope = Scope::device,
  outcome.max_slowdown = 0.05;
  outcome.points = 20, outcome.measured = 3, outcome.refused = 1;
  outcome.found = "w/again", outcome.best = "w/c=1500/again";
  conclude(outcome, report.records);
  report.search.emplace().push_back(outcome);
  return report;
}
const SearchGoal goal{SearchMerit::energy, 0.05};

std::string text_of(const Report& report) { return search_text(report, {false, 1000}); }
bool says(const Report& report, const char* part) { return text_of(report).find(part) != std::string::npos; }

TEST(SearchOutcome, ItsRatiosAreOfWhatWasMeasuredOnceMore) {
  const Report report = searched();
  const SearchOutcome& outcome = report.search->front();
  ASSERT_TRUE(outcome.merit_ratio && outcome.speed_ratio);
  EXPECT_NEAR(outcome.merit_ratio->value, 1 / 1.2, 1e-12);
  EXPECT_NEAR(outcome.speed_ratio->value, 97.0 / 101, 1e-12);
  EXPECT_EQ(outcome.reason, "the repeated measurement shows no difference from the found settings")
      << "6 % of 3 trials, twice";
  EXPECT_TRUE(search_faults(report, goal).empty());
}

TEST(SearchOutcome, OnlyWhatIsBorneOutIsClaimed) {
  const Report better = searched(97, 1.2, 0.001);
  EXPECT_EQ(better.search->front().reason, "");
  EXPECT_EQ(text_of(better).rfind("  w/c=1500: device energy per sample -16.7 % (", 0), 0u) << text_of(better);
  EXPECT_TRUE(says(better, "were measured again")) << text_of(better);
  EXPECT_TRUE(says(better, "3 of 20 settings were measured, 1 were refused, 16 were not: ")) << text_of(better);
  EXPECT_TRUE(search_faults(better, goal).empty());

  const Report slow = searched(80, 1.2, 0.01);
  EXPECT_EQ(slow.search->front().reason, "in the repeated measurement it is slower by 20.8 % (allowed: 5.00 %)");
  // 96.0 % of the speed, known to 3.5 %: within the 5 % by its mean alone.
  const Report perhaps = searched(97, 1.2, 0.01);
  EXPECT_EQ(perhaps.search->front().reason,
            "the repeated measurement does not show that its slowdown is within 5.00 %: it may be 7.28 %");
  const Report worse = searched(97, 0.8, 0.01);
  EXPECT_EQ(worse.search->front().reason, "in the repeated measurement it is worse than the found settings");
  const Report unclear = searched(97, 1.01, 0.01);
  EXPECT_EQ(unclear.search->front().reason, "the repeated measurement shows no difference from the found settings");
  Report few = searched(97, 1.2, 0.01);
  for (Record& one : few.records) {
    if (one.trials.size() > 2) one.trials.resize(2);
    if (const Verdict kept = one.verdict; !one.trials.empty()) summarise(one), one.verdict = kept;
  }
  conclude(few.search->front(), few.records);
  EXPECT_TRUE(again_without_interval.is(few.search->front().reason));
  for (const Report& report : {slow, perhaps, worse, unclear, few}) {
    EXPECT_TRUE(says(report, "no better setting is shown")) << text_of(report);
    EXPECT_TRUE(search_faults(report, goal).empty());
  }
}

/// Each reason of an earlier version is the same as this version's, and as no other.
TEST(SearchOutcome, AReasonIsKnownInItsEarlierWords) {
  Report report = searched(97, 1.2, 0.01);
  for (Record& record : report.records)
    if (record.trials.size() > 2) record.trials.resize(2);
  SearchOutcome& outcome = report.search->front();
  conclude(outcome, report.records);
  const auto faults_with = [&](std::string_view reason) {
    outcome.reason = reason;
    std::size_t reasons = 0;
    for (const Fault& fault : search_faults(report, goal)) reasons += fault.where.ends_with("/reason");
    return reasons;
  };
  EXPECT_EQ(faults_with("below 3 trials there is no interval that could show a difference"), 0u);
  EXPECT_EQ(faults_with(again_without_interval.text()), 0u);
  EXPECT_EQ(faults_with(again_worse.text()), 1u);
  EXPECT_EQ(faults_with("too few trials"), 1u);
  EXPECT_EQ(faults_with(""), 1u);
}

TEST(SearchOutcome, WithoutABetterOneNothingWasMeasuredOnceMore) {
  Report report = searched();
  SearchOutcome& outcome = report.search->front();
  report.records = {point("w", 100, 1.0), point("w/c=900", 60, 1.5)};
  outcome.best.clear(), outcome.found.clear(), outcome.reason = "none", outcome.measured = 1, outcome.refused = 0;
  conclude(outcome, report.records);
  EXPECT_EQ(text_of(report).find("once more"), std::string::npos) << text_of(report);
  EXPECT_TRUE(search_faults(report, goal).empty());
}

TEST(SearchOutcome, OfSeveralSettingsNoMoreIsClaimedThanWasLookedAt) {
  Report report = searched();
  EXPECT_TRUE(says(report, "if there is a single minimum along the setting")) << text_of(report);
  report.records[1].setting["gpu_power_limit_w"].requested = SetPoint(300);
  EXPECT_FALSE(says(report, "if there is a single minimum")) << text_of(report);
  EXPECT_TRUE(says(report, "no neighbour of the best one is better; settings farther away may be")) << text_of(report);
}

TEST(SearchOutcome, AClaimThatTheRecordsDoNotBearOutIsAFault) {
  const auto faults_of = [](auto change, SearchGoal asked = goal) {
    Report report = searched(97, 1.2, 0.001);
    change(report);
    return search_faults(report, asked).size();
  };
  EXPECT_EQ(faults_of([](Report&) {}), 0u);
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().measured = 2; }), 1u);
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().refused = 0; }), 1u);
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().merit_ratio->value = 0.5; }), 1u);
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().speed_ratio->low = 0.99; }), 1u);
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().best = "w/c=1900/again"; }), 3u) << "and has no record";
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().best.clear(); }), 4u) << "a better setting was measured";
  EXPECT_EQ(faults_of([](Report& r) { r.records[2].verdict.status = Status::invalid; }), 1u) << "what does not count is not the best";
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().reason = "x"; }), 1u);
  EXPECT_EQ(faults_of([](Report& r) { r.search->front().reason = again_worse.text(); }), 1u);
  EXPECT_EQ(faults_of([](Report& r) { r.records[0].workload.device = "cpu"; }), 1u) << "a GPU's joules of a CPU's training";
  EXPECT_EQ(faults_of([](Report&) {}, {SearchMerit::edp, 0.05}), 1u) << "another merit than the plan's";
  EXPECT_EQ(faults_of([](Report&) {}, {SearchMerit::energy, 0.5}), 1u) << "more slowdown than the plan allows";
}

TEST(SearchOutcome, MeritsAreOfASample) {
  const Record r = point("w", 50, 0.25, Status::valid, 0);
  EXPECT_NEAR(merit_of(r, {SearchMerit::energy}, Scope::device)->value, 4, 1e-12);
  EXPECT_NEAR(merit_of(r, {SearchMerit::edp}, Scope::device)->value, 4 * 0.02, 1e-12);
  // 3600 an hour is 1 a second; 3.6e6 a kWh is 1 a joule.
  EXPECT_NEAR(merit_of(r, {SearchMerit::cost, 0, 3600, 3.6e6}, Scope::device)->value, 0.02 + 4, 1e-12);
  EXPECT_FALSE(merit_of(r, goal, Scope::package));
  EXPECT_FALSE(merit_of(point("w", 50, 0.25, Status::invalid), goal, Scope::device));
}

// Joules and seconds scatter together where only the time does: the product scatters by twice as much, not by √2.
TEST(SearchOutcome, WhatScattersTogetherIsNotTakenForIndependent) {
  const Record r = point("w", 50, 0.25);
  std::vector<double> products;
  for (const Trial& trial : r.trials) products.push_back(joules_of(trial, Scope::device) / 100 * trial.window_s / 100);
  const Estimate expected = estimate(products), edp = *merit_of(r, {SearchMerit::edp}, Scope::device);
  EXPECT_DOUBLE_EQ(edp.value, expected.value);
  EXPECT_DOUBLE_EQ(*edp.high, *expected.high);
  const Estimate energy = *merit_of(r, {SearchMerit::energy}, Scope::device);
  EXPECT_NEAR((*edp.high - edp.value) / edp.value, 2 * (*energy.high - energy.value) / energy.value, 0.01);
  Record uncertain = r;
  for (Trial& trial : uncertain.trials) trial.energy[0].uncertainty_j = 0.05 * *trial.energy[0].energy_j;
  const Estimate wider = *merit_of(uncertain, {SearchMerit::edp}, Scope::device);
  EXPECT_NEAR(*wider.high - wider.value, std::hypot(*edp.high - edp.value, 0.05 * edp.value), 1e-12);
}

TEST(SearchScope, IsOfWhatTrainsAndOfWhatIsSet) {
  Record gpu = point("w", 50, 0.25, Status::valid, 0, {Scope::device, Scope::package, Scope::node});
  EXPECT_EQ(search_scope(gpu, {"gpu_clock_mhz"}), Scope::node) << "which holds both";
  gpu = point("w", 50, 0.25, Status::valid, 0, {Scope::device, Scope::package});
  EXPECT_EQ(search_scope(gpu, {"gpu_clock_mhz"}), Scope::device);
  EXPECT_EQ(search_scope(gpu, {"gpu_clock_mhz", "cpu_frequency_mhz"}), Scope::none) << "neither alone holds both";
  Record cpu = gpu;
  cpu.workload.device = "cpu";
  EXPECT_EQ(search_scope(cpu, {"cpu_power_limit_w"}), Scope::package) << "whatever an idle GPU draws";
  EXPECT_EQ(search_scope(cpu, {"gpu_clock_mhz"}), Scope::none);
}

TEST(ParetoFront, IsOfWhatTrainsAndOfWhatIsSet) {
  const std::vector<Scope> both = {Scope::device, Scope::package};
  Report report;
  report.records = {point("a", 100, 1.0, Status::valid, 0, both), point("b", 90, 1.6, Status::valid, 0, both)};
  EXPECT_EQ(pareto_fronts(report).at(0).scope, Scope::device);
  for (Record& one : report.records) one.workload.device = "cpu";
  EXPECT_EQ(pareto_fronts(report).at(0).scope, Scope::package);
  report.records[1].workload.device = "cuda";
  EXPECT_TRUE(pareto_fronts(report).empty()) << "a CPU's joules against a GPU's";
}

TEST(ParetoFront, HoldsWhatNothingBeatsInBoth) {
  Report report;
  const auto sharp = [](const char* id, double speed, double per_joule) {
    return point(id, speed, per_joule, Status::valid, 0.001);
  };
  report.records = {sharp("a", 100, 1.0), sharp("slow", 70, 1.1), sharp("b", 90, 1.6), sharp("c", 60, 1.8),
                    sharp("worse", 89, 1.5), point("bad", 200, 9, Status::invalid), point("a/again", 300, 9)};
  const std::vector<Front> fronts = pareto_fronts(report);
  ASSERT_EQ(fronts.size(), 1u);
  EXPECT_EQ(fronts[0].records, (std::vector<std::size_t>{0, 2, 3}));
  EXPECT_EQ(fronts[0].others, 2u);
  EXPECT_EQ(fronts[0].knee, 1u);
  const std::string text = front_text(report, {false, 100});
  EXPECT_NE(text.find("knee"), std::string::npos) << text;
  EXPECT_EQ(text.find("worse"), std::string::npos) << text;
}

TEST(ParetoFront, WhatTheIntervalsDoNotTellApartIsNotBeaten) {
  Report report;
  report.records = {point("a", 92.4, 1.0), point("b", 91.1, 0.99), point("slow", 20, 0.3)};
  report.records[1].summary.samples_per_s->low = 40, report.records[1].summary.samples_per_s->high = 142;
  const Front front = pareto_fronts(report).at(0);
  EXPECT_EQ(front.records, (std::vector<std::size_t>{0}));
  EXPECT_EQ(front.alike, (std::vector<std::size_t>{1}));
  EXPECT_EQ(front.others, 1u);
  const std::string text = front_text(report, {false, 100});
  EXPECT_NE(text.find("1 more point is beaten in both"), std::string::npos) << text;
  EXPECT_NE(text.find("not distinguishable from these by their intervals: b\n"), std::string::npos) << text;
}

TEST(ParetoFront, PointsWithoutItsJoulesAreCounted) {
  Report report;
  report.records = {point("a", 100, 1.0), point("b", 90, 1.6), point("dark", 300, 3), point("zero", 300, 3)};
  EXPECT_EQ(pareto_fronts(report).at(0).without, 0u);
  report.records[2].summary.samples_per_j.clear();
  for (auto& [scope, figure] : report.records[3].summary.samples_per_j) figure->value = 0;
  const std::vector<Front> fronts = pareto_fronts(report);
  ASSERT_EQ(fronts.size(), 1u);
  EXPECT_EQ(fronts[0].records, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(fronts[0].without, 2u);
  EXPECT_NE(front_text(report, {false, 200})
                .find(std::string("2 have no ") + to_string(fronts[0].scope) + " joules and are left out"),
            std::string::npos)
      << front_text(report, {false, 200});
}

TEST(ParetoFront, WorkloadsAndScopesAreApart) {
  Report report;
  report.records = {point("a", 100, 1.0), point("b", 90, 1.6), point("c", 60, 1.8), point("d", 50, 2)};
  report.records[2].workload.hash = report.records[3].workload.hash = "two";
  EXPECT_EQ(pareto_fronts(report).size(), 2u);
  report.records[3].summary.samples_per_j.clear();
  EXPECT_EQ(pareto_fronts(report).size(), 1u) << "one point is no front";
}

TEST(ParetoFront, OnlyTheSameBatchIsHeldAgainstEachOtherAndNoRunToATargetAgainstOneForATime) {
  Report report;
  report.records = {point("a", 100, 1.0), point("b", 90, 1.6), point("larger", 200, 3)};
  report.records[2].workload.global_batch = 80;
  ASSERT_EQ(pareto_fronts(report).size(), 1u);
  EXPECT_EQ(pareto_fronts(report)[0].records, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(front_text(report, {false, 100}).find("may not train alike"), std::string::npos);
  report.records[0].workload.precision = "bf16", report.records[1].workload.precision = "float32";
  EXPECT_NE(front_text(report, {false, 100}).find("of bf16 and float32, which may not train alike"), std::string::npos);
  report.records[0].target.emplace();
  EXPECT_TRUE(pareto_fronts(report).empty());
}

/// Three runs to a target, whose time and joules trade against each other with a bend at the second.
Report report_to_target() {
  Report report;
  for (const auto& [seconds, joules] : {std::pair{10.0, 100.0}, {12.0, 50.0}, {20.0, 40.0}, {21.0, 41.0}}) {
    Record& one = report.records.emplace_back(point("r" + std::to_string(report.records.size()), 1, 1));
    one.target.emplace();
    one.target->metric = TargetMetric::excess_loss, one.target->value = 0.1;
    ToTarget& reached = one.summary.to_target.emplace();
    const auto sharp = [](double v) { return Estimate{v, 0.99 * v, 1.01 * v, Statistic::mean, 5}; };
    reached.time_s = sharp(seconds), reached.energy_j[Scope::device] = sharp(joules);
  }
  return report;
}

TEST(ParetoFront, OfRunsToATargetIsTimeAgainstJoules) {
  const Report report = report_to_target();
  const std::vector<Front> fronts = pareto_fronts(report);
  ASSERT_EQ(fronts.size(), 1u);
  EXPECT_TRUE(fronts[0].to_target);
  EXPECT_EQ(fronts[0].records, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(fronts[0].others, 1u);
  EXPECT_EQ(fronts[0].knee, 1u);
  EXPECT_TRUE(fronts[0].costs.empty()) << "no prices";
  const std::string text = front_text(report, {false, 100});
  EXPECT_NE(text.find("to excess_loss 0.1, time against device joules"), std::string::npos) << text;
  EXPECT_EQ(text.find("cost"), std::string::npos) << text;
}

TEST(ParetoFront, HasACostWherePricesAreGivenAndNamesTheCheapest) {
  const auto cheapest = [](Report report, const JobPrices& prices) {
    for (Record& one : report.records) one.prices = prices;
    const Front front = pareto_fronts(report).at(0);
    EXPECT_EQ(front.costs.size(), front.records.size());
    EXPECT_NE(front_text(report, {false, 100}).find("cheapest"), std::string::npos);
    return front.cheapest.value();
  };
  EXPECT_EQ(cheapest(report_to_target(), {3600, 0}), 0u) << "hours alone: the fastest";
  EXPECT_EQ(cheapest(report_to_target(), {0, 3.6e6}), 2u) << "joules alone: the leanest";
  EXPECT_EQ(cheapest(report_to_target(), {3600, 0.36e6}), 1u) << "20, 17 and 24";
  Report report;
  report.records = {point("a", 100, 1.0, Status::valid, 0.001), point("b", 90, 1.6, Status::valid, 0.001),
                    point("c", 60, 1.8, Status::valid, 0.001)};
  EXPECT_EQ(cheapest(report, {3600, 0}), 0u);
  EXPECT_EQ(cheapest(report, {0, 3.6e6}), 2u);
  for (Record& one : report.records) one.prices = JobPrices{3600, 0};
  report.records[1].summary.samples_per_s->high = 101;
  EXPECT_FALSE(pareto_fronts(report)[0].cheapest) << "b may be as fast";
  EXPECT_EQ(front_text(report, {false, 100}).find("cheapest"), std::string::npos);
  report.records[0].prices = JobPrices{1, 1};
  EXPECT_TRUE(pareto_fronts(report)[0].costs.empty()) << "not all at the same prices";
}

TEST(ParetoFront, AnInwardBendHasNoKnee) {
  Report report;
  report.records = {point("a", 100, 1.0), point("b", 60, 1.1), point("c", 50, 2)};
  ASSERT_EQ(pareto_fronts(report).size(), 1u);
  EXPECT_FALSE(pareto_fronts(report)[0].knee);
}

TwoFigures figures(double first, double second, std::optional<double> half = {}) {
  const auto of = [&](double v) {
    return half ? Estimate{v, v - *half, v + *half, Statistic::mean, 5} : Estimate{v, {}, {}, Statistic::single, 1};
  };
  return {of(first), of(second)};
}

TEST(TradeOff, KeepsWhatNoneReachesInBothAndFindsTheKnee) {
  const TradeOff found =
      trade_off({figures(50, 5), figures(100, 1), figures(60, 4), figures(95, 3.5), figures(100, 0.5)});
  EXPECT_EQ(found.front, (std::vector<std::size_t>{1, 3, 2, 0}));
  EXPECT_EQ(found.knee, std::optional<std::size_t>(1));
  EXPECT_EQ(trade_off({figures(1, 1)}).front.size(), 1u);
  EXPECT_FALSE(trade_off({figures(2, 1), figures(1, 2)}).knee);
  EXPECT_TRUE(trade_off({}).front.empty());
}

TEST(TradeOff, OnlyIntervalsShowThatAPointIsBeaten) {
  using Places = std::vector<std::size_t>;
  EXPECT_EQ(trade_off({figures(10, 10), figures(8, 8)}).alike, Places{1}) << "no interval shows anything";
  EXPECT_EQ(trade_off({figures(10, 10, 1.5), figures(8, 8, 1.5)}).alike, Places{1});
  EXPECT_EQ(trade_off({figures(10, 10, 0.5), figures(8, 8, 0.5)}).alike, Places{});
  EXPECT_EQ(trade_off({figures(10, 10, 0.5), figures(8, 9.8, 0.5)}).alike, Places{1}) << "beaten in one";
  EXPECT_EQ(trade_off({figures(11, 11, 9), figures(10, 10, 0.5), figures(8, 8, 0.5)}).alike, Places{1})
      << "the third is beaten by a point that is on no front";
}

}  // namespace
}  // namespace tw
