// Whether a window's joules are believed, over counters and readings of a simulated clock.
#include "power/meter/interval_judge.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>

#include "power/meter/ledger.hpp"
#include "power/meter/sensor_meter.hpp"
#include "tests/power/fake_meter.hpp"

namespace tw {

using namespace power;

namespace {

using Random = std::mt19937_64;
double uniform(Random& random, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

/// What happens to the counter's value, or to its updates.
struct Event {
  double at = 0;
  std::function<std::uint64_t(std::uint64_t)> set = {};  ///< the value that it has from then on
  double stops_seconds = 0;                              ///< no update, and what is used meanwhile is lost
};

struct Trace {
  double seconds = 20, warm_up_seconds = 1;
  double update_seconds = 0.001, update_jitter = 0;  ///< a share of the period, either way
  double sample_jitter_seconds = 0;                  ///< how late a reading is at most
  std::uint64_t range_uj = 65'532'610'987, first_uj = 0;
  double maximum_watts = 1000;
  bool states_maximum = false;
  std::function<double(double)> watts = [](double) { return 150.0; };  ///< by time; 0 is the window's start
  std::optional<Event> event = {};
};

struct Judged {
  LedgerRow row;
  double true_joules = 0;
  bool covers() const {
    return row.energy_joules && row.counted &&
           std::abs(*row.energy_joules - true_joules) <= *row.uncertainty_joules + 1e-6;
  }
};

EnergySnapshot snapshot(const EnergySample& sample, std::optional<WindowFinding> found = {}) {
  EnergySnapshot one;
  one.time = sample.time;
  one.readings.push_back({sample, "", "", 0, std::move(found)});
  one.readings.push_back({std::nullopt, "no_driver", "nothing there", 0, {}});
  return one;
}

std::chrono::steady_clock::time_point time_of(double seconds) {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(1000 + seconds)));
}

class StatedMeter : public FakeMeter {
 public:
  StatedMeter(double update_seconds, double maximum_watts, bool states)
      : FakeMeter(std::make_shared<FakeState>(), 1e9, update_seconds, maximum_watts), states_(states) {}
  bool maximum_power_is_default() const override { return !states_; }

