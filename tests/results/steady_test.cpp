#include "results/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tw {
namespace {

/// Noise of the given share with no trend and no period that a line could follow.
std::vector<double> steps(int count, double noise, double drift_a_step = 0) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) all.push_back(0.1 * (1 + noise * std::sin(1 + 12.9898 * i * i) + drift_a_step * i));
  return all;
}

TEST(Steady, FewStepsSayNothing) {
  EXPECT_FALSE(is_steady({}));
  EXPECT_FALSE(is_steady(steps(5, 0)));
  EXPECT_TRUE(is_steady(steps(6, 0)));
}

TEST(Steady, TheFirstStepsDoNotCount) {
  std::vector<double> all = steps(6, 0);
  all[0] = 3;  // pages are touched for the first time
  EXPECT_TRUE(is_steady(all));
  all = steps(40, 0.01);
  for (std::size_t i = 0; i < 20; ++i) all[i] *= 2 - 0.05 * static_cast<double>(i);
  EXPECT_TRUE(is_steady(all));
}

TEST(Steady, ADriftIsSeenThroughLittleNoiseOnly) {
  EXPECT_FALSE(is_steady(steps(10, 0, 0.01)));
  EXPECT_FALSE(is_steady(steps(10, 0, -0.01)));
  EXPECT_FALSE(is_steady(steps(100, 0.01, 0.002)));
  EXPECT_TRUE(is_steady(steps(100, 0.5, 0.0005))) << "within the noise";
  EXPECT_TRUE(is_steady(steps(100, 0, 0.0001))) << "half a percent over the later half";
}

TEST(Steady, NoiseAloneIsFlat) {
  int steady = 0;
  for (int count = 6; count < 106; ++count) steady += is_steady(steps(count, 0.05));
  EXPECT_GT(steady, 85);  // two standard errors
}

}  // namespace
}  // namespace tw
