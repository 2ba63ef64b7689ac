// The first losses of two records of the same training.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "results/analysis/losses.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

TEST(Losses, OfTheSameTrainingAreHeldAgainstEachOther) {
  const Record a = sample_record();
  Record b = a;
  ASSERT_TRUE(furthest_first_losses(a, b));
  EXPECT_EQ(furthest_first_losses(a, b)->step, 3);
  EXPECT_FALSE(losses_differ(*furthest_first_losses(a, b), "bf16"));
  for (Trial& trial : b.trials) trial.first_step += 5;  // a longer warm-up: the step is counted through
  b.trials[0].loss[0] = 100;
  ASSERT_TRUE(furthest_first_losses(a, b));
  EXPECT_EQ(furthest_first_losses(a, b)->step, 8);
  EXPECT_EQ(furthest_first_losses(a, b)->a, a.trials[0].loss[5]);
  EXPECT_EQ(furthest_first_losses(a, b)->b, 100);
  b = a, b.workload.seed = 2;
  EXPECT_FALSE(furthest_first_losses(a, b));
  b = a, b.workload.precision = "float32";
  EXPECT_FALSE(furthest_first_losses(a, b));
  b = a, b.workload.global_batch = 128;
  EXPECT_FALSE(furthest_first_losses(a, b));
}

TEST(Losses, TheFirstTenCommonStepsCount) {
  const Record a = sample_record();
  for (const std::size_t step : {0, 1, 9, 10}) {
    SCOPED_TRACE(step);
    Record b = a;
    b.trials[0].loss[step] *= 1.2;
    const bool counts = step < 10;
    EXPECT_EQ(losses_differ(*furthest_first_losses(a, b), "bf16"), counts);
    EXPECT_EQ(furthest_first_losses(a, b)->step, counts ? 3 + static_cast<std::int64_t>(step) : 3);
    b.trials[0].loss[step] = std::nan("");
    EXPECT_EQ(losses_differ(*furthest_first_losses(a, b), "bf16"), counts);
  }
}

/// Training of images is chaotic: nothing behind step 10 is compared, of tokens nothing behind step 200.
TEST(Losses, StepsThatRoundingMayMoveDoNotCount) {
  Record a = sample_record(), b = a;
  for (Trial& trial : b.trials)
    for (double& loss : trial.loss) loss *= 1.2;
  const auto from = [&](std::int64_t first, bool images) {
    for (Record* record : {&a, &b}) {
      record->workload.seq_len = images ? std::nullopt : std::optional<std::int64_t>(128);
      for (Trial& trial : record->trials) trial.first_step = first, first += std::ssize(trial.loss);
      first -= 120;
    }
    return furthest_first_losses(a, b).has_value();
  };
  EXPECT_TRUE(from(10, true));
  EXPECT_FALSE(from(11, true));
  EXPECT_TRUE(from(200, false));
  EXPECT_FALSE(from(201, false));
  a.trials[0].first_step = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(furthest_first_losses(a, b));
}

}  // namespace
}  // namespace tw
