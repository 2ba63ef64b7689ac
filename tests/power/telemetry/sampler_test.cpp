// Series of bounded length that keep every sample's least and greatest value.
#include "power/telemetry/sampler.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <tuple>

#include "tests/power/fake_meter.hpp"

namespace tw {

using namespace power;

namespace {

/// Channel 0 counts the readings, 1 is a counter that starts high, 2 cannot be read, 3 only at times.
class CountingTelemetry : public Telemetry {
 public:
  explicit CountingTelemetry(std::shared_ptr<std::atomic<int>> readings) : readings_(std::move(readings)) {
    for (const char* quantity : {"temperature_c", "ecc_errors", "sm_clock_mhz", "utilisation"})
      channels_.push_back({"fake:0", quantity, std::string(quantity) == "ecc_errors"});
  }
  const std::vector<Channel>& channels() const override { return channels_; }
  void read(std::span<double> values) override {
    const int i = (*readings_)++;
    values[0] = i;
    values[1] = 1000 + 10 * i;
    values[2] = std::nan("");
    if (i % 3 == 0) values[3] = 0.5;
  }

 private:
  std::shared_ptr<std::atomic<int>> readings_;
  std::vector<Channel> channels_;
};

/// Exactly 5 W.
class SteadyMeter : public EnergyMeter {
 public:
  explicit SteadyMeter(double update_period_seconds) : update_period_seconds_(update_period_seconds) {}
  std::string domain() const override { return "steady:0"; }
  EnergyScope scope() const override { return EnergyScope::package; }
  EnergyMethod method() const override { return EnergyMethod::counter; }
  EnergySample read() override {
    const auto now = std::chrono::steady_clock::now();
    return {now, 5 * std::chrono::duration<double>(now - start_).count()};
  }
  double update_period_seconds() const override { return update_period_seconds_; }
  double wrap_seconds() const override { return std::numeric_limits<double>::infinity(); }
  double maximum_power_watts() const override { return 100; }
  bool maximum_power_is_default() const override { return false; }

