// Trials that stand out, figures that move; and that what has failed enters no mean.
#include "results/analysis/conditions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "results/analysis/verdict.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

/// Trials of 40 steps in windows of these lengths.
Record with_windows(const std::vector<double>& windows) {
  Record r = sample_record();
  r.trials.clear();
  for (const double window : windows) r.trials.push_back(sample_trial(40, window / 40.4, window));
  summarise(r);
  return r;
}
std::vector<std::string> said(const Record& r) {
  std::vector<std::string> lines;
  for (const Instability& one : find_instability(r)) lines.push_back(to_string(one.flag) + (": " + one.text));
  return lines;
}

TEST(Stability, GoodTrialsHaveNoFlag) {
  for (Record r : {sample_record(), sample_record_with_energy(), sample_target_record()}) {
    summarise(r);
    EXPECT_TRUE(find_instability(r).empty()) << r.id;
    EXPECT_FALSE(has(r, "outlier") || has(r, "drift"));
  }
}

TEST(Stability, AnOutlierIsFlaggedAndKept) {
  const Record r = with_windows({60, 61, 60.2, 60.6, 80, 60.4});
  EXPECT_TRUE(has(r, "outlier"));
  EXPECT_EQ(r.verdict.status, Status::valid);
  EXPECT_EQ(r.summary.samples_per_s->count, 6) << "never dropped";
  EXPECT_NEAR(r.summary.samples_per_s->value,
              64 * 40 * (1 / 60.0 + 1 / 61.0 + 1 / 60.2 + 1 / 60.6 + 1 / 80.0 + 1 / 60.4) / 6, 1e-9);
  EXPECT_EQ(said(r), std::vector<std::string>{"outlier: trial 5: 32.0 samples/s, 24 % below the others"});
  Record again = r;
  summarise(again);
  EXPECT_EQ(again.verdict.flags, r.verdict.flags);
  again.trials.erase(again.trials.begin() + 4);
  summarise(again);
  EXPECT_FALSE(has(again, "outlier")) << "withdrawn";
}

TEST(Stability, ThreeTrialsOfANoisyMachineAreNoWolf) {
  EXPECT_FALSE(has(with_windows({60, 63, 71}), "outlier"));
  EXPECT_FALSE(has(with_windows({60, 60.5, 64}), "outlier"));
  EXPECT_TRUE(has(with_windows({60, 60.001, 64}), "outlier"));
}

TEST(Stability, JoulesHaveOutliersOfTheirOwn) {
  Record r = sample_record_with_energy();
  for (int i = 0; i < 3; ++i) r.trials.push_back(r.trials[0]);
  for (std::size_t i = 0; i < r.trials.size(); ++i)  // a package of many joules; the spread of a meter
    r.trials[i].energy[1].energy_j = 6000 + 2 * static_cast<double>(i % 3) + (i == 1 ? 4000 : 0);
  summarise(r);
  EXPECT_TRUE(has(r, "outlier"));
  ASSERT_EQ(said(r).size(), 1u);
  EXPECT_NE(said(r)[0].find("trial 2: 0."), std::string::npos) << said(r)[0];
  EXPECT_NE(said(r)[0].find("samples/J (package)"), std::string::npos) << said(r)[0];
}

TEST(Stability, AStepTimeThatRisesOverTheTrialsIsDrift) {
  Record r = sample_record();
  r.trials.assign(3, sample_trial(40, 1.5, 61));
  std::size_t step = 0;
  for (Trial& trial : r.trials)
    for (double& t : trial.step_time_s) t *= 1 + 0.0005 * static_cast<double>(step++);  // 6 % over 120 steps
  summarise(r);
  EXPECT_TRUE(has(r, "drift"));
  EXPECT_EQ(r.verdict.status, Status::valid);
  ASSERT_EQ(said(r).size(), 1u);
  EXPECT_TRUE(said(r)[0].starts_with("drift: step times rise by 5.")) << said(r)[0];
  for (Trial& trial : r.trials) std::ranges::reverse(trial.step_time_s);
  std::ranges::reverse(r.trials);
  EXPECT_TRUE(said(r)[0].starts_with("drift: step times fall by 5.")) << said(r)[0];
}

