#include "power/meter/integrator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <system_error>

namespace tw {

using namespace power;

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Constant power makes the trapezoids exact whatever the scheduling.
TEST(PowerIntegrator, AddsConstantPowerExactly) {
  PowerIntegrator integrator("fake", [] { return 64.0; }, {0.001, 1000, true});
  const EnergySample from = integrator.read();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const EnergySample to = integrator.read();
  const double expected = 64 * seconds(from.time, to.time);
  EXPECT_NEAR(integrator.joules_between(from, to), expected, 1e-9 * expected);
  EXPECT_GT(to.time, from.time);
}

TEST(PowerIntegrator, TakesTrapezoidsBetweenSamples) {
  double watts = 100;
  PowerIntegrator integrator("fake", [&] { return watts; }, {3600, 1000, true});
  const EnergySample from = integrator.read();
  watts = 300;
  const EnergySample to = integrator.read();
  EXPECT_NEAR(to.joules - from.joules, 200 * seconds(from.time, to.time), 1e-9);
}

TEST(PowerIntegrator, SamplesASlowSensorInTheBackground) {
  std::atomic<int> calls{0};
  PowerIntegrator integrator("fake", [&] { return ++calls, 1.0; }, {0.001, 1000, false});
  while (calls < 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // else CTest's time limit
  EXPECT_GT(integrator.cpu_seconds(), 0);
}

TEST(PowerIntegrator, LeavesAQuickSensorToItsReaders) {
  std::atomic<int> calls{0};
  PowerIntegrator integrator("fake", [&] { return ++calls, 1.0; }, {0.001, 1000, true});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(integrator.cpu_seconds(), 0);
}

TEST(PowerIntegrator, HoldsTheLastPowerOfASlowSensor) {
  std::atomic<int> calls{0};
  PowerIntegrator integrator("fake", [&] { return ++calls, 50.0; }, {3600, 1000, false});
  const EnergySample from = integrator.read();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const EnergySample to = integrator.read();
  EXPECT_EQ(calls, 1);
  EXPECT_NEAR(integrator.joules_between(from, to), 50 * seconds(from.time, to.time), 1e-9);
}

TEST(PowerIntegrator, NeverStepsBack) {
  std::atomic<double> watts{1000};
  std::atomic<int> calls{0};
  PowerIntegrator integrator("fake",
                             [&] {
                               ++calls;
                               return watts.exchange(0);  // what was held at 1000 W is less by the trapezoid
                             },
                             {0.01, 1000, false});
  double last = 0;
  while (calls < 4) {
    const double now = integrator.read().joules;
    ASSERT_GE(now, last);
    last = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(PowerIntegrator, ASensorThatStopsAnsweringIsLostForThatTimeAlone) {
  bool fails = false;
  PowerIntegrator integrator("fake:0",
                             [&] {
                               if (fails) throw std::system_error(5, std::generic_category(), "fake:0");
                               return 1.0;
                             },
                             {3600, 1000, true});
  const EnergySample before = integrator.read(), last = integrator.read();
  fails = true;
  EXPECT_THROW(integrator.read(), std::system_error);
  fails = false;
  const EnergySample after = integrator.read(), end = integrator.read();
  EXPECT_NEAR(integrator.joules_between(before, last), seconds(before.time, last.time), 1e-12);
  EXPECT_NEAR(integrator.joules_between(after, end), seconds(after.time, end.time), 1e-12);
  try {
    integrator.joules_between(last, end);
    FAIL() << "what it used meanwhile is not known";
  } catch (const WindowUnknown& unknown) {
    EXPECT_EQ(unknown.reason, "lost");
  }
}

TEST(PowerIntegrator, TakesNoPowerForWhatIsNone) {
  for (const double watts : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(PowerIntegrator("fake", [&] { return watts; }), std::system_error) << watts;
}

TEST(PowerIntegrator, ALateSampleIsTheWindowsPeriod) {
  PowerIntegrator integrator("fake", [] { return 1.0; }, {0.001, 1000, true});
  const EnergySample before = integrator.read();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const EnergySample late = integrator.read(), after = integrator.read();
  EXPECT_NEAR(integrator.longest_period_seconds(before, late), seconds(before.time, late.time), 1e-9);
  EXPECT_GE(integrator.longest_period_seconds(before, after), 0.02) << "whatever came in time behind it";
  EXPECT_NEAR(integrator.longest_period_seconds(late, after), std::max(0.001, seconds(late.time, after.time)), 1e-9)
      << "it was before this window";
}

TEST(PowerIntegrator, HasNoJoulesForAWindowWithAGap) {
  // Any two samples are further apart than the longest gap allowed here.
  PowerIntegrator integrator("fake", [] { return 1.0; }, {3600, 0, true});
  const EnergySample from = integrator.read();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const EnergySample to = integrator.read();
  try {
    integrator.joules_between(from, to);
    FAIL() << "a gap went unseen";
  } catch (const WindowUnknown& unknown) {
    EXPECT_EQ(unknown.reason, "gap");
  }
  // A window before it is not touched.
  EXPECT_DOUBLE_EQ(integrator.joules_between(from, from), 0);
}

}  // namespace
}  // namespace tw
