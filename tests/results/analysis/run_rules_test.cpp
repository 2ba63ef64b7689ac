#include "results/analysis/run_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "results/analysis/verdict.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using testing::sample_energy_report;
using testing::sample_target_report;

/// One record of three good windows with a sensor's power at 10 Hz, nothing set: keeps all that it can.
Report good_report() {
  Report report = sample_energy_report();
  Record& record = report.records.front();
  record.setting.clear();
  record.start = StartTemperature{50, 0};
  for (Trial& trial : record.trials) {
    SeriesRow series{"node1", "rapl:package-0", "power_w", {}, {}, {}, {}};
    for (double t = 0; t < trial.window_s; t += 0.5) {
      series.time_s.push_back(t);
      for (auto* values : {&series.minimum, &series.mean, &series.maximum}) values->push_back(100);
    }
    trial.series = {series};
  }
  record.verdict = {};
  summarise(record);
  return report;
}

RunRuleCheck check_of(const Report& report, const std::string& id) {
  for (const RunRuleCheck& check : check_run_rules(report))
    if (check.rule->id == id) return check;
  ADD_FAILURE() << id;
  return {};
}

/// After a change the rule is broken, and says `said`; before it was not.
void expect_broken(const std::string& id, const std::string& said, const std::function<void(Report&)>& change,
                   Report report = good_report()) {
  EXPECT_NE(check_of(report, id).state, RunRuleState::broken) << finding(check_of(report, id));
  change(report);
  const RunRuleCheck check = check_of(report, id);
  EXPECT_EQ(check.state, RunRuleState::broken) << id << ": " << said;
  ASSERT_FALSE(check.places.empty()) << id << ": " << said;
  EXPECT_NE(finding(check).find(said), std::string::npos) << finding(check);
  EXPECT_TRUE(check.reason.empty());
}

void expect_state(const Report& report, const std::string& id, RunRuleState state, const std::string& said) {
  const RunRuleCheck check = check_of(report, id);
  EXPECT_EQ(check.state, state) << id << ": " << finding(check);
  EXPECT_NE(finding(check).find(said), std::string::npos) << id << ": " << finding(check);
  EXPECT_TRUE(check.places.empty()) << id;
}

TEST(RunRules, AGoodReportKeepsAllThatItCanShow) {
  const std::vector<RunRuleCheck> checks = check_run_rules(good_report());
  ASSERT_EQ(checks.size(), run_rules().size());
  std::set<std::string> ids;
  for (const RunRuleCheck& check : checks) {
    EXPECT_TRUE(ids.insert(check.rule->id).second) << check.rule->id << " stands twice in the table";
    EXPECT_EQ(check.state, check.rule->id == "seeds" || check.rule->id == "own_gpus" || check.rule->id == "settings" ||
                                   check.rule->id == "restored"
                               ? RunRuleState::not_applicable
                               : RunRuleState::kept)
        << check.rule->id << ": " << finding(check);
    EXPECT_FALSE(check.reason.empty()) << check.rule->id;
  }
}

TEST(RunRules, NoFlagBreaksTwo) {
  std::set<Flag> flags;
  for (const RunRule& rule : run_rules())
    for (const RunRuleFlag& one : rule.flags) EXPECT_TRUE(flags.insert(one.flag).second) << to_string(one.flag);
}

TEST(RunRules, EachIsBrokenByWhatItNames) {
  const auto record = [](Report& report) -> Record& { return report.records.front(); };
  const auto flag = [&](Flag one) { return [&, one](Report& r) { record(r).verdict.flags.push_back(one); }; };
  expect_broken("window", "the shortest window lasts 2.0", [&](Report& r) {
    record(r).trials[1].window_s = 2;
    record(r).verdict.flags.push_back(Flag::short_window);
  });
  expect_broken("window", "by steps", flag(Flag::steps_given));
  expect_broken("trials", "fewer than 3", flag(Flag::few_trials));
  expect_broken("steady", "still changing", flag(Flag::not_steady));
  expect_broken("steady", "over the trials", flag(Flag::drift));
  expect_broken("throttling", "throttled", flag(Flag::throttled));
  expect_broken("settings", "did not take effect", flag(Flag::not_applied));
  expect_broken("settings", "could not be observed", flag(Flag::not_observed));
  expect_broken("complete", "has no record", [&](Report& r) { r.records.clear(); });
  expect_broken("complete", "failed: out of memory", [&](Report& r) {
    record(r).verdict = {Status::failed, {}, {"out of memory"}};
  });
  expect_broken("temperature", "began at 56", [&](Report& r) {
    r.records.push_back(record(r));
    r.records.back().start->temperature_c = 56;
  });
  expect_broken(
      "seeds", "is used again, first by",
      [&](Report& r) { r.records[0].trials[1].target_run->seed = r.records[0].trials[0].target_run->seed; },
      sample_target_report());
}