TEST(Stability, JoulesThatRiseFromTrialToTrialAreDrift) {
  Record r = sample_record_with_energy();
  while (r.trials.size() < 6) r.trials.push_back(r.trials[0]);
  double heat = 1;
  for (Trial& trial : r.trials) {
    for (EnergyRow& row : trial.energy)
      if (row.scope == Scope::package && row.energy_j) *row.energy_j *= heat;
    heat += 0.01;
  }
  summarise(r);
  EXPECT_TRUE(has(r, "drift"));
  ASSERT_EQ(said(r).size(), 1u);
  EXPECT_TRUE(said(r)[0].starts_with("drift: samples/J (package) fall by 4.")) << said(r)[0];
  r.trials.pop_back();
  summarise(r);
  EXPECT_FALSE(has(r, "drift")) << "5 in a row come by chance in 1 of 60";
}

TEST(Stability, ThatTheMachineChangedAlongTheRunIsSaid) {
  std::vector<Record> records(4, sample_record());
  for (std::size_t i = 0; i < 4; ++i) {
    records[i].id = std::string(1, static_cast<char>('a' + i));
    records[i].summary.ceiling_flops_per_s = 75e9;
    summarise(records[i]);
  }
  EXPECT_EQ(run_drift(records), "");
  records[3].summary.ceiling_flops_per_s = 72e9;
  EXPECT_EQ(run_drift(records), "") << "4 %";
  records[3].summary.ceiling_flops_per_s = 66e9;
  EXPECT_TRUE(run_drift(records).starts_with(
      "the matrix products of d, timed alone, ran 12 % slower than the same products at a: "))
      << run_drift(records);
  std::swap(records[0].summary.ceiling_flops_per_s, records[3].summary.ceiling_flops_per_s);
  EXPECT_NE(run_drift(records).find("14 % faster"), std::string::npos) << run_drift(records);
  const std::vector<Record> moved = records;
  records[0].verdict.flags.emplace_back(Flag::ceiling_once);
  EXPECT_EQ(run_drift(records), "") << "one timing is less than the better of two";
  records = moved;
  records[0].workload.precision = "float32";
  EXPECT_EQ(run_drift(records), "") << "other products";
  records = moved;
  records[0].workload.accumulate = 8, records[0].workload.global_batch = 128;
  EXPECT_NE(run_drift(records), "") << "the same products, more often";
  records[0].setting["gpu_clock_mhz"] = {1305, 1305, 1305, {}};
  EXPECT_EQ(run_drift(records), "") << "meant to run slower";
  records[3].setting["gpu_clock_mhz"] = {1305, 1305, 1290, {}};
  EXPECT_NE(run_drift(records), "") << "of equal settings they should have run as fast";
  records[3].setting["gpu_clock_mhz"] = {1410, 1410, 1410, {}};
  EXPECT_EQ(run_drift(records), "") << "a sweep's clocks";
  records = moved;
  records[0].summary.ceiling_flops_per_s.reset();
  EXPECT_EQ(run_drift(records), "");
  EXPECT_EQ(run_drift({}), "");
}

/// Each way in which a trial fails or is invalid.
std::vector<std::pair<std::string, void (*)(Trial&)>> spoilers() {
  return {{"step_time: trial 2 has no step", [](Trial& t) { t.step_time_s.clear(), t.loss.clear(); }},
          {"step_time: trial 2 has a step", [](Trial& t) { t.step_time_s[3] = 0; }},
          {"step_time: trial 2 has a step", [](Trial& t) { t.step_time_s[3] = std::nan(""); }},
          {"window: that of trial 2", [](Trial& t) { t.window_s = 0; }},
          {"loss_not_finite: ", [](Trial& t) { t.loss[5] = std::numeric_limits<double>::infinity(); }},
          {"throttled: ", [](Trial& t) {
             t.counters = {{"node1", "nvml:GPU-1", "throttle_thermal_s", 30}};
           }}};
}