 private:
  bool states_;
};

/// Plays the counter, the sampler (each 0.1 s, and at the window's two edges) and the ledger, as one after the other.
Judged play(const Trace& trace, Random& random) {
  std::vector<MeterFinding> findings(2);
  findings[0].domain = "fake:0";
  findings[0].counted = true;
  findings[1].domain = "other", findings[1].reason = "no_driver";
  // What was seen when the meter was opened: here the longest time that the jitter leaves between two updates.
  const double known_seconds = trace.update_seconds * (1 + trace.update_jitter);
  findings[0].meter = std::make_unique<StatedMeter>(known_seconds, trace.maximum_watts, trace.states_maximum);
  IntervalJudge judge(EnergyMethod::counter, known_seconds, trace.maximum_watts, !trace.states_maximum);

  constexpr double step = 0.0005;  // of the integration
  double now = -trace.warm_up_seconds, used_uj = 0, lost_uj = 0, true_uj = 0, shown_uj = 0;
  double next_update = now;
  std::uint64_t shown = trace.first_uj;
  WrapCounter counter(shown, trace.range_uj);
  std::optional<Event> event = trace.event;
  double stopped_until = -1e9;
  const auto run_until = [&](double until) {
    while (now + step / 2 < until) {
      if (event && now >= event->at) {
        if (event->set) shown = event->set(shown);
        if (event->stops_seconds > 0) stopped_until = now + event->stops_seconds;
        event.reset();
      }
      const double joules = 1e6 * trace.watts(now) * step;
      used_uj += joules;
      if (now >= 0 && now < trace.seconds) true_uj += joules;
      if (now < stopped_until) lost_uj += joules;
      now += step;
      if (now < next_update) continue;
      next_update = now + trace.update_seconds * (1 + uniform(random, -trace.update_jitter, trace.update_jitter));
      if (now < stopped_until) continue;
      const auto grown = static_cast<std::uint64_t>(used_uj - lost_uj - shown_uj);
      shown = (shown + grown) % trace.range_uj;
      shown_uj += static_cast<double>(grown);
    }
  };
  const auto read = [&] {
    const double joules = 1e-6 * static_cast<double>(counter.feed(shown));
    const EnergySample sample{time_of(now), joules, counter.wraps(), shown};
    judge.feed(sample, 20e-6);
    return sample;
  };
  const auto sample_until = [&](double until) {
    for (double deadline = now + 0.1; deadline < until; deadline += 0.1) {
      const double at = deadline + uniform(random, 0, trace.sample_jitter_seconds);
      if (at <= now || at >= until) continue;  // a deadline that was missed is not made up for
      run_until(at);
      read();
    }
    run_until(until);
  };
  read();
  sample_until(0);
  const EnergySample from = read();
  judge.begin();
  sample_until(trace.seconds);
  const EnergySample to = read();
  Judged judged;
  judged.true_joules = 1e-6 * true_uj;
  judged.row = make_ledger(findings, snapshot(from), snapshot(to, judge.end())).at(0);
  return judged;
}

/// Steps from 50 to 700 W, at random times, with bursts.
std::function<double(double)> random_watts(Random& random) {
  std::vector<std::pair<double, double>> steps;  // from then on
  for (double at = -10; at < 100; at += uniform(random, 0.05, 6)) {
    steps.emplace_back(at, uniform(random, 0, 1) < 0.5 ? 50 : uniform(random, 50, 700));
    if (uniform(random, 0, 1) < 0.3) steps.emplace_back(at += uniform(random, 0.005, 0.2), 700);  // a burst begins
  }
  return [steps = std::move(steps)](double now) {
    const auto next = std::upper_bound(steps.begin(), steps.end(), std::pair(now, 1e9));
    return next == steps.begin() ? 50 : std::prev(next)->second;
  };
}

Trace random_trace(Random& random) {
  Trace trace;
  trace.seconds = uniform(random, 3, 20);
  trace.watts = random_watts(random);
  const double periods[] = {0.001, 0.001, 0.01, 0.1};
  trace.update_seconds = periods[random() % 4];
  trace.update_jitter = uniform(random, 0, 0.5);
  trace.sample_jitter_seconds = random() % 4 == 0 ? uniform(random, 0, 0.5) : 0.005;
  trace.range_uj = random() % 2 == 0 ? 65'532'610'987 : 262'143'328'850;
  trace.first_uj = random() % trace.range_uj;
  trace.states_maximum = random() % 2 == 0;
  if (trace.states_maximum) trace.maximum_watts = 700;
  return trace;
}

std::string shown(const Judged& judged, int number) {
  return "trace " + std::to_string(number) + ": " + judged.row.reason + " " + judged.row.detail + ": " +
         std::to_string(judged.row.energy_joules.value_or(-1)) + " +- " +
         std::to_string(judged.row.uncertainty_joules.value_or(-1)) + " J, true " + std::to_string(judged.true_joules);
}

TEST(IntervalJudge, RaisesNoFalseAlarmInAThousandTraces) {
  Random random(15);
  int covered = 0;
  for (int number = 0; number < 1000; ++number) {
    const Judged judged = play(random_trace(random), random);
    ASSERT_EQ(judged.row.reason, "") << shown(judged, number);
    covered += judged.covers();
  }
  EXPECT_GE(covered, 970) << "all but for bursts at an edge that are shorter than the time between two readings";
}

TEST(IntervalJudge, WhatACounterThatWasSetLeavesIsNullOrHoldsTheTruth) {
  Random random(16);
  int resets = 0, excluded = 0;
  for (int number = 0; number < 500; ++number) {
    Trace trace = random_trace(random);
    const std::uint64_t range = trace.range_uj;
    Event event{uniform(random, 0, trace.seconds)};
    switch (random() % 3) {
      case 0:  // back, by more than it counts between two readings: less does not show
        trace.sample_jitter_seconds = 0.005;
        event.set = [=, back = 250'000'000 + random() % 1'000'000'000](std::uint64_t value) {
          return (value + range - back) % range;
        };
        break;
      case 1:  // to zero
        event.set = [](std::uint64_t) { return std::uint64_t{0}; };
        break;
      default:  // to anywhere
        event.set = [other = random() % range](std::uint64_t) { return other; };
    }
    trace.event = event;
    const Judged judged = play(trace, random);
    resets += judged.row.reason == "reset";
    if (judged.row.reason != "reset") {
      excluded += !judged.covers();
      continue;
    }
    ASSERT_FALSE(judged.row.energy_joules) << shown(judged, number);
    ASSERT_EQ(judged.row.wraps, 0) << shown(judged, number);
  }
  EXPECT_GT(resets, 480);
  EXPECT_EQ(excluded, 0);
}

TEST(IntervalJudge, WhatACounterThatStoppedLeavesIsNullOrHoldsTheTruth) {
  Random random(17);
  int stalled = 0, excluded = 0;
  for (int number = 0; number < 500; ++number) {
    Trace trace = random_trace(random);
    trace.sample_jitter_seconds = 0.005;
    // But for the last two readings, in which no two can show the same value.
    Event event{uniform(random, 0, trace.seconds - 0.25)};
    event.stops_seconds = random() % 3 == 0 ? 1e9 : uniform(random, 0.25, 3);  // for good, or for a while
    trace.event = event;
    const Judged judged = play(trace, random);
    if (judged.row.energy_joules) {
      excluded += !judged.covers();
      continue;
    }
    ASSERT_TRUE(judged.row.reason == "stalled" || judged.row.reason == "not_updated") << shown(judged, number);
    stalled += judged.row.reason == "stalled";
  }
  EXPECT_GT(stalled, 350);
  EXPECT_LE(excluded, 5) << "where it drew more in a short stop than ever before or after";
}

TEST(IntervalJudge, ACounterThatIsUpdatedOnceASecondHoldsTheTruth) {
  Random random(18);
  for (int number = 0; number < 300; ++number) {
    Trace trace = random_trace(random);
    trace.update_seconds = 1, trace.update_jitter = 0.02;
    trace.warm_up_seconds = uniform(random, 2, 3.5);
    trace.seconds = uniform(random, 1.1, 20);
    const double watts = uniform(random, 50, 700);
    trace.watts = [=](double) { return watts; };
    const Judged judged = play(trace, random);
    ASSERT_TRUE(judged.row.reason == "" && judged.covers()) << shown(judged, number);
  }
}

TEST(IntervalJudge, TellsAResetFromAWrap) {
  Random random(1);
  Trace wrapping;
  wrapping.first_uj = wrapping.range_uj - 1'000'000'000;  // 1000 J before: wraps after 6 s
  const Judged wrapped = play(wrapping, random);
  EXPECT_EQ(wrapped.row.reason, "") << wrapped.row.detail;
  EXPECT_EQ(wrapped.row.wraps, 1);
  EXPECT_TRUE(wrapped.covers()) << shown(wrapped, 0);
  EXPECT_LT(*wrapped.row.uncertainty_joules, 0.01 * wrapped.true_joules);

  for (const bool states : {false, true}) {
    Trace reset = wrapping;
    reset.states_maximum = states;
    // 20 J back, in the middle and just before the wrap.
    for (const double at : {3.0, 6.6}) {
      reset.event = Event{at, [](std::uint64_t value) { return value - 20'000'000; }};
      const Judged judged = play(reset, random);
      EXPECT_EQ(judged.row.reason, "reset") << at << " s: " << shown(judged, 0);
      EXPECT_FALSE(judged.row.energy_joules);
      EXPECT_EQ(judged.row.wraps, 0);
    }
    // And in the very interval in which it wraps.
    reset.event = Event{6.68, [&](std::uint64_t) { return std::uint64_t{30'000'000'000}; }};
    EXPECT_EQ(play(reset, random).row.reason, "reset");
  }
}

TEST(IntervalJudge, AWindowOfTwoReadingsIsJudgedByThem) {
  IntervalJudge judge(EnergyMethod::counter, 0.001, 1000, true);
  judge.feed({time_of(0), 0, 0, 1});
  judge.begin();
  judge.feed({time_of(2), 2999, 0, 2});
  EXPECT_EQ(judge.end().reason, "");
  judge.begin();
  judge.feed({time_of(4), 2999 + 65'000, 1, 1});
  EXPECT_EQ(judge.end().reason, "reset");
  judge.begin();
  judge.feed({time_of(6), 2999 + 65'000 + 100, 1, 2});
  EXPECT_EQ(judge.end().reason, "") << "the window after it";
}

TEST(IntervalJudge, AMeterThatIsWrongAsAWholeWasNotReset) {
  IntervalJudge judge(EnergyMethod::counter, 0.001, 100, false);
  judge.feed({time_of(0), 0, 0, 0});
  judge.begin();
  for (int i = 1; i <= 20; ++i) judge.feed({time_of(0.1 * i), 40.0 * i, 0, static_cast<std::uint64_t>(i)});
  EXPECT_EQ(judge.end().reason, "implausible");
}

TEST(IntervalJudge, PowerThatIsIntegratedIsNeverResetNorStalled) {
  IntervalJudge judge(EnergyMethod::integrated_power, 1, 100, false);
  judge.feed({time_of(0), 0});
  judge.begin();
  double joules = 0;
  for (int i = 1; i <= 100; ++i) judge.feed({time_of(0.1 * i), joules += i < 20 || i > 80 ? 5 : 0});
  EXPECT_EQ(judge.end().reason, "");
  judge.begin();
  for (int i = 101; i <= 200; ++i) judge.feed({time_of(0.1 * i), joules += i == 150 ? 5000 : 5});
  EXPECT_EQ(judge.end().reason, "implausible");
}

TEST(IntervalJudge, LearnsBetweenWindowsHowLongACounterTakes) {
  const auto finding = [](double gap_seconds) {
    IntervalJudge judge(EnergyMethod::counter, 0.1, 1000, true);
    double now = 0;
    std::uint64_t value = 0;
    const auto run = [&](double until, double gap) {
      for (double updated = now; now < until; now += 0.1) {
        if (now - updated >= gap - 1e-9) ++value, updated = now;
        judge.feed({time_of(now), 15.0 * static_cast<double>(value), 0, value});
      }
    };
    run(5, gap_seconds);
    judge.begin();
    run(6, 0.1), run(9, 1.5), run(10, 0.1);
    return judge.end();
  };
  EXPECT_EQ(finding(0.1).reason, "stalled");
  const WindowFinding slow = finding(1.2);
  EXPECT_EQ(slow.reason, "") << slow.detail;
  EXPECT_GE(slow.longest_gap_seconds, 1.3);
}

// Two readings of one value that are far apart show a gap; one reading that comes late shows none.
TEST(IntervalJudge, AThreadThatComesLateIsNoStall) {
  IntervalJudge judge(EnergyMethod::counter, 0.001, 1000, true);
  judge.feed({time_of(0), 0, 0, 0});
  judge.begin();
  double now = 0;
  for (int i = 1; i <= 20; ++i) {
    now += i % 5 == 0 ? 3 : 0.1;
    judge.feed({time_of(now), 150 * now, 0, static_cast<std::uint64_t>(1e6 * now)});
  }
  const WindowFinding found = judge.end();
  EXPECT_EQ(found.reason, "") << found.detail;
  EXPECT_EQ(found.doubtful_seconds, 0);
}

TEST(IntervalJudge, ABreakEndsTheWindow) {
  IntervalJudge judge(EnergyMethod::counter, 0.001, 1000, true);
  judge.feed({time_of(0), 0, 0, 0});
  judge.begin();
  judge.lose();
  judge.feed({time_of(1), 1e9, 0, 1});
  judge.feed({time_of(2), 1e9 + 100, 0, 2});
  EXPECT_EQ(judge.end().reason, "") << "the ledger knows of the break";
}

}  // namespace
}  // namespace tw