TEST(RunRules, RanksHaveGpusOfTheirOwn) {
  Report report = good_report();
  report.records.front().workload.device = "cuda";
  expect_state(report, "own_gpus", RunRuleState::kept, "no two ranks share a GPU");
  expect_broken(
      "own_gpus", "ranks share a GPU",
      [](Report& r) { r.records.front().verdict.flags.emplace_back(Flag::shared_gpu); }, report);
}

/// --seeds N counts; a list may be the luckiest of many.
TEST(RunRules, SeedsAreCountedOrFixedByAKit) {
  const auto with_seeds = [](const std::string& first, const std::string& second) {
    Report report = sample_target_report();
    std::string& plan = report.plan.canonical_json;
    plan.replace(plan.find("[4,5,6]"), 7, second);
    plan.replace(plan.find("[1,2,3]"), 7, first);
    return report;
  };
  for (const auto& [first, second] : {std::pair("[1,2,3]", "[4,5,6]"), {"[4,5,6]", "[1,2,3]"}, {"[1,2,3]", "[1,2,3]"}})
    expect_state(with_seeds(first, second), "seeds", RunRuleState::kept, "were counted");
  for (const auto& [first, second] : {std::pair("[1,2,17]", "[4,5,6]"),
                                      {"[1,2,3]", "[5,6,7]"},
                                      {"[3,2,1]", "[4,5,6]"},
                                      {"[2,3,4]", "[5,6,7]"},
                                      {"[1,3,5]", "[2,4,6]"}}) {
    Report chosen = with_seeds(first, second);
    const RunRuleCheck check = check_of(chosen, "seeds");
    EXPECT_EQ(check.state, RunRuleState::broken) << first << second;
    ASSERT_EQ(check.places.size(), 2u);
    EXPECT_NE(finding(check).find("chosen by hand"), std::string::npos) << finding(check);
    chosen.plan.kit = KitInfo{"Tender 7", std::string(64, 'a')};
    expect_state(chosen, "seeds", RunRuleState::kept, "the kit fixes");
  }
  Report shared = sample_target_report();  // points that train the same share their seeds
  for (std::size_t t = 0; t < 3; ++t) shared.records[1].trials[t].target_run->seed = t + 1;
  expect_state(shared, "seeds", RunRuleState::kept, "were counted");
  shared.plan.canonical_json.clear();
  expect_state(shared, "seeds", RunRuleState::not_checkable, "do not contain the plan");
}

TEST(RunRules, HolesInASeriesOfPower) {
  const auto series = [](Report& report) -> SeriesRow& { return report.records.front().trials[0].series[0]; };
  const auto erase = [&](Report& r, std::ptrdiff_t from, std::ptrdiff_t to) {
    SeriesRow& s = series(r);
    for (auto* values : {&s.time_s, &s.minimum, &s.mean, &s.maximum})
      values->erase(values->begin() + from, values->begin() + to);
  };
  expect_broken("sampling", "shows nothing for", [&](Report& r) { erase(r, 20, 30); });
  expect_broken("sampling", "shows nothing for", [&](Report& r) { erase(r, 0, 10); });
  expect_broken("sampling", "shows nothing for",
                [&](Report& r) { erase(r, 100, static_cast<std::ptrdiff_t>(series(r).time_s.size())); });
  expect_broken("sampling", "fewer than two",
                [&](Report& r) { erase(r, 1, static_cast<std::ptrdiff_t>(series(r).time_s.size())); });
  expect_broken("sampling", "not ascending", [&](Report& r) { series(r).time_s[3] = series(r).time_s[2]; });
  expect_broken("sampling", "not_covered", [&](Report& r) {
    EnergyRow& row = r.records.front().trials[0].energy[0];
    row.energy_j.reset(), row.reason = "not_covered";
  });
  Report temperature = good_report();  // of other quantities nothing is asked
  for (Trial& trial : temperature.records.front().trials)
    trial.series[0].quantity = "temperature_c", trial.series[0].time_s = {0};
  expect_state(temperature, "sampling", RunRuleState::not_checkable, "no series of power is in the report");
}

TEST(RunRules, StartEqualToStopIsNoMeasurement) {
  const auto row = [](Report& r) -> EnergyRow& { return r.records.front().trials[0].energy[0]; };
  expect_broken("energy", "start = stop", [&](Report& r) { row(r).energy_j = 0; });
  expect_broken("energy", "start = stop", [&](Report& r) { row(r).energy_j.reset(), row(r).reason = "not_updated"; });
  expect_broken("energy", "implausible", [&](Report& r) { row(r).reason = "implausible"; });
  expect_broken("energy", "reset", [&](Report& r) { row(r).energy_j.reset(), row(r).reason = "reset"; });
  expect_broken("energy", "stalled", [&](Report& r) { row(r).energy_j.reset(), row(r).reason = "stalled"; });
  Report none = good_report();
  for (Trial& trial : none.records.front().trials) trial.energy.clear();
  expect_state(none, "energy", RunRuleState::not_checkable, "no meter answered");
  expect_state(none, "one_reader", RunRuleState::not_applicable, "no meter's joules");
  expect_state(none, "uncertainty", RunRuleState::not_applicable, "no meter's joules");
}