TEST(Means, NoTrialThatFailedOrIsInvalidEntersOne) {
  for (const auto& [reason, spoil] : spoilers()) {
    SCOPED_TRACE(reason);
    Record r = sample_record_with_energy(), without = r;
    Trial& trial = r.trials[1];  // would show in every figure
    for (double& t : trial.step_time_s) t *= 3;
    trial.window_s *= 3;
    for (EnergyRow& row : trial.energy) *row.energy_j *= 5;
    spoil(trial);
    without.trials.erase(without.trials.begin() + 1);
    summarise(r), summarise(without);
    EXPECT_EQ(r.verdict.status, Status::invalid);
    ASSERT_FALSE(r.verdict.reasons.empty());
    EXPECT_TRUE(r.verdict.reasons[0].starts_with(reason)) << r.verdict.reasons[0];
    const Summary &a = r.summary, &b = without.summary;
    const auto same = [](const std::optional<Estimate>& ours, const std::optional<Estimate>& theirs) {
      ASSERT_TRUE(ours && theirs);
      EXPECT_EQ(ours->count, 2);
      EXPECT_DOUBLE_EQ(ours->value, theirs->value);
      EXPECT_FALSE(ours->low || ours->high);
    };
    same(a.samples_per_s, b.samples_per_s);
    same(a.tokens_per_s, b.tokens_per_s);
    same(a.flops_per_s, b.flops_per_s);
    same(a.step_time_s, b.step_time_s);
    for (const Scope scope : {Scope::package, Scope::dram}) {
      same(a.energy_j.at(scope), b.energy_j.at(scope));
      same(a.flops_per_w.at(scope), b.flops_per_w.at(scope));
      same(a.samples_per_j.at(scope), b.samples_per_j.at(scope));
    }
    EXPECT_EQ(a.step_time_max_s, b.step_time_max_s);
    EXPECT_EQ(a.step_time_p90_s, b.step_time_p90_s);
    EXPECT_EQ(a.of_ceiling, b.of_ceiling);
    EXPECT_FALSE(has(r, "outlier")) << "it is worse than that";
    EXPECT_FALSE(has(r, "no_energy_meter"));
  }
}

TEST(Means, OfNoTrialThereIsNone) {
  for (const auto& [reason, spoil] : spoilers()) {
    SCOPED_TRACE(reason);
    Record r = sample_record_with_energy();
    for (Trial& trial : r.trials) spoil(trial);
    summarise(r);
    const Summary& s = r.summary;
    EXPECT_EQ(r.verdict.status, Status::invalid);
    EXPECT_FALSE(s.samples_per_s || s.tokens_per_s || s.flops_per_s || s.step_time_s || s.step_time_p50_s ||
                 s.of_ceiling);
    EXPECT_FALSE(s.energy_j.at(Scope::package) || s.flops_per_w.at(Scope::dram) || s.samples_per_j.at(Scope::dram));
    EXPECT_EQ(s.energy_reason, "dram: no valid trial; package: no valid trial");
    EXPECT_FALSE(has(r, "no_energy_meter")) << "the meters answered";
  }
}

TEST(Means, AFailedPointHasNone) {
  for (const Status status : {Status::failed, Status::unsupported}) {
    Record r = sample_record_with_energy();
    r.verdict = {status, {}, {"rank 1: out of memory"}};
    summarise(r);
    EXPECT_EQ(r.verdict.status, status);
    EXPECT_FALSE(r.summary.samples_per_s || r.summary.energy_j.at(Scope::package));
  }
}

TEST(Means, AThrottledRunToATargetEntersNone) {
  Record r = sample_target_record();
  r.trials[0].counters = {{"node1", "cpu", "throttle_thermal_s", 3}};
  summarise(r);
  EXPECT_EQ(r.verdict.status, Status::invalid);
  ASSERT_TRUE(r.summary.to_target->steps);
  EXPECT_EQ(r.summary.to_target->steps->count, 2);
  EXPECT_DOUBLE_EQ(r.summary.to_target->steps->value, 25);
  EXPECT_EQ(r.summary.to_target->energy_j.at(Scope::package)->count, 2);
  for (Trial& trial : r.trials) trial.counters = {{"node1", "cpu", "throttle_thermal_s", 3}};
  summarise(r);
  EXPECT_FALSE(r.summary.to_target->steps);
  EXPECT_EQ(r.summary.to_target->reason, "no valid trial");
  EXPECT_FALSE(has(r, "target_missed")) << "they all arrived";
}

}  // namespace
}  // namespace tw
