#include "results/statistics.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

namespace tw {
namespace {

TEST(Statistics, QuantileType7) {
  const std::vector<double> v = {4, 1, 3, 2};  // h = 3·q; R's type 7 gives the same
  EXPECT_DOUBLE_EQ(quantile(v, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(v, 0.1), 1.3);
  EXPECT_DOUBLE_EQ(quantile(v, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile(v, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(v, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(quantile(v, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(std::vector<double>{7}, 0.99), 7);
  EXPECT_THROW(quantile({}, 0.5), std::invalid_argument);
  EXPECT_THROW(quantile(v, 1.1), std::invalid_argument);
}

TEST(Statistics, Slope) {
  EXPECT_DOUBLE_EQ(slope(std::vector<double>{5, 3, 1, -1}), -2);
  EXPECT_DOUBLE_EQ(slope(std::vector<double>{1, 2, 1}), 0);
  EXPECT_NEAR(slope(std::vector<double>{1, 2, 4, 3}), 0.8, 1e-15);  // (−1.5·1 − 0.5·2 + 0.5·4 + 1.5·3) / 5
  EXPECT_THROW(slope(std::vector<double>{1}), std::invalid_argument);
}

TEST(Statistics, FewerThanThreeHaveNoInterval) {
  const Estimate one = estimate(std::vector<double>{3});
  EXPECT_EQ(one.value, 3);
  EXPECT_EQ(one.statistic, "single");
  EXPECT_FALSE(one.low || one.high);
  const Estimate two = estimate(std::vector<double>{3, 5});
  EXPECT_EQ(two.value, 4);
  EXPECT_EQ(two.count, 2);
  EXPECT_FALSE(two.low || two.high);
  EXPECT_THROW(estimate({}), std::invalid_argument);
}

TEST(Statistics, StudentInterval) {
  // 11 ± 4.302652730 · 1/sqrt(3), Student's t as tabulated
  const Estimate three = estimate(std::vector<double>{10, 12, 11});
  EXPECT_EQ(three.value, 11);
  EXPECT_EQ(three.statistic, "mean");
  EXPECT_NEAR(*three.low, 8.515862288, 1e-8);
  EXPECT_NEAR(*three.high, 13.484137712, 1e-8);
  // 5 ± 2.306004135 · sqrt(7.5)/3
  const Estimate nine = estimate(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_NEAR(*nine.low, 2.894915862, 1e-8);
  EXPECT_NEAR(*nine.high, 7.105084138, 1e-8);
}

TEST(Statistics, OlympicMeanFromTen) {
  const std::vector<double> v = {100, 1, 2, 3, 4, 5, 6, 7, 8, -50};
  const Estimate e = estimate(v, 7);
  EXPECT_DOUBLE_EQ(e.value, 4.5);
  EXPECT_EQ(e.statistic, "olympic_mean");
  EXPECT_LT(*e.low, e.value);
  EXPECT_GT(*e.high, e.value);
  const Estimate again = estimate(v, 7), other = estimate(v, 8);
  EXPECT_EQ(*e.low, *again.low);
  EXPECT_EQ(*e.high, *again.high);
  EXPECT_NE(*e.low, *other.low);
  // All equal: a point.
  const Estimate equal = estimate(std::vector<double>(12, 2.0));
  EXPECT_DOUBLE_EQ(equal.value, 2);
  EXPECT_DOUBLE_EQ(*equal.low, 2);
  EXPECT_DOUBLE_EQ(*equal.high, 2);
}

/// Share of simulated experiments whose interval contains the true mean.
double coverage(int count, int experiments) {
  std::mt19937_64 random(12345);
  std::normal_distribution<double> normal(10, 2);
  int covered = 0;
  for (int e = 0; e < experiments; ++e) {
    std::vector<double> values(count);
    for (double& v : values) v = normal(random);
    const Estimate estimated = estimate(values, e);
    covered += *estimated.low <= 10 && 10 <= *estimated.high;
  }
  return static_cast<double>(covered) / experiments;
}

TEST(Statistics, StudentIntervalsCover95Percent) {
  // 20000 experiments: standard error 0.0015, bounds at four of them.
  for (int count = 3; count <= 9; ++count) EXPECT_NEAR(coverage(count, 20000), 0.95, 0.0062) << count;
}

TEST(Statistics, BootstrapIntervalsCoverMostly) {
  // A percentile bootstrap of few values is known to be too narrow: 90 % rather than 95 % at n = 10.
  const double covered = coverage(10, 1000);
  EXPECT_GT(covered, 0.85);
  EXPECT_LT(covered, 0.97);
}

}  // namespace
}  // namespace tw
