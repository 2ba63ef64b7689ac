// First passages, what they took, and what a run that never arrives does to a mean.
#include "results/analysis/to_target.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "results/analysis/statistics.hpp"
#include "results/analysis/verdict.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using testing::has;
using testing::sample_target_record;
using testing::sample_target_report;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Progress, SaysTheFigureOfTheTask) {
  Target target;
  target.metric = TargetMetric::error, target.value = 0.1;
  EXPECT_EQ(progress_words(target, {30, 1, 0.5, 0.17031}), "step 30, held-out error 0.170 (target 0.1)");
  target.metric = TargetMetric::excess_loss, target.value = 0.25, target.floor = 1;
  EXPECT_EQ(progress_words(target, {40, 1, 1.5, std::nullopt}), "step 40, excess loss 0.500 (target 0.25)");
}

TEST(FirstPassage, IsTheFirstAtOrUnderTheTarget) {
  Target target;
  target.metric = TargetMetric::excess_loss, target.value = 0.5, target.floor = 1;
  const auto passage = [&](std::vector<double> losses) {
    TargetRun run;
    for (const double loss : losses) run.evaluations.push_back({1, 1, loss, std::nullopt});
    return first_passage(target, run);
  };
  EXPECT_EQ(passage({}), std::nullopt);
  EXPECT_EQ(passage({2, 1.75, 1.5625}), std::nullopt);
  EXPECT_EQ(passage({2, 1.5, 1.25}), 1u) << "at the target is reached";
  EXPECT_EQ(passage({2, 1.25, 2, 1.25}), 1u) << "what comes later takes nothing back";
  EXPECT_EQ(passage({nan, 1.25}), 1u);
  EXPECT_EQ(passage({nan, -std::numeric_limits<double>::infinity()}), std::nullopt) << "no number is no success";
}

TEST(FirstPassage, AnErrorIsComparedWithoutTheFloor) {
  Target target;
  target.metric = TargetMetric::error, target.value = 0.25, target.floor = 0.125;
  TargetRun run;
  run.evaluations = {{10, 1, 0.1, 0.375}, {20, 2, 9.0, 0.25}};
  EXPECT_EQ(first_passage(target, run), 1u);
  EXPECT_TRUE(std::isnan(metric_of(target, {10, 1, 0.1, std::nullopt})));
  EXPECT_TRUE(std::isnan(metric_of(target, {10, 1, nan, 0.1}))) << "training has diverged, whatever the arg max says";
}

TEST(ToTarget, MeansAndIntervalsAreOfTheFirstPassages) {
  Record record = sample_target_record();
  summarise(record);
  ASSERT_TRUE(record.summary.to_target && record.summary.to_target->steps);
  const ToTarget& result = *record.summary.to_target;
  // Reached at some time in the last of the evaluation intervals, of 10 steps: a uniform error, 95 %.
  const double resolution = 1.96 * 10 / std::sqrt(12.0) / (80.0 / 3);
  const auto same = [&](const Estimate& a, Estimate b) {
    widen(b, resolution);
    EXPECT_DOUBLE_EQ(a.value, b.value);
    EXPECT_DOUBLE_EQ(a.low.value(), b.low.value());
    EXPECT_DOUBLE_EQ(a.high.value(), b.high.value());
    EXPECT_GT(*a.low, 0);
  };
  same(*result.steps, estimate(std::vector<double>{30, 20, 30}));
  same(*result.samples, estimate(std::vector<double>{960, 640, 960}));
  same(*result.time_s, estimate(std::vector<double>{15.25, 10.25, 15.25}));
  same(*result.energy_j.at(Scope::package), *record.summary.energy_j.at(Scope::package));
  EXPECT_EQ(result.reason, "");
  EXPECT_EQ(record.verdict.status, Status::valid);
  EXPECT_FALSE(has(record, "steps_disagree")) << "evaluations are part of the window";
}

/// A record whose runs reached their target at these evaluations.
Record reached_at(const std::vector<int>& evaluations) {
  Record record = sample_target_record();
  const Trial first = record.trials[0];
  record.target->most_steps = 1000;
  record.trials.clear();
  for (const int count : evaluations) {
    Trial& trial = record.trials.emplace_back(first);
    TargetRun& run = *trial.target_run;
    run.seed = record.trials.size(), run.evaluations.clear();
    for (int i = 1; i <= count; ++i)
      run.evaluations.push_back({10 * i, 5.0 * i, record.target->floor + (i < count ? 0.5 : 0.05), std::nullopt});
  }
  summarise(record);
  return record;
}

TEST(ToTarget, SeedsThatArriveAtTheSameEvaluationAreNotKnownToTheStep) {
  const Record record = reached_at({12, 12, 12});
  const Estimate& steps = record.summary.to_target->steps.value();
  EXPECT_DOUBLE_EQ(steps.value, 120);
  EXPECT_NEAR(*steps.high - *steps.low, 2 * 1.96 * 10 / std::sqrt(12.0), 1e-9);
}

