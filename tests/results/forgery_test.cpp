// Each forgery is found by its code, and what is forged was good before.
#include <gtest/gtest.h>

#include <algorithm>

#include "results/losses.hpp"
#include "results/report_io.hpp"
#include "results/verdict.hpp"
#include "tests/results/forgeries.hpp"
#include "tests/results/large_report.hpp"
#include "tests/results/samples.hpp"

namespace tw {
namespace {

using namespace testing;

std::vector<std::string> codes_of(const std::vector<Fault>& faults) {
  std::vector<std::string> codes;
  for (const Fault& fault : faults) codes.push_back(fault.code);
  return codes;
}
bool has(const std::vector<Fault>& faults, const std::string& code) {
  return std::ranges::find(faults, code, &Fault::code) != faults.end();
}

TEST(Forgery, WhatIsForgedWasGood) {
  const Validation found = validate_report(to_json(sample_energy_report()));
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>());
}

TEST(Forgery, EachIsFoundByItsCode) {
  for (const Forgery& forgery : forgeries()) {
    SCOPED_TRACE(forgery.name);
    const Validation found = validate_report(to_json(forged(sample_energy_report(), forgery.name)));
    EXPECT_TRUE(has(found.violations, forgery.code)) << ::testing::PrintToString(codes_of(found.violations));
    for (const Fault& fault : found.violations) {
      EXPECT_EQ(fault.where.substr(0, 1), "/") << fault.code;
      EXPECT_EQ(fault.code.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << fault.code;
    }
  }
}

/// A report from before trials said when they began is good, and the note says what was not looked at.
TEST(Forgery, AReportWithoutStartsIsNoted) {
  Report report = sample_energy_report();
  for (Record& record : report.records)
    for (Trial& trial : record.trials) trial.start_s.reset();
  const Validation found = validate_report(to_json(report));
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>{"trial_start_unknown"});
}

TEST(Losses, OfTheSameTrainingAreHeldAgainstEachOther) {
  const Record a = sample_record();
  Record b = a;
  ASSERT_TRUE(first_common_loss(a, b));
  EXPECT_EQ(first_common_loss(a, b)->step, 3);
  EXPECT_FALSE(losses_differ(*first_common_loss(a, b), "bf16"));
  for (Trial& trial : b.trials) trial.first_step += 5;  // a longer warm-up: the step is counted through
  ASSERT_TRUE(first_common_loss(a, b));
  EXPECT_EQ(first_common_loss(a, b)->step, 8);
  EXPECT_EQ(first_common_loss(a, b)->a, a.trials[0].loss[5]);
  EXPECT_EQ(first_common_loss(a, b)->b, b.trials[0].loss[0]);
  b = a;
  b.trials[0].loss[0] *= 1.2;
  EXPECT_TRUE(losses_differ(*first_common_loss(a, b), "bf16"));
  b.workload.seed = 2;
  EXPECT_FALSE(first_common_loss(a, b));
  b = a, b.workload.precision = "float32";
  EXPECT_FALSE(first_common_loss(a, b));
  b = a, b.workload.global_batch = 128;
  EXPECT_FALSE(first_common_loss(a, b));
}

/// Linear in the trials: what takes the square of so many does not end within the test's limit.
TEST(Forgery, ManyTrialsAreCheckedInTheTimeOfReadingThem) {
  const Validation found = validate_report(to_json(large_report(20'000)));
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
}

}  // namespace
}  // namespace tw
