// The statistics of a comparison: exact by hand, and whether their intervals hold the truth as often as they say.
#include "results/compare/ratio.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "results/analysis/statistics.hpp"
#include "tests/results/compare/noise.hpp"

namespace tw {

using namespace results;
using testing::Noise;

namespace {

LogSample sample(std::vector<double> logs, double common = 0, bool drop = false) {
  return {std::move(logs), common, drop};
}

TEST(Contrast, StudentQuantileOfAnyDegreesOfFreedom) {
  EXPECT_NEAR(student_t_quantile(0.975, 4), 2.7764451051977987, 1e-11);
  EXPECT_NEAR(student_t_quantile(0.975, 1), 12.706204736174694, 1e-9);  // tan(0.475 pi)
  EXPECT_NEAR(student_t_quantile(0.975, 1e9), 1.959963984540054, 1e-6);
  EXPECT_NEAR(student_t_quantile(0.5, 3), 0, 1e-12);
  for (const int freedom : {2, 3, 9, 40})
    for (const double p : {0.8, 0.975, 0.999})
      EXPECT_NEAR(student_t_tail(student_t_quantile(p, freedom), freedom), 2 * (1 - p), 1e-11) << freedom << " " << p;
  for (const double freedom : {0.7, 2.5, 50.0 / 17}) {  // the density integrated by Simpson's rule
    const double t = student_t_quantile(0.975, freedom);
    const double front =
        std::tgamma((freedom + 1) / 2) / (std::sqrt(freedom * std::numbers::pi) * std::tgamma(freedom / 2));
    const auto density = [&](double x) { return front * std::pow(1 + x * x / freedom, -(freedom + 1) / 2); };
    constexpr int steps = 200'000;
    double sum = density(0) + density(t);
    for (int i = 1; i < steps; ++i) sum += (i % 2 == 1 ? 4 : 2) * density(t * i / steps);
    EXPECT_NEAR(0.5 + sum * t / steps / 3, 0.975, 1e-9) << freedom;
  }
  EXPECT_THROW(student_t_quantile(0.4, 3), std::invalid_argument);
  EXPECT_THROW(student_t_quantile(0.9, 0), std::invalid_argument);
}

TEST(Contrast, WelchByHand) {
  const Contrast c = independent(sample({1, 2, 3}, 0.03), sample({2, 4, 6}, 0.04));
  EXPECT_DOUBLE_EQ(c.value, 2);
  EXPECT_DOUBLE_EQ(c.variance, 1.0 / 3 + 4.0 / 3);
  EXPECT_NEAR(c.freedom, 50.0 / 17, 1e-12);  // (5/3)^2 / ((1/3)^2/2 + (4/3)^2/2)
  EXPECT_DOUBLE_EQ(c.common, 0.05);
  EXPECT_EQ(c.replicates, 3);
  EXPECT_DOUBLE_EQ(c.least, -1);
  EXPECT_DOUBLE_EQ(c.most, 5);
  EXPECT_NEAR(half_width(c), std::hypot(student_t_quantile(0.975, 50.0 / 17) * std::sqrt(5.0 / 3), 0.05), 1e-12);
  const Contrast back = independent(sample({2, 4, 6}), sample({1, 2, 3}));
  EXPECT_DOUBLE_EQ(back.value, -2) << "the inverse ratio has the inverse interval";
  EXPECT_DOUBLE_EQ(back.freedom, c.freedom);
}

TEST(Contrast, PairedByHand) {
  const Contrast c = paired(sample({1, 5, 9}), sample({1.1, 5.2, 9.3}));
  EXPECT_NEAR(c.value, 0.2, 1e-12);
  EXPECT_NEAR(c.variance, 0.01 / 3, 1e-12) << "what moved both is in none";
  EXPECT_DOUBLE_EQ(c.freedom, 2);
  EXPECT_NEAR(c.least, 0.1, 1e-12);
  EXPECT_NEAR(c.most, 0.3, 1e-12);
}

TEST(Contrast, FromTenOnBestAndWorstAreLeftOut) {
  const std::vector<double> zero(10, 0), ten = {-99, 1, 2, 3, 4, 5, 6, 7, 8, 1000};
  const Contrast c = independent(sample(zero, 0, true), sample(ten, 0, true));
  EXPECT_DOUBLE_EQ(c.value, 4.5);
  EXPECT_DOUBLE_EQ(c.variance, 66.5 / 56) << "of 1 1 2 3 4 5 6 7 8 8: sum of squares 66.5, over 8 x 7";
  EXPECT_NEAR(c.freedom, 7, 1e-12);
  EXPECT_DOUBLE_EQ(independent(sample(zero), sample(ten)).value, 93.7) << "runs to a target keep their worst";
  EXPECT_DOUBLE_EQ(paired(sample(zero, 0, true), sample(ten, 0, true)).value, 4.5);
  const std::vector<double> nine(ten.begin(), ten.end() - 1);
  EXPECT_DOUBLE_EQ(independent(sample(zero, 0, true), sample(nine, 0, true)).value, -7) << "below ten all count";
}

TEST(Contrast, WeightedByHand) {
  const Contrast contrasts[] = {{1, 0.04, 4, 0.1, 5, 0.5, 1.5}, {3, 0.01, 8, 0.2, 9, 2, 4}};
  const double weights[] = {0.75, 0.25};
  const Contrast c = weighted(contrasts, weights);
  EXPECT_DOUBLE_EQ(c.value, 1.5);
  const double a = 0.5625 * 0.04, b = 0.0625 * 0.01;
  EXPECT_DOUBLE_EQ(c.variance, a + b);
  EXPECT_DOUBLE_EQ(c.freedom, (a + b) * (a + b) / (a * a / 4 + b * b / 8));
  EXPECT_DOUBLE_EQ(c.common, 0.125) << "sensors may err alike in all: added up";
  EXPECT_EQ(c.replicates, 5);
  EXPECT_DOUBLE_EQ(c.least, 0.875);
}

TEST(Contrast, OfRunsByHand) {
  const Contrast c = of_runs(sample({1, 2, 3}, 0.03), sample({2, 4, 6, 4}, 0.04));
  EXPECT_DOUBLE_EQ(c.value, 2);
  EXPECT_DOUBLE_EQ(c.variance, 1.0 / 3 + 8.0 / 3 / 4);
  EXPECT_DOUBLE_EQ(c.freedom, 2) << "the fewer of 2 and 3";
  EXPECT_DOUBLE_EQ(c.common, 0.05);
  EXPECT_FALSE(c.single_run);
  // One run each: the spread of earlier runs, about the mean of each group.
  LogSample a = sample({1}), b = sample({2});
  EXPECT_EQ(of_runs(a, b).freedom, 0) << "nobody knows how they differ";
  a.earlier = {{5, 6, 7}, {50, 52}};
  EXPECT_EQ(of_runs(a, b).freedom, 0) << "of one side alone it is not enough";
  b.earlier = a.earlier;
  const Contrast learned = of_runs(a, b);
  EXPECT_DOUBLE_EQ(learned.variance, 2 * 4.0 / 3) << "squares 2 and 2, 2 and 1 degrees of freedom";
  EXPECT_DOUBLE_EQ(learned.freedom, 3) << "the same runs twice are no more of them";
  b.within = 10;
  EXPECT_DOUBLE_EQ(of_runs(a, b).variance, 4.0 / 3 + 10) << "no less than what its trials show";
  // Several runs and earlier ones: pooled.
  a = sample({1, 3}), a.earlier = {{5, 6, 7}};
  EXPECT_DOUBLE_EQ(of_runs(a, sample({0, 0, 0, 0, 0})).variance, 4.0 / 3 / 2);
  EXPECT_DOUBLE_EQ(of_runs(a, sample({0, 0, 0, 0, 0})).freedom, 3);
}

TEST(Contrast, OneReplicateHasNoDegreesOfFreedom) {
  EXPECT_EQ(independent(sample({1}), sample({1, 2, 3})).freedom, 0);
  EXPECT_EQ(paired(sample({1}), sample({2})).freedom, 0);
}

TEST(Contrast, SensorsMayBeTooCoarseForAnyNumberOfTrials) {
  Contrast c{0.01, 0.0001, 8, 0, 5, -0.1, 0.1};
  const std::optional<int> needed = replicates_needed(c, 1000);
  ASSERT_TRUE(needed);
  // n x 0.01^2 = 5 x 0.0001 x (t + t)^2: about 5 x 7.85, more for Student's t
  EXPECT_GT(*needed, 39);
  EXPECT_LT(*needed, 42);
  c.common = 0.02;
  EXPECT_FALSE(replicates_needed(c, 1000)) << "the difference is half of what the sensors may be off";
  c.common = 0, c.value = 1e-6;
  EXPECT_EQ(replicates_needed(c, 1000), 1000) << "as many or more";
}

constexpr int comparisons = 2000;
constexpr double truth = 0.05;

/// In how many of 2,000 comparisons the interval holds the truth, as a share.
template <class Make>
double coverage(Make make) {
  Noise noise(20260301);
  int held = 0;
  for (int i = 0; i < comparisons; ++i) {
    const Contrast c = make(noise);
    held += std::abs(c.value - truth) <= half_width(c);
  }
  return static_cast<double>(held) / comparisons;
}
void expect_nominal(double share, const std::string& what) {
  EXPECT_GE(share, 0.93) << what;
  EXPECT_LE(share, 0.97) << what;
}

/// Blocks that drift: a trend and a random walk ten times as large as the noise, the same for both systems of a block.
std::pair<LogSample, LogSample> drifting_blocks(Noise& noise, int count) {
  LogSample a, b;
  a.drop_extremes = b.drop_extremes = true;
  double block = 0;
  for (int i = 0; i < count; ++i) {
    block += 0.01 + 0.1 * noise.normal();
    a.logs.push_back(block + 0.01 * noise.normal());
    b.logs.push_back(block + truth + 0.015 * noise.normal());
  }
  return {a, b};
}

TEST(Coverage, PairedOverDriftingBlocks) {
  for (const int count : {5, 10}) {
    expect_nominal(coverage([&](Noise& noise) {
                     const auto [a, b] = drifting_blocks(noise, count);
                     return paired(a, b);
                   }),
                   std::to_string(count) + " blocks");
    // Not paired, the drift is in the interval, which then shows nothing.
    EXPECT_GT(coverage([&](Noise& noise) {
                const auto [a, b] = drifting_blocks(noise, count);
                return independent(a, b);
              }),
              0.99);
  }
}

TEST(Coverage, IndependentTrialsOfUnequalSpread) {
  for (const int count : {5, 10})
    for (const double spread : {0.01, 0.03})
      expect_nominal(coverage([&](Noise& noise) {
                       LogSample a, b;
                       a.drop_extremes = b.drop_extremes = true;
                       for (int i = 0; i < count; ++i) {
                         a.logs.push_back(0.01 * noise.normal());
                         b.logs.push_back(truth + spread * noise.normal());
                       }
                       return independent(a, b);
                     }),
                     std::to_string(count) + " trials, spread " + std::to_string(spread));
}

/// Runs that differ by more than their trials do: taken as the unit they cover; their trials thrown together would not.
TEST(Coverage, RunsAreTheUnitWhereTheyDiffer) {
  constexpr int trials = 5;
  for (const int runs : {5, 10}) {
    const auto make = [&](Noise& noise, bool of_trials) {
      LogSample samples[2];
      for (int system = 0; system < 2; ++system)
        for (int run = 0; run < runs; ++run) {
          const double level = (system == 1 ? truth : 0) + 0.02 * noise.normal();
          double mean = 0;
          for (int i = 0; i < trials; ++i) {
            const double log = level + 0.005 * noise.normal();
            mean += log / trials;
            if (of_trials) samples[system].logs.push_back(log);
          }
          if (!of_trials) samples[system].logs.push_back(mean);
        }
      return independent(samples[0], samples[1]);
    };
    expect_nominal(coverage([&](Noise& noise) { return make(noise, false); }), std::to_string(runs) + " runs");
    EXPECT_LT(coverage([&](Noise& noise) { return make(noise, true); }), 0.8);
  }
}

/// What a tender rests on: whatever the two spreads and the numbers of runs are, no more than 5 % of the intervals
/// miss.
TEST(Coverage, OfRunsIsNeverBelow95Percent) {
  for (const int runs_a : {2, 3, 5, 10})
    for (const int runs_b : {2, 5})
      for (const double spread : {0.003, 0.03, 0.1}) {
        const double share = coverage([&](Noise& noise) {
          LogSample a, b;
          a.drop_extremes = b.drop_extremes = true;
          for (int i = 0; i < runs_a; ++i) a.logs.push_back(0.03 * noise.normal());
          for (int i = 0; i < runs_b; ++i) b.logs.push_back(truth + spread * noise.normal());
          return of_runs(a, b);
        });
        EXPECT_GE(share, 0.95 - 3 * 0.0049) << runs_a << ", " << runs_b << ", " << spread;  // three standard errors
      }
}

/// One run each, with the spread of earlier runs of the machine, which both take.
TEST(Coverage, OfSingleRunsByEarlierOnes) {
  for (const int earlier : {2, 3, 6, 12}) {
    const double share = coverage([&](Noise& noise) {
      LogSample a, b;
      a.logs = {0.03 * noise.normal()}, b.logs = {truth + 0.03 * noise.normal()};
      std::vector<double> group;
      for (int i = 0; i < earlier; ++i) group.push_back(7 + 0.03 * noise.normal());
      a.earlier = b.earlier = {group};
      return of_runs(a, b);
    });
    expect_nominal(share, std::to_string(earlier) + " earlier runs");
  }
}

TEST(Coverage, WeightedMeansOverWorkloads) {
  for (const int count : {5, 10})
    expect_nominal(coverage([&](Noise& noise) {
                     std::vector<Contrast> rows;
                     for (const double spread : {0.01, 0.02, 0.04}) {
                       LogSample a, b;
                       for (int i = 0; i < count; ++i) {
                         a.logs.push_back(spread * noise.normal());
                         b.logs.push_back(truth + spread * noise.normal());
                       }
                       rows.push_back(independent(a, b));
                     }
                     const double weights[] = {0.5, 0.3, 0.2};
                     return weighted(rows, weights);
                   }),
                   std::to_string(count) + " trials");
}

/// The least detectable difference is one that 8 of 10 comparisons show.
TEST(Coverage, WhatIsDetectableIsDetected) {
  for (const int count : {5, 10}) {
    constexpr double spread = 0.01;
    const Contrast of_truth{0, 2 * spread * spread / count, 2.0 * (count - 1), 0, count, 0, 0};
    const double difference = std::log1p(detectable_share(of_truth));
    Noise noise(7);
    int shown = 0;
    for (int i = 0; i < comparisons; ++i) {
      LogSample a, b;
      for (int k = 0; k < count; ++k) {
        a.logs.push_back(spread * noise.normal());
        b.logs.push_back(difference + spread * noise.normal());
      }
      const Contrast c = independent(a, b);
      shown += c.value > half_width(c);
    }
    EXPECT_NEAR(static_cast<double>(shown) / comparisons, 0.8, 0.04) << count;
  }
}

}  // namespace
}  // namespace tw
