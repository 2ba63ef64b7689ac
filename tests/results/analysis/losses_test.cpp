// The first losses of two records of the same training.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

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
  EXPECT_FALSE(losses_differ(*furthest_first_losses(a, b)));
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
    EXPECT_EQ(losses_differ(*furthest_first_losses(a, b)), counts);
    EXPECT_EQ(furthest_first_losses(a, b)->step, counts ? 3 + static_cast<std::int64_t>(step) : 3);
    b.trials[0].loss[step] = std::nan("");
    EXPECT_EQ(losses_differ(*furthest_first_losses(a, b)), counts);
  }
}

/// Two records of this precision whose losses are apart by `share` in step `apart`, of ten from step `first` on.
bool are_apart(
    const std::string& precision, std::int64_t first, std::int64_t apart, double share,
    const std::function<void(Workload&)>& change = [](Workload&) {}) {
  Record a = sample_record();
  a.workload.precision = precision;
  a.trials.resize(1);
  a.trials[0].first_step = first;
  a.trials[0].loss.assign(10, 4.0);
  change(a.workload);
  Record b = a;
  b.trials[0].loss.at(static_cast<std::size_t>(apart - first)) *= 1 + share;
  return losses_differ(furthest_first_losses(a, b).value());
}

/// Of bf16 that states float32: what float32 implementations were measured to differ by is allowed with room, the least
/// that bf16 was measured to differ by is not (loss_tolerance()).
TEST(Losses, OfFloat32AreCloserThanThoseOfBf16) {
  const double of_float32 = 2.2e-6, of_bf16 = 8.4e-5;
  for (const auto& [first, apart] : {std::pair(0, 0), {0, 9}, {5, 5}, {90, 99}}) {
    EXPECT_FALSE(are_apart("float32", first, apart, 5 * of_float32)) << apart;
    EXPECT_TRUE(are_apart("float32", first, apart, 0.5 * of_bf16)) << apart;
    for (const char* other : {"bf16", "tf32", "float32_bf16", "fp8"}) {
      EXPECT_FALSE(are_apart(other, first, apart, 0.019)) << other;
      EXPECT_TRUE(are_apart(other, first, apart, 0.021)) << other;
    }
  }
  const double late_float32 = 9.4e-5;
  EXPECT_FALSE(are_apart("float32", 95, 100, 5 * late_float32));
  EXPECT_TRUE(are_apart("float32", 95, 100, 20 * late_float32));
  EXPECT_TRUE(are_apart("float32", 95, 99, 20 * of_float32)) << "each step has its own tolerance";
  // The pair that is furthest beyond its tolerance, not the one that is furthest apart.
  Record a = sample_record();
  a.workload.precision = "float32", a.trials.resize(1), a.trials[0].first_step = 98, a.trials[0].loss.assign(4, 4.0);
  Record b = a;
  b.trials[0].loss[1] *= 1.0001, b.trials[0].loss[3] *= 1.0009;
  EXPECT_EQ(furthest_first_losses(a, b)->step, 99);
  EXPECT_TRUE(losses_differ(*furthest_first_losses(a, b)));
}

TEST(Losses, OfImagesAreComparedForThreeStepsAndOfClicksForTwoHundred) {
  const auto images = [](Workload& w) { w.seq_len.reset(), w.data = "images"; };
  const auto unknown = [](Workload& w) { w.seq_len.reset(); };
  const auto clicks = [](Workload& w) { w.seq_len.reset(), w.data = "clicks"; };
  const auto described = [](Workload& w) { w.model = "custom-time-series-0123456789ab", w.data = "series"; };
  for (const std::function<void(Workload&)>& chaotic :
       {std::function<void(Workload&)>(images), {unknown}, {described}}) {
    EXPECT_FALSE(are_apart("float32", 0, 2, 1e-5, chaotic));
    EXPECT_TRUE(are_apart("float32", 0, 2, 1.6e-4, chaotic));
    EXPECT_FALSE(are_apart("float32", 0, 3, 0.2, chaotic)) << "rounding alone moves a loss this far";
  }
  EXPECT_TRUE(are_apart("float32", 0, 3, 1.6e-4, clicks));
  EXPECT_TRUE(are_apart("float32", 80, 85, 1.6e-4, clicks));
  EXPECT_FALSE(are_apart("float32", 80, 85, 1e-5, clicks));
}

/// The losses of the warm-up's first steps: those of images are compared although their trials start later.
TEST(Losses, OfTheWarmUpAreCompared) {
  for (const bool images : {true, false}) {
    SCOPED_TRACE(images);
    Record a = sample_record();
    a.workload.precision = "float32";
    if (images) a.workload.seq_len.reset(), a.workload.data = "images";
    for (Trial& trial : a.trials) trial.first_step += 20;
    EXPECT_EQ(furthest_first_losses(a, a).has_value(), !images) << "an older report";
    a.warm_up = WarmUp{std::vector<double>(20, 0.1), 2, {}, std::vector<double>(10, 4.0)};
    for (const std::size_t step : {0, 2, 3, 9}) {
      Record b = a;
      b.warm_up->loss[step] *= 1 + 1e-5;
      EXPECT_FALSE(losses_differ(furthest_first_losses(a, b).value())) << step;
      b.warm_up->loss[step] = 4 * (1 + 8e-5);
      const LossPair pair = furthest_first_losses(a, b).value();
      EXPECT_EQ(losses_differ(pair), !images || step < 3) << step;
      EXPECT_EQ(pair.step, losses_differ(pair) ? static_cast<std::int64_t>(step) : 0);
    }
    // They come in addition to ten steps of the trials.
    Record b = a;
    b.trials[0].loss[9] *= 1.2;
    EXPECT_EQ(losses_differ(furthest_first_losses(a, b).value()), !images);
  }
}

/// Training of images is chaotic: nothing behind step 2 is compared, of tokens nothing behind step 200.
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
  EXPECT_TRUE(from(2, true));
  EXPECT_FALSE(from(3, true));
  EXPECT_TRUE(from(200, false));
  EXPECT_FALSE(from(201, false));
  a.trials[0].first_step = std::numeric_limits<std::int64_t>::max();
  EXPECT_FALSE(furthest_first_losses(a, b));
}

}  // namespace
}  // namespace tw