TEST(RunRules, JoulesAreCountedOnceWithUncertaintyOrAbsentWithAReason) {
  const auto row = [](Report& r) -> EnergyRow& { return r.records.front().trials[1].energy[0]; };
  expect_broken("one_reader", "trial 2: rapl:package-0 on node1: counted twice",
                [&](Report& r) { r.records.front().trials[1].energy.push_back(row(r)); });
  expect_broken("one_reader", "counted twice", [&](Report& r) { row(r).reason = "contained"; });
  expect_broken("absence", "absent without a reason", [&](Report& r) { row(r).energy_j.reset(); });
  expect_broken("absence", "an estimate in a total", [&](Report& r) { row(r).method = Method::estimate; });
  expect_broken("uncertainty", "has none", [&](Report& r) { row(r).uncertainty_j.reset(); });
  Report left_out = good_report();
  row(left_out).counted = false, row(left_out).reason = "duplicate";
  expect_state(left_out, "one_reader", RunRuleState::kept, "left out of the totals: 4");
}

/// What a machine cannot do breaks no rule; what was measured in another state than asked for does.
TEST(RunRules, ARefusedSetPointIsNotCheckable) {
  Report report = good_report();
  Record refused = report.records.front();
  refused.id = "refused", refused.trials.clear();
  refused.setting["gpu_clock_mhz"].requested = SetPoint(1410);
  refused.verdict = {Status::unsupported, {}, {"gpu_clock_mhz 1410: no device has it"}};
  summarise(refused);
  ASSERT_EQ(refused.verdict.flags, std::vector<FlagName>{Flag::not_applied});
  report.records.push_back(refused);
  expect_state(report, "settings", RunRuleState::not_checkable,
               "1 point unsupported here (gpu_clock_mhz 1410: no device has it)");
  expect_state(report, "complete", RunRuleState::kept, "none failed");
  Report other = report;
  other.records.front().setting["gpu_clock_mhz"] = {1410, 1410, 1408, {{"node1", "nvml:GPU-1", 1410, 1408, ""}}};
  expect_state(other, "settings", RunRuleState::not_checkable, "; 1 had the requested value under load");
  expect_broken(
      "settings", "did not take effect", [](Report& r) { r.records.front().verdict.flags.emplace_back(Flag::not_applied); },
      report);
}

TEST(RunRules, WhatNoReportCanShowIsNotKept) {
  Report report = good_report();
  report.records.front().setting["gpu_clock_mhz"] = {1410, 1410, 1408, {{"node1", "nvml:GPU-1", 1410, 1408, ""}}};
  expect_state(report, "settings", RunRuleState::kept, "1 point had the requested value under load");
  expect_state(report, "restored", RunRuleState::not_checkable, "trainwatt restore");
  for (Trial& trial : report.records.front().trials) trial.counters.clear();
  expect_state(report, "throttling", RunRuleState::not_checkable, "no device counts");
  report.records.front().start.reset();
  expect_state(report, "temperature", RunRuleState::not_checkable, "no record has");
  report.records.front().workload.device = "command";
  expect_state(report, "random_input", RunRuleState::not_checkable, "is unknown: ");
  expect_state(report, "steady", RunRuleState::not_checkable, "a command");
  report.plan.canonical_json.clear();
  expect_state(report, "complete", RunRuleState::not_checkable, "unfinished");
  report.records.front().trials.clear();
  for (const char* id : {"window", "trials", "steady", "absence", "throttling", "random_input"})
    expect_state(report, id, RunRuleState::not_checkable, "no point ran");
}

TEST(RunRules, LongListsAndNamesAreCut) {
  Report report = good_report();
  Record& first = report.records.front();
  first.id = std::string(199, 'x') + "\xc3\xa9";  // cut before the letter, not in it
  for (Trial& trial : first.trials) trial.energy[0].energy_j = 0;
  for (int i = 0; i < 4; ++i) report.records.push_back(report.records.front());
  const RunRuleCheck check = check_of(report, "energy");
  ASSERT_EQ(check.places.size(), 5u) << "one a record";
  EXPECT_EQ(check.places[0].count, 3u);
  EXPECT_EQ(check.places[4].record, &report.records[4]);
  const std::string words = finding(check);
  EXPECT_TRUE(words.starts_with(std::string(199, 'x') + "…, trial 1: ")) << words;
  EXPECT_TRUE(words.ends_with("did not move (2 more there); and 2 more")) << words;
  EXPECT_EQ(finding_sentence(check), words + ".");
}

}  // namespace
}  // namespace tw
