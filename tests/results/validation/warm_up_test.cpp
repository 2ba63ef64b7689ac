// The warm-up before the first trial, which a busy machine may not slow down as it slows the trials.
#include <gtest/gtest.h>

#include <algorithm>

#include "results/record/report_io.hpp"
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

}  // namespace
}  // namespace tw