TEST(ToTarget, NoRunTakesLessThanNothing) {
  const Record record = reached_at({1, 1, 30});  // Student's t alone would say -309
  for (const Estimate& e : {*record.summary.to_target->steps, *record.summary.to_target->time_s}) EXPECT_EQ(e.low, 0);
}

TEST(ToTarget, OfManySeedsTheSlowestCountsToo) {
  const Record record = reached_at({10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 60});
  EXPECT_NEAR(record.summary.to_target->steps->value, (11 * 100 + 600) / 12.0, 1e-9);
  EXPECT_EQ(record.summary.to_target->steps->statistic, Statistic::mean);
  EXPECT_EQ(record.summary.energy_j.at(Scope::package)->statistic, Statistic::mean);
}

TEST(ToTarget, SpeedIsThatOfTrainingAndJoulesAreShownAlone) {
  Record record = sample_target_record();
  summarise(record);
  std::vector<double> rates;
  for (const Trial& trial : record.trials)
    rates.push_back(32 * static_cast<double>(trial.step_time_s.size()) /
                    (trial.window_s - trial.target_run->evaluation_s));
  EXPECT_DOUBLE_EQ(record.summary.samples_per_s->value, estimate(rates).value);
  EXPECT_TRUE(record.summary.energy_j.at(Scope::package));
  EXPECT_FALSE(record.summary.samples_per_j.at(Scope::package)) << "the joules are of the evaluations too";
  EXPECT_FALSE(record.summary.flops_per_w.at(Scope::package));
  EXPECT_EQ(record.summary.energy_reason, "samples and FLOPs per joule: the joules include the evaluations");
}

// Strung together the losses of runs that each fall would rise, where one begins high and is soon over.
TEST(ToTarget, EachRunIsAskedWhetherItsLossFalls) {
  Record record = sample_target_record();
  const auto fall = [&](std::size_t run, double from, double step) {
    std::vector<double>& losses = record.trials[run].loss;
    for (std::size_t i = 0; i < losses.size(); ++i) losses[i] = from - step * static_cast<double>(i);
  };
  fall(0, 2, 0.01), fall(1, 3, 0.01), fall(2, 4, 0.01);
  summarise(record);
  EXPECT_FALSE(has(record, "loss_not_falling"));
  EXPECT_NEAR(record.summary.loss_first.value(), 3, 1e-12);
  EXPECT_NEAR(record.summary.loss_last.value(), 3 - 0.01 * (29 + 19 + 29) / 3.0, 1e-12);
  EXPECT_NEAR(record.summary.loss_slope_per_step.value(), -0.01, 1e-12);
  fall(1, 3, -0.001);
  summarise(record);
  EXPECT_TRUE(has(record, "loss_not_falling")) << "one that does not is enough";
}

TEST(ToTarget, ARunThatCouldNotBeMadeIsNoSuccess) {
  Report report = sample_target_report();
  report.records.resize(1);
  EXPECT_EQ(exit_code(report), 0);
  Record& failed = report.records.emplace_back(report.records[0]);
  failed.trials.clear();
  failed.verdict = {Status::failed, {}, {"rank 0 (n1): needs 9.1 GiB"}};
  summarise(failed);
  EXPECT_EQ(exit_code(report), 1);
  failed.verdict.status = Status::unsupported;
  EXPECT_EQ(exit_code(report), 0);
}

TEST(ToTarget, OneRunThatNeverArrivesIsInfinite) {
  const Record record = sample_target_report().records[1];
  const ToTarget& result = record.summary.to_target.value();
  EXPECT_FALSE(result.time_s || result.steps || result.samples);
  EXPECT_TRUE(result.energy_j.empty());
  EXPECT_EQ(result.reason, "seed 5 did not reach error 0.11 in 30 steps (0.125 at the end)");
  EXPECT_EQ(record.verdict.status, Status::invalid);
  EXPECT_TRUE(has(record, "target_missed"));
  EXPECT_TRUE(has(record, "no_reference"));
  EXPECT_EQ(exit_code(sample_target_report()), 1);

  Record diverged = sample_target_record();
  diverged.trials[2].target_run->evaluations.back().loss = nan;
  summarise(diverged);
  EXPECT_EQ(diverged.summary.to_target->reason,
            "seed 3 did not reach excess_loss 0.1 in 30 steps: its loss is not finite");
}

TEST(ToTarget, TooManyStepsAndTooFewAreOffTheReference) {
  const auto judged = [](double low, double high) {
    Record record = sample_target_record();
    record.target->reference->steps_low = low, record.target->reference->steps_high = high;
    summarise(record);
    return record;
  };
  const double mean = judged(0, 100).summary.to_target->steps->value;  // 26.7
  EXPECT_EQ(judged(mean, mean).verdict.status, Status::valid) << "the band holds its ends";
  const Record slow = judged(mean - 10, mean - 0.5), fast = judged(mean + 0.5, mean + 10);
  for (const Record& record : {slow, fast}) {
    EXPECT_TRUE(has(record, "off_reference"));
    EXPECT_EQ(record.verdict.status, Status::invalid);
    ASSERT_EQ(record.verdict.reasons.size(), 1u);
  }
  EXPECT_NE(slow.verdict.reasons[0].find("off_reference: 26.67 steps to the target, more than"), std::string::npos);
  EXPECT_NE(fast.verdict.reasons[0].find("off_reference: 26.67 steps to the target, fewer than"), std::string::npos);
}

