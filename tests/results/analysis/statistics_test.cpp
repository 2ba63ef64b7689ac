#include "results/analysis/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>
#include <stdexcept>

namespace tw {

using namespace results;

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

// To first order on the logarithm, so that the inverse ratio has the inverse interval, and none is below 0 however wide.
TEST(Statistics, RatiosOfPositiveFiguresStayPositive) {
  const Estimate wide{2, -0.2, 4.2, Statistic::mean, 3}, narrow{1, 0.99, 1.01, Statistic::mean, 3};
  const Estimate down = ratio(wide, narrow), up = ratio(narrow, wide);
  EXPECT_DOUBLE_EQ(down.value, 2);
  EXPECT_GT(*down.low, 0);
  EXPECT_LT(*down.low, 1);
  EXPECT_GT(*down.high, 2);
  EXPECT_DOUBLE_EQ(*up.low, 1 / *down.high);
  EXPECT_DOUBLE_EQ(*up.high, 1 / *down.low);
  EXPECT_NEAR(*ratio(narrow, narrow).high, std::exp(0.01 * std::sqrt(2.0)), 1e-12);
  EXPECT_FALSE(ratio(wide, Estimate{1, {}, {}, Statistic::single, 1}).low);
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
  EXPECT_EQ(one.statistic, Statistic::single);
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
  EXPECT_EQ(three.statistic, Statistic::mean);
  EXPECT_NEAR(*three.low, 8.515862288, 1e-8);
  EXPECT_NEAR(*three.high, 13.484137712, 1e-8);
  // 5 ± 2.306004135 · sqrt(7.5)/3
  const Estimate nine = estimate(std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_NEAR(*nine.low, 2.894915862, 1e-8);
  EXPECT_NEAR(*nine.high, 7.105084138, 1e-8);
}

TEST(Statistics, StudentIntervalsLeaveFivePercentOut) {
  // ±1 around 0 has the deviation √(n/(n − 1)) of an even n: the half width is t/√(n − 1), t of n − 1 degrees of
  // freedom.
  for (const std::size_t n : {4, 6, 8}) {
    std::vector<double> values(n, 1);
    for (std::size_t i = 0; i < n; i += 2) values[i] = -1;
    const int freedom = static_cast<int>(n) - 1;
    EXPECT_NEAR(student_t_tail(*estimate(values).high * std::sqrt(freedom), freedom), 0.05, 1e-12) << n;
  }
}

/// Against the finite series of Abramowitz and Stegun 26.7.4 in 60 digits.
TEST(Statistics, StudentTailsKeepTheirDigits) {
  struct Tail {
    double freedom, t, probability;
  };
  for (const auto& [freedom, t, probability] :
       {Tail{2, 3, 9.5465966266709126e-02}, Tail{100, 12, 4.3950877156043782e-21},
        Tail{1000, 8, 3.4266614823914745e-15}, Tail{200'000, 0.5, 6.1707562755362144e-01},
        Tail{200'000, 1.96, 4.9997176742712521e-02}, Tail{200'000, 4.5, 6.7991681844338010e-06},
        Tail{200'000, 12, 3.6475237007557828e-33}})
    EXPECT_NEAR(student_t_tail(t, freedom), probability, 1e-9 * probability) << freedom << " " << t;
}

TEST(Statistics, StudentOfTenAndMore) {
  // 4.5 with the deviation sqrt(55/6) of 0 … 9; t of 9 degrees of freedom as tabulated
  const Estimate ten = estimate(std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_DOUBLE_EQ(ten.value, 4.5);
  EXPECT_EQ(ten.statistic, Statistic::mean);
  EXPECT_NEAR(*ten.high - ten.value, 2.262157162740992 * std::sqrt(55.0 / 6 / 10), 1e-9);
  EXPECT_NEAR(ten.value - *ten.low, *ten.high - ten.value, 1e-12);
  const Estimate equal = estimate(std::vector<double>(12, 2.0));  // a point
  EXPECT_DOUBLE_EQ(equal.value, 2);
  EXPECT_DOUBLE_EQ(*equal.low, 2);
  EXPECT_DOUBLE_EQ(*equal.high, 2);
}

/// Reports of older programs are held against it.
TEST(Statistics, OlderProgramsLeftOutTheBestAndTheWorstOfTen) {
  const std::vector<double> v = {100, 1, 2, 3, 4, 5, 6, 7, 8, -50};
  const Estimate e = estimate(v, IntervalRule::olympic_bootstrap), again = estimate(v, IntervalRule::olympic_bootstrap);
  EXPECT_DOUBLE_EQ(e.value, 4.5);
  EXPECT_EQ(e.statistic, Statistic::olympic_mean);
  EXPECT_LT(*e.low, e.value);
  EXPECT_GT(*e.high, e.value);
  EXPECT_EQ(*e.low, *again.low);
  EXPECT_EQ(*e.high, *again.high);
  const std::vector<double> nine(v.begin(), v.end() - 1);
  EXPECT_EQ(estimate(nine, IntervalRule::olympic_bootstrap).high, estimate(nine).high) << "below ten there is one rule";
}

TEST(Statistics, WhatCannotBeAsked) {
  const std::vector<double> one = {1}, two = {1, 2};
  EXPECT_THROW(slope_error(two), std::invalid_argument);
  EXPECT_THROW(robust_slope(one), std::invalid_argument);
  EXPECT_THROW(trend_probability(one), std::invalid_argument);
  EXPECT_THROW(student_t_tail(-1, 3), std::invalid_argument);
  EXPECT_THROW(student_t_tail(1, 0), std::invalid_argument);
  EXPECT_THROW(student_t_tail(std::nan(""), 3), std::invalid_argument);
  EXPECT_EQ(student_t_tail(HUGE_VAL, 3), 0);
  EXPECT_TRUE(outliers({}).empty() && outliers(one).empty() && outliers(two).empty());
  EXPECT_FALSE(drift({}) || drift(one) || drift(two));
  EXPECT_FALSE(drift(std::vector<double>{1, 2, 3, 4, 5})) << "the surest order of 5 comes by chance in 1 of 60";
}

TEST(Statistics, EqualValuesAreNoTrend) {
  EXPECT_DOUBLE_EQ(trend_probability(std::vector<double>{2, 2, 2, 2, 2, 2}), 1);
  EXPECT_DOUBLE_EQ(trend_probability(std::vector<double>{1, 2, 3, 4}), 2.0 / 24);
  // 5 of 6 pairs rise: of 24 orders 3 have one falling pair and 1 none, and as many the other way round.
  EXPECT_DOUBLE_EQ(trend_probability(std::vector<double>{1, 2, 4, 3}), 8.0 / 24);
  // 5 rise, one is level: no order without ties has that strength, the next stronger have 6.
  EXPECT_DOUBLE_EQ(trend_probability(std::vector<double>{1, 2, 3, 3}), 2.0 / 24);
}

/// Of 3 values the law of the gaps is known: the greater is a share above q of the range in 1 − 6/π atan((2q − 1)/√3)
/// of normal series (Dixon 1950), one in a hundred for q = 0.99396.
TEST(Statistics, AnOutlierOfThreeIsFarOut) {
  const double q = (1 + std::sqrt(3.0) * std::tan(0.99 * std::numbers::pi / 6)) / 2;
  EXPECT_TRUE(outliers(std::vector<double>{100, 101, 101 + q / (1 - q) * 0.999}).empty());
  EXPECT_EQ(outliers(std::vector<double>{100, 101, 101 + q / (1 - q) * 1.001}), std::vector<std::size_t>{2});
  EXPECT_TRUE(outliers(std::vector<double>{40, 40.001, 38}).size() == 1);
  EXPECT_TRUE(outliers(std::vector<double>{40, 40.001, 39.5}).empty()) << "no difference that matters";
  EXPECT_TRUE(outliers(std::vector<double>{40, 41, 30}).empty()) << "three trials of a noisy machine";
}

TEST(Statistics, OneOutlierDoesNotHideAnother) {
  EXPECT_EQ(outliers(std::vector<double>{40, 20, 40.2, 39.9, 40.1, 20.3, 39.8, 40}), (std::vector<std::size_t>{1, 5}));
  EXPECT_EQ(outliers(std::vector<double>{-5, -5.01, -4.99, -5.02, -9}), std::vector<std::size_t>{4});
}

TEST(Statistics, WhatIsShorterThanATenthIsNoDrift) {
  std::vector<double> steps(200, 1.0);
  for (std::size_t i = 190; i < 200; ++i) steps[i] = 3;  // the end alone
  EXPECT_FALSE(drift(steps));
  for (std::size_t i = 0; i < 200; ++i) steps[i] = (i % 20 == 0 ? 5 : 1) + 0.0005 * static_cast<double>(i);
  EXPECT_NEAR(drift(steps).value(), 0.09 / 1.05, 0.002) << "hiccups do not hide it";
  for (double& step : steps) step = 1 / step;
  EXPECT_LT(drift(steps).value(), 0);
}

/// Share of normal series without either in which `finds` sees something; 20 % noise, so that the share matters.
template <class Finds>
double false_alarms(int count, int experiments, Finds finds) {
  std::mt19937_64 random(4711);
  std::normal_distribution<double> normal(10, 2);
  int found = 0;
  for (int e = 0; e < experiments; ++e) {
    std::vector<double> values(count);
    for (double& v : values) v = normal(random);
    found += finds(values);
  }
  return static_cast<double>(found) / experiments;
}

TEST(Statistics, FalseAlarmsAreAsRareAsPromised) {
  // 20000 experiments: standard error 0.0007, bounds at four of them.
  constexpr double slack = 0.0028;
  for (int count : {3, 4, 5, 7}) {
    const double alarms = false_alarms(count, 20000, [](const auto& v) { return !outliers(v).empty(); });
    EXPECT_NEAR(alarms, false_alarm, slack) << count;
  }
  for (int count : {8, 10, 16, 30}) {
    const double alarms = false_alarms(count, 20000, [](const auto& v) { return !outliers(v).empty(); });
    EXPECT_LT(alarms, 1.6 * false_alarm + slack) << count;
    EXPECT_GT(alarms, false_alarm - slack) << count;
  }
  for (int count : {3, 6, 10, 50}) {
    const double alarms = false_alarms(count, 20000, [](const auto& v) { return drift(v).has_value(); });
    EXPECT_LT(alarms, false_alarm + slack) << count;
    if (count < 10) continue;
    EXPECT_GT(alarms, false_alarm / 2) << count;
  }
}

/// Share of simulated experiments whose interval contains the true mean.
template <class Draw>
double coverage(int count, int experiments, double truth, Draw draw) {
  std::mt19937_64 random(12345);
  int covered = 0;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (int e = 0; e < experiments; ++e) {
    for (double& v : values) v = draw(random);
    const Estimate estimated = estimate(values);
    covered += *estimated.low <= truth && truth <= *estimated.high;
  }
  return static_cast<double>(covered) / experiments;
}

TEST(Statistics, IntervalsCover95PercentOfNormalTrials) {
  std::normal_distribution<double> normal(10, 2);
  // 20000 experiments: standard error 0.0015, bounds at four of them.
  for (const int count : {3, 4, 5, 6, 7, 8, 9, 10, 12, 20, 40})
    EXPECT_NEAR(coverage(count, 20000, 10, [&](auto& random) { return normal(random); }), 0.95, 0.0062) << count;
}

/// The true mean of a lognormal distribution is exp(sigma² / 2), however long its tail is.
TEST(Statistics, IntervalsCover91PercentOfSkewedTrials) {
  std::lognormal_distribution<double> skewed(0, 0.5);
  for (const int count : {5, 10, 20}) {
    const double share = coverage(count, 40000, std::exp(0.125), [&](auto& random) { return skewed(random); });
    EXPECT_GE(share, 0.91) << count;
    EXPECT_LE(share, 0.96) << count;
  }
}

/// Of what is paid by the hour and by the joule, with noise of a fifth that both share in part.
TEST(Statistics, IntervalsOfWhatIsPaidCover95Percent) {
  std::mt19937_64 random(12345);
  std::normal_distribution<double> normal(0, 1);
  for (const int count : {3, 5, 9, 15}) {
    int covered = 0;
    constexpr int experiments = 10000;
    for (int e = 0; e < experiments; ++e) {
      std::vector<Paid> paid = {{30, {}}, {7, {}}};
      for (int trial = 0; trial < count; ++trial) {
        const double common = normal(random);
        paid[0].rates.push_back(10 + 1.5 * common), paid[1].rates.push_back(7 + 0.7 * common + 0.7 * normal(random));
      }
      const Estimate estimated = estimate_of_paid(paid, 0);
      covered += *estimated.low <= 4 && 4 <= *estimated.high;
    }
    EXPECT_NEAR(static_cast<double>(covered) / experiments, 0.95, 0.012) << count;  // first order: a little too narrow
  }
}

TEST(Estimate, OfWhatIsPaidIsAtTheMeanRates) {
  const std::vector<Paid> hours = {{6, {1, 2, 3}}};
  const Estimate e = estimate_of_paid(hours, 0);
  EXPECT_DOUBLE_EQ(e.value, 3);
  EXPECT_EQ(e.statistic, Statistic::mean);
  const double half = 4.302652729696142 * 0.5 / std::sqrt(3.0);  // t × the rates' relative standard error
  EXPECT_DOUBLE_EQ(*e.low, 3 * std::exp(-half));
  EXPECT_DOUBLE_EQ(*e.high, 3 * std::exp(half));
  const Estimate wider = estimate_of_paid(hours, 0.3);
  EXPECT_DOUBLE_EQ(*wider.high, 3 * std::exp(std::hypot(half, 0.3)));
  const std::vector<Paid> both = {{6, {1, 2, 3}}, {2, {3, 2, 1}}};  // what is saved of the one is paid of the other
  const Estimate sum = estimate_of_paid(both, 0);
  EXPECT_DOUBLE_EQ(sum.value, 4);
  EXPECT_DOUBLE_EQ(*sum.high, 4 * std::exp(half / 2)) << "three quarters of it less one quarter";
  const std::vector<Paid> two = {{6, {1, 3}}}, nothing = {{0, {1, 2, 3}}}, uneven = {{6, {1, 2}}, {2, {1, 2, 3}}};
  EXPECT_FALSE(estimate_of_paid(two, 0).low);
  EXPECT_EQ(estimate_of_paid(nothing, 0).high, 0);
  EXPECT_THROW(estimate_of_paid(uneven, 0), std::invalid_argument);
  EXPECT_THROW(estimate_of_paid({}, 0), std::invalid_argument);
  const std::vector<Paid> ten = {{6, {1, 2, 3, 2, 2, 2, 2, 2, 2, 2}}};
  const Estimate of_ten = estimate_of_paid(ten, 0);
  EXPECT_DOUBLE_EQ(of_ten.value, 3);
  EXPECT_EQ(of_ten.statistic, Statistic::mean);
  EXPECT_NEAR(std::log(*of_ten.high / 3), 2.262157162740992 * std::sqrt(2 * 0.25 / 9 / 10), 1e-9);
}

TEST(Estimate, NoValueIsDropped) {
  const std::vector<double> values = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 12};
  EXPECT_EQ(estimate(values).value, 2);
  EXPECT_EQ(estimate(values, IntervalRule::olympic_bootstrap).value, 1);
  const Estimate all = estimate_of_all(values, IntervalRule::olympic_bootstrap);
  EXPECT_EQ(all.value, 2);
  EXPECT_EQ(all.statistic, Statistic::mean);
  EXPECT_EQ(all.count, 11);
  EXPECT_LT(*all.low, 2);
  EXPECT_GT(*all.high, 3) << "the worst is in some resamples more than once";
  EXPECT_EQ(estimate_of_all(values).low, estimate(values).low);
}

TEST(Estimate, ACommonHalfWidthJoinsInQuadrature) {
  Estimate e = estimate(std::vector<double>{9, 10, 11});
  const double low = *e.low, high = *e.high;
  widen(e, 0.3);
  EXPECT_DOUBLE_EQ(*e.low, 10 - std::hypot(10 - low, 3));
  EXPECT_DOUBLE_EQ(*e.high, 10 + std::hypot(high - 10, 3));
  Estimate two = estimate(std::vector<double>{9, 11});
  widen(two, 0.3);
  EXPECT_FALSE(two.low) << "no claim becomes one";
}

}  // namespace
}  // namespace tw