 private:
  double update_period_seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::vector<TelemetryFinding> counting(const std::shared_ptr<std::atomic<int>>& readings) {
  std::vector<TelemetryFinding> findings(2);
  findings[0].domain = "absent";
  findings[0].reason = "no_driver";
  findings[1].domain = "fake:0";
  findings[1].telemetry = std::make_unique<CountingTelemetry>(readings);
  return findings;
}

void wait_for(const std::atomic<int>& readings, int wanted) {
  while (readings < wanted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Sampler, MergesWithoutLosingASampleOrAnExtreme) {
  const auto readings = std::make_shared<std::atomic<int>>(0);
  Sampler sampler(counting(readings), nullptr, 0.001, 8);
  for (int window = 0; window < 2; ++window) {  // the second forgets the first
    const int before = *readings;
    sampler.begin();
    wait_for(*readings, before + 100);
    const Sampled sampled = sampler.end();
    const int taken = *readings - before;
    ASSERT_EQ(sampled.series.size(), 4u);
    const std::vector<SeriesPoint>& points = sampled.series[0].points;
    ASSERT_GE(points.size(), 4u);
    ASSERT_LE(points.size(), 8u);
    int samples = 0, next = before;
    for (const SeriesPoint& point : points) {
      EXPECT_EQ(point.minimum, next);
      EXPECT_EQ(point.maximum, next + point.samples - 1);
      EXPECT_NEAR(point.mean, next + 0.5 * (point.samples - 1), 1e-9 * next + 1e-9);
      next += point.samples;
      samples += point.samples;
    }
    EXPECT_EQ(samples, taken);
    EXPECT_EQ(sampled.series[1].change.value(), 10.0 * (taken - 1));
    EXPECT_TRUE(sampled.series[2].points.empty());
    EXPECT_FALSE(sampled.series[0].change) << "of the moment";
    int half = 0;
    for (const SeriesPoint& point : sampled.series[3].points) {
      half += point.samples;
      EXPECT_EQ(point.mean, 0.5);
    }
    EXPECT_GE(half, taken / 3);
    EXPECT_LE(half, taken / 3 + 1);
    EXPECT_GT(sampled.window_seconds, points.back().time_seconds);
    EXPECT_GT(sampled.cpu_seconds, 0);
    EXPECT_LT(sampled.cpu_seconds, sampled.window_seconds);
  }
}

/// A counter of throttling that begins anew at one of its readings, and rises by 10 with each.
class RestartingTelemetry : public Telemetry {
 public:
  RestartingTelemetry(std::shared_ptr<std::atomic<int>> readings, int restart, int start)
      : readings_(std::move(readings)), restart_(restart), start_(start) {}
  const std::vector<Channel>& channels() const override { return channels_; }
  void read(std::span<double> values) override {
    const int i = (*readings_)++;
    values[0] = 10 * (i < restart_ ? start_ + i : i - restart_);
  }

 private:
  std::shared_ptr<std::atomic<int>> readings_;
  int restart_, start_;
  std::vector<Channel> channels_ = {{"fake:0", "throttle_thermal_s", true}};
};

TEST(Sampler, OfACounterThatFellNoChangeIsKnown) {
  // Below its first reading at the end, above it, and one that did not fall within the window.
  for (const auto& [restart, start, is_known] : {std::tuple{10, 1000, false}, {10, 5, false}, {1'000'000, 5, true}}) {
    const auto readings = std::make_shared<std::atomic<int>>(0);
    std::vector<TelemetryFinding> findings(1);
    findings[0].domain = "fake:0";
    findings[0].telemetry = std::make_unique<RestartingTelemetry>(readings, restart, start);
    Sampler sampler(std::move(findings), nullptr, 0.001, 8);
    sampler.begin();
    wait_for(*readings, 100);
    const Sampled sampled = sampler.end();
    ASSERT_EQ(sampled.series.size(), 1u);
    EXPECT_FALSE(sampled.series[0].points.empty());
    EXPECT_EQ(sampled.series[0].change.has_value(), is_known) << restart << " " << start;
  }
}

TEST(Sampler, PowerComesFromJoulesAtIntervalsThatSuitTheCounter) {
  for (const double update_period : {1e-6, 5e-4}) {
    std::vector<MeterFinding> meters(2);
    meters[0].domain = "absent";
    meters[0].reason = "no_driver";
    meters[1].domain = "steady:0";
    meters[1].meter = std::make_unique<SteadyMeter>(update_period);
    EnergyReader reader(std::move(meters));
    const auto readings = std::make_shared<std::atomic<int>>(0);
    Sampler sampler(counting(readings), &reader, 0.001, 64);
    sampler.begin();
    wait_for(*readings, 50);
    const Sampled sampled = sampler.end();
    ASSERT_EQ(sampled.series.size(), 5u);
    const power::Series& power = sampled.series[4];
    EXPECT_EQ(power.channel.domain, "steady:0");
    EXPECT_EQ(power.channel.quantity, "power_w");
    ASSERT_GE(power.points.size(), 2u);
    for (std::size_t i = 0; i < power.points.size(); ++i) {
      EXPECT_NEAR(power.points[i].minimum, 5, 1e-6);
      EXPECT_NEAR(power.points[i].maximum, 5, 1e-6);
      if (i > 0 && power.points[i - 1].samples == 1) {
        EXPECT_GE(power.points[i].time_seconds - power.points[i - 1].time_seconds, 10 * update_period);
      }
    }
  }
}

/// Has used another second of CPU time at each look.
class BusyMeter : public SteadyMeter {
 public:
  BusyMeter() : SteadyMeter(0.001) {}
  double cpu_seconds() override { return seconds_ += 1; }

 private:
  double seconds_ = 0;
};

TEST(Sampler, CountsTheTimeOfAllMeteringThreads) {
  std::vector<MeterFinding> meters(1);
  meters[0].domain = "steady:0";
  meters[0].meter = std::make_unique<BusyMeter>();
  EnergyReader reader(std::move(meters));
  const auto readings = std::make_shared<std::atomic<int>>(0);
  Sampler sampler(counting(readings), &reader, 0.001, 64);
  for (int window = 1; window <= 2; ++window) {
    sampler.begin();
    wait_for(*readings, 10 * window);
    const Sampled sampled = sampler.end();
    EXPECT_GT(sampled.thread_seconds, 0);
    EXPECT_DOUBLE_EQ(sampled.cpu_seconds, sampled.thread_seconds + 1) << "what a meter used within this window alone";
  }
}

/// The power of the meter's domain, as NVML shows it.
class PowerTelemetry : public Telemetry {
 public:
  const std::vector<Channel>& channels() const override { return channels_; }
  void read(std::span<double> values) override { values[0] = 5; }

 private:
  std::vector<Channel> channels_ = {{"fake:0", "power_w", false}};
};

TEST(Sampler, ReadsAMeterWhosePowerTelemetryShowsToo) {
  const auto state = std::make_shared<FakeState>();
  EnergyReader reader(fake_findings(state, std::numeric_limits<double>::infinity()));
  std::vector<TelemetryFinding> telemetry(1);
  telemetry[0].domain = "fake:0";
  telemetry[0].telemetry = std::make_unique<PowerTelemetry>();
  Sampler sampler(std::move(telemetry), &reader, 0.001);
  sampler.begin();
  for (int polls = 0; state->reads < 5; ++polls) {
    if (polls > 60'000) FAIL() << "the meter is not read along the window: " << state->reads << " readings";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(sampler.end().series.size(), 1u);
}

TEST(Sampler, LooksAtWhatIsBesideAlsoWhereThereIsNoSensor) {
  std::atomic<int> looks = 0;
  Sampler sampler({}, nullptr, 0.001);
  sampler.beside([&] { ++looks; });
  sampler.begin();
  for (int polls = 0; looks < 3; ++polls) {
    if (polls > 60'000) FAIL() << looks << " looks";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(sampler.end().series.empty());
  const int after = looks;
  sampler.beside({});
  sampler.begin();
  sampler.end();
  EXPECT_EQ(looks, after) << "of this window nobody asked";
}

TEST(Sampler, WithNothingToReadThereIsNoThread) {
  Sampler sampler({}, nullptr);
  sampler.begin();
  const Sampled sampled = sampler.end();
  EXPECT_TRUE(sampled.series.empty());
  EXPECT_EQ(sampled.cpu_seconds, 0);
}

TEST(Sampler, EndsWithAWindowOpen) {
  const auto readings = std::make_shared<std::atomic<int>>(0);
  {
    Sampler sampler(counting(readings), nullptr, 0.001);
    sampler.begin();
    wait_for(*readings, 3);
  }
  const int after = *readings;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(*readings, after);
}

}  // namespace
}  // namespace tw
