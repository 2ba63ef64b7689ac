// The warm-up before the first trial, which a busy machine may not slow down as it slows the trials.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "results/record/report_io.hpp"
#include "results/validation/checks.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

/// Trials that another program slows down to a fifth: the warm-up before them had five times as many steps in a window.
TEST(Validate, AWarmUpMayBeFasterThanTheTrials) {
  constexpr std::int64_t steps = 200;
  Report report = sample_energy_report();
  for (Record& record : report.records) {
    for (Trial& trial : record.trials) trial.first_step += steps - 3;
    add_warm_up(record, steps, 60.1);
  }
  const Validation found = validate_report(to_json(report));
  EXPECT_EQ(found.violations.size(), 0u);
  EXPECT_EQ(found.warnings.size(), 0u);
  // An older report does not say how long it took.
  for (Record& record : report.records) record.warm_up.reset();
  const Validation older = validate_report(to_json(report));
  EXPECT_EQ(older.violations.size(), 0u);
  EXPECT_EQ(std::ranges::count(older.warnings, std::string("warm_up_unknown"), &Fault::code), 1);
}

std::vector<std::string> codes_of(const std::vector<Fault>& faults) {
  std::vector<std::string> codes;
  for (const Fault& fault : faults) codes.push_back(fault.code);
  return codes;
}
Record warmed_up(std::vector<double> steps, double window_s) {
  Record record = sample_record();
  record.workload.ranks = 1;
  record.trials[0].first_step = std::ssize(steps);
  record.warm_up = WarmUp{std::move(steps), window_s, {}};
  return record;
}
Validation against_plan(const Record& record, std::int64_t planned_steps, double planned_window_s) {
  Findings found;
  check_warm_up(record, 0, found);
  check_planned_warm_up(record, 0, planned_steps, planned_window_s, found);
  return found.take();
}
using Codes = std::vector<std::string>;

TEST(WarmUp, EndsAfterAWindow) {
  const auto of_steps = [](std::size_t steps) {
    return against_plan(warmed_up(std::vector<double>(steps, 1.0), static_cast<double>(steps)), 3, 60);
  };
  EXPECT_EQ(codes_of(of_steps(61).violations), Codes());
  EXPECT_EQ(codes_of(of_steps(72).violations), Codes{"warm_up"});
  // By the plan's number of steps it may last longer.
  EXPECT_EQ(codes_of(against_plan(warmed_up(std::vector<double>(72, 1.0), 72), 72, 60).violations), Codes());
  // One long step at the end is the one within which the window ended.
  std::vector<double> steps(50, 1.0);
  steps.push_back(999);
  EXPECT_EQ(codes_of(against_plan(warmed_up(steps, 1049), 3, 60).violations), Codes());
  std::swap(steps.front(), steps.back());
  EXPECT_EQ(codes_of(against_plan(warmed_up(steps, 1049), 3, 60).violations), Codes{"warm_up"});
}

/// A job that the scheduler suspends between two steps.
TEST(WarmUp, TimeBetweenItsStepsIsNoFault) {
  EXPECT_EQ(codes_of(against_plan(warmed_up(std::vector<double>(20, 1.0), 500), 3, 60).violations), Codes());
}

TEST(WarmUp, StepsTakeTime) {
  for (const double step : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    std::vector<double> steps(20, 1.0);
    steps[4] = step;
    EXPECT_EQ(codes_of(against_plan(warmed_up(steps, 20), 3, 60).violations), Codes{"warm_up"}) << step;
  }
  EXPECT_EQ(codes_of(against_plan(warmed_up(std::vector<double>(20, 1.0), 19), 3, 60).violations), Codes{"warm_up"});
}

/// Whoever takes the flag out gains nothing.
TEST(WarmUp, ThatIsNotFlatHasItsFlag) {
  std::vector<double> rising;
  for (int i = 0; i < 40; ++i) rising.push_back(1 + 0.01 * i);
  Record record = warmed_up(rising, 50);
  const Validation found = against_plan(record, 3, 60);
  ASSERT_EQ(found.left_out_flags.size(), 1u);
  EXPECT_EQ(found.left_out_flags[0].flag, Flag::not_steady);
  record.verdict.flags.push_back(Flag::not_steady);
  EXPECT_EQ(against_plan(record, 3, 60).left_out_flags.size(), 0u);
  EXPECT_EQ(against_plan(warmed_up(std::vector<double>(40, 1.0), 40), 3, 60).left_out_flags.size(), 0u);
}

TEST(WarmUp, TimeBeforeTheFirstTrialIsNoted) {
  Report report = sample_energy_report();
  for (Record& record : report.records) {
    add_warm_up(record, record.trials[0].first_step, 6);
    for (Trial& trial : record.trials) trial.start_s = *trial.start_s + 20;
  }
  const Validation found = validate_report(to_json(report));
  EXPECT_EQ(codes_of(found.violations), Codes());
  EXPECT_EQ(codes_of(found.warnings), Codes{"trials_gap"});
}

}  // namespace
}  // namespace tw
