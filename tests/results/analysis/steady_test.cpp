#include "results/analysis/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tw {

using namespace results;

namespace {

/// Noise of the given share with no trend and no period that a line could follow.
std::vector<double> steps(int count, double noise, double drift_a_step = 0) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) all.push_back(0.1 * (1 + noise * std::sin(1 + 12.9898 * i * i) + drift_a_step * i));
  return all;
}

constexpr double window = 1;  // ten of these steps

TEST(Steady, FewStepsSayNothing) {
  EXPECT_FALSE(is_steady({}, window));
  EXPECT_FALSE(is_steady(steps(5, 0), window));
  EXPECT_TRUE(is_steady(steps(6, 0), window));
}

TEST(Steady, TheFirstStepsDoNotCount) {
  std::vector<double> all = steps(6, 0);
  all[0] = 3;  // pages are touched for the first time
  EXPECT_TRUE(is_steady(all, window));
  all = steps(40, 0.01);
  for (std::size_t i = 0; i < 20; ++i) all[i] *= 2 - 0.05 * static_cast<double>(i);
  EXPECT_TRUE(is_steady(all, 3.8));
  EXPECT_FALSE(is_steady(all, 8)) << "less than half a window has passed";
}

TEST(Steady, ADriftIsSeenThroughLittleNoiseOnly) {
  EXPECT_FALSE(is_steady(steps(10, 0, 0.01), window));
  EXPECT_FALSE(is_steady(steps(10, 0, -0.01), window));
  EXPECT_FALSE(is_steady(steps(100, 0.01, 0.002), 10));
  EXPECT_TRUE(is_steady(steps(100, 0.5, 0.0005), 10)) << "within the noise";
  EXPECT_TRUE(is_steady(steps(101, 0, 0.00009), 10)) << "0.9 % over a window";
  EXPECT_FALSE(is_steady(steps(101, 0, 0.00012), 10)) << "1.2 % over a window, though 0.6 % over what was looked at";
}

// What the later half of the first tenth of a window shows is flat; the window would change by 8 %.
TEST(Steady, NoShortStretchPassesForFlat) {
  const std::vector<double> all = steps(1000, 0, 0.08 / 1000);
  for (const std::size_t count : {20, 100, 300, 499, 600, 1000})
    EXPECT_FALSE(is_steady({all.data(), count}, 100)) << count << " steps of a window's 1000";
}

// A machine that warms up slows down towards its end speed: the warm-up lasts until what is left of it is small.
TEST(Steady, SettlingIsWaitedFor) {
  constexpr int steps_a_window = 1000;
  const auto end_of_warm_up = [](double depth, double windows) {
    std::vector<double> all;
    for (int i = 0; i < steps_a_window; ++i) {
      all.push_back(0.1 * (1 - depth * std::exp(-i / (windows * steps_a_window))));
      if (i > 5 && is_steady(all, 0.1 * steps_a_window)) return i;
    }
    return steps_a_window;
  };
  EXPECT_LT(end_of_warm_up(0.1, 0.02), 0.65 * steps_a_window) << "soon over";
  EXPECT_GE(end_of_warm_up(0.1, 0.02), 0.5 * steps_a_window) << "never before half a window";
  EXPECT_EQ(end_of_warm_up(0.1, 0.5), steps_a_window) << "1 % a tenth of a window even at its end";
  EXPECT_LT(end_of_warm_up(0.1, 0.02), end_of_warm_up(0.1, 0.1));
}

TEST(Steady, NoiseAloneIsFlat) {
  int steady = 0;
  for (int count = 6; count < 106; ++count) steady += is_steady(steps(count, 0.05), 0.1 * count);
  EXPECT_GT(steady, 85);  // two standard errors
}

}  // namespace
}  // namespace tw