/// A band that half of the reference's steps pass bears nothing out; what lies outside it is off all the same.
TEST(ToTarget, AWeakReferenceIsNone) {
  const auto judged = [](double low, double high) {
    Record record = sample_target_record();
    record.target->reference->steps_low = low, record.target->reference->steps_high = high;
    summarise(record);
    return record;
  };
  const double mean = sample_target_record().target->reference->steps_mean;  // 26
  EXPECT_FALSE(has(judged(mean / 2, 50), "no_reference"));
  EXPECT_TRUE(has(judged(mean / 2 - 0.5, 50), "no_reference"));
  EXPECT_EQ(judged(0, 50).verdict.status, Status::valid);
  EXPECT_NE(reference_words(*judged(0, 50).target).find("too weak to decide"), std::string::npos);
  EXPECT_EQ(reference_words(*judged(mean / 2, 50).target).find("too weak"), std::string::npos);
  EXPECT_TRUE(has(judged(0, 20), "no_reference"));
  EXPECT_TRUE(has(judged(0, 20), "off_reference"));
}

TEST(ToTarget, ATaskThatNobodyHadTrainedIsFlagged) {
  Record record = sample_target_record();
  summarise(record);
  EXPECT_FALSE(has(record, "extrapolated"));
  EXPECT_EQ(extrapolation_words(record), "");
  record.target->extrapolated_from = "runs of gpt2-tiny";
  summarise(record);
  EXPECT_TRUE(has(record, "extrapolated"));
  EXPECT_EQ(extrapolation_words(record), "steps extrapolated from runs of gpt2-tiny, not trained before");
}

TEST(ToTarget, CostIsHoursAndKilowattHoursOfEachRun) {
  Record record = sample_target_record();
  record.prices = JobPrices{7.2, 0};
  summarise(record);
  const ToTarget& hours = *record.summary.to_target;
  ASSERT_TRUE(hours.cost && hours.cost_of_runs);
  EXPECT_EQ(*hours.cost_of_runs, (std::vector<double>{0.0305, 0.0205, 0.0305})) << "15.25 s, 10.25 s, 15.25 s at 0.002 a second";
  EXPECT_FALSE(hours.cost_scope) << "no joule is paid for";
  EXPECT_FALSE(hours.cost_reason);
  EXPECT_DOUBLE_EQ(hours.cost->value, 0.002 * hours.time_s->value);
  EXPECT_NEAR(*hours.cost->low, 0.002 * *hours.time_s->low, 1e-12) << "time and cost share their interval";

  record.prices = JobPrices{0, 0.36};
  summarise(record);
  const ToTarget& joules = *record.summary.to_target;
  ASSERT_TRUE(joules.cost);
  EXPECT_EQ(joules.cost_scope, Scope::package);
  EXPECT_NEAR(joules.cost->value, 1e-7 * joules.energy_j.at(Scope::package)->value, 1e-12);
  EXPECT_NEAR(*joules.cost->high, 1e-7 * *joules.energy_j.at(Scope::package)->high, 1e-12)
      << "the meters' uncertainty is in it";

  record.prices = JobPrices{7.2, 0.36};
  summarise(record);
  const ToTarget& both = *record.summary.to_target;
  EXPECT_NEAR(both.cost->value, hours.time_s->value * 0.002 + 1e-7 * joules.energy_j.at(Scope::package)->value, 1e-12);
}

TEST(ToTarget, CostIsAbsentWithAReason) {
  const auto why = [](const Record& record) {
    EXPECT_FALSE(record.summary.to_target->cost || record.summary.to_target->cost_of_runs);
    return record.summary.to_target->cost_reason.value_or("");
  };
  Record record = sample_target_record();
  record.prices.reset();
  summarise(record);
  EXPECT_EQ(why(record), "no prices were given (--hour-price, --kwh-price)");
  record.prices = JobPrices{1, 1};
  for (Trial& trial : record.trials) trial.energy.clear();
  record.summary.energy_reason.clear();
  summarise(record);
  EXPECT_EQ(why(record), "no joules that include the part that trains: no_energy_meter");
  EXPECT_EQ(why(sample_target_report().records[1]), sample_target_report().records[1].summary.to_target->reason)
      << "one run that never arrives costs without end";
}

TEST(ToTarget, ARunForATimeHasNone) {
  Record record = testing::sample_record();
  summarise(record);
  EXPECT_FALSE(record.summary.to_target);
  EXPECT_FALSE(has(record, "no_reference"));
}

}  // namespace
}  // namespace tw
