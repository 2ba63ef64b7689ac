// Wraps, uncertainty and the ledger: arithmetic alone.
#include <gtest/gtest.h>

#include <cmath>

#include "power/meter/ledger.hpp"
#include "power/meter/sensor_meter.hpp"
#include "tests/power/fake_meter.hpp"

namespace tw {

using namespace power;

namespace {

TEST(WrapCounter, CountsOnThroughWraps) {
  WrapCounter counter(7'000'000, 8'000'000);
  EXPECT_EQ(counter.feed(7'000'000), 0u);
  EXPECT_EQ(counter.feed(7'999'999), 999'999u);
  EXPECT_EQ(counter.feed(0), 1'000'000u);  // the wrap itself
  EXPECT_EQ(counter.feed(6'999'999), 7'999'999u);
  EXPECT_EQ(counter.feed(6'999'998), 15'999'998u);  // nearly a whole round
  EXPECT_EQ(counter.wraps(), 2);
  EXPECT_EQ(counter.feed(6'999'998), 15'999'998u);  // and no step at all
  EXPECT_EQ(counter.wraps(), 2);
}

TEST(WrapCounter, TakesTheFullRangeOf64Bits) {
  WrapCounter counter(0, ~0ull);
  EXPECT_EQ(counter.feed(~0ull - 5), ~0ull - 5);
}

// In millionths, which are no binary numbers: what was counted between two readings is exact all the same.
TEST(CounterMeter, JoulesAreAsExactAsCounts) {
  std::uint64_t value = 0;
  CounterMeter meter(
      {{"rapl:dram", EnergyScope::dram, 0.001, {}}, 1e-6, 262'143'328'850}, [&] { return value; }, value);
  for (const std::uint64_t first : {0ull, 200'000ull, 123'400'000ull, 9'876'543'200'000ull}) {
    value = first % 262'143'328'850;
    const EnergySample from = meter.read();
    value += 34'200'000;
    EXPECT_EQ(meter.joules_between(from, meter.read()), 34.2) << first;
  }
  CounterMeter binary(
      {{"perf", EnergyScope::package, 0.001, {}}, std::ldexp(1.0, -32), 0}, [&] { return value; }, value);
  const EnergySample from = binary.read();
  value += std::uint64_t{3} << 31;
  EXPECT_EQ(binary.joules_between(from, binary.read()), 1.5);
}

TEST(Uncertainty, AddsItsTerms) {
  // 1000 J in 10 s: 100 W. Edges 2·100·0.01 = 2 J, skew 100·0.003 = 0.3 J.
  EXPECT_DOUBLE_EQ(energy_uncertainty_joules(1000, 10, {0.01, 0}), 2);
  EXPECT_DOUBLE_EQ(energy_uncertainty_joules(1000, 10, {0.01, 0.003}), 2.3);
  EXPECT_DOUBLE_EQ(energy_uncertainty_joules(0, 0, {0.01, 0}), 0);
}

EnergySnapshot snapshot_at(double seconds, double joules) {
  EnergySnapshot snapshot;
  snapshot.time = std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds)));
  snapshot.readings.push_back({EnergySample{snapshot.time, joules}, "", ""});
  snapshot.readings.push_back({std::nullopt, "no_driver", "nothing there"});
  return snapshot;
}

TEST(Ledger, TellsWhatWasAddedAndWhatWasNot) {
  const auto findings = fake_findings(std::make_shared<FakeState>(), 100);
  const auto rows = make_ledger(findings, snapshot_at(10, 50), snapshot_at(12, 150));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].domain, "fake:0");
  EXPECT_EQ(rows[0].scope, "package");
  EXPECT_EQ(rows[0].method, "counter");
  EXPECT_DOUBLE_EQ(rows[0].energy_joules.value(), 100);
  EXPECT_DOUBLE_EQ(rows[0].window_seconds, 2);
  EXPECT_DOUBLE_EQ(rows[0].uncertainty_joules.value(), 2 * 50 * 0.001);
  EXPECT_TRUE(rows[0].counted);
  EXPECT_EQ(rows[0].reason, "");
  EXPECT_FALSE(rows[1].energy_joules.has_value());
  EXPECT_FALSE(rows[1].uncertainty_joules.has_value());
  EXPECT_FALSE(rows[1].counted);
  EXPECT_EQ(rows[1].reason, "no_driver");
  EXPECT_EQ(rows[0].detail + rows[1].detail, "") << "the findings say all";
}

TEST(Ledger, DoesNotBelieveMoreThanOneAndAHalfTimesTheMaximum) {
  const auto findings = fake_findings(std::make_shared<FakeState>(), 100);  // 100 W at most, period 1 ms
  const auto good = make_ledger(findings, snapshot_at(0, 0), snapshot_at(2, 300));
  EXPECT_TRUE(good[0].counted);
  const auto bad = make_ledger(findings, snapshot_at(0, 0), snapshot_at(2, 301));
  EXPECT_FALSE(bad[0].counted);
  EXPECT_EQ(bad[0].reason, "implausible");
  EXPECT_DOUBLE_EQ(bad[0].energy_joules.value(), 301);  // flagged, not dropped
  EXPECT_EQ(bad[0].detail, "301 J in 2 s is above 1.5 x the sensor's maximum of 100 W");
}

TEST(Ledger, AMeterThatShowsNoJouleHasNoJoules) {
  const auto findings = fake_findings(std::make_shared<FakeState>(), 100);
  const auto rows = make_ledger(findings, snapshot_at(0, 50), snapshot_at(0.2, 50));
  EXPECT_FALSE(rows[0].energy_joules.has_value()) << "never 0";
  EXPECT_FALSE(rows[0].uncertainty_joules.has_value());
  EXPECT_FALSE(rows[0].counted);
  EXPECT_EQ(rows[0].reason, "not_updated");
  EXPECT_EQ(rows[0].detail, "the meter did not change in 0.2 s, although it changed every 0.001 s at the start");
}

TEST(Ledger, AWindowShorterThanTheUpdatePeriodHasNoJoules) {
  auto findings = fake_findings(std::make_shared<FakeState>(), 100);
  findings[0].meter = std::make_unique<FakeMeter>(std::make_shared<FakeState>(), 100, 0.1, 1000);
  // 100 W, and a change falls into the window: it shows the joules of 100 ms.
  const auto within = make_ledger(findings, snapshot_at(0, 0), snapshot_at(0.05, 10));
  EXPECT_FALSE(within[0].energy_joules.has_value());
  EXPECT_FALSE(within[0].uncertainty_joules.has_value());
  EXPECT_FALSE(within[0].counted);
  EXPECT_EQ(within[0].reason, "too_short");
  EXPECT_EQ(within[0].detail, "the window of 0.05 s is shorter than the meter's period of 0.1 s: use a longer window");
  EXPECT_DOUBLE_EQ(within[0].window_seconds, 0.05);
  const auto between = make_ledger(findings, snapshot_at(0, 0), snapshot_at(0.05, 0));
  EXPECT_EQ(between[0].reason, "too_short") << "no change falls into it, as is to be expected";
  const auto longer = make_ledger(findings, snapshot_at(0, 0), snapshot_at(0.125, 10));
  EXPECT_TRUE(longer[0].counted);
  EXPECT_LE(std::abs(12.5 - *longer[0].energy_joules), *longer[0].uncertainty_joules);
  findings[0].counted = false, findings[0].reason = "duplicate";
  EXPECT_EQ(make_ledger(findings, snapshot_at(0, 0), snapshot_at(0.05, 10))[0].reason, "duplicate");
}

TEST(Ledger, TellsTheWrapsOfItsWindow) {
  const auto findings = fake_findings(std::make_shared<FakeState>(), 100);
  EnergySnapshot begin = snapshot_at(0, 0), end = snapshot_at(2, 100);
  begin.readings[0].sample->wraps = 3;
  end.readings[0].sample->wraps = 5;
  EXPECT_EQ(make_ledger(findings, begin, end)[0].wraps, 2);
}

TEST(Ledger, HasNoJoulesForASensorThatWasLost) {
  const auto findings = fake_findings(std::make_shared<FakeState>(), 100);
  EnergySnapshot end = snapshot_at(2, 100);
  end.readings[0] = {std::nullopt, "lost", "fake:0: Input/output error"};
  const auto rows = make_ledger(findings, snapshot_at(0, 0), end);
  EXPECT_FALSE(rows[0].energy_joules.has_value());
  EXPECT_FALSE(rows[0].counted);
  EXPECT_EQ(rows[0].reason, "lost");
  EXPECT_EQ(rows[0].scope, "package");
}

TEST(Ledger, ACrossCheckNeverTakesJoulesFromATotal) {
  auto findings = fake_findings(std::make_shared<FakeState>(), 100);
  findings[0].counted = false;
  findings[0].reason = "duplicate";
  const auto good = make_ledger(findings, snapshot_at(0, 0), snapshot_at(2, 100));
  EXPECT_DOUBLE_EQ(good[0].energy_joules.value(), 100);
  EXPECT_FALSE(good[0].counted);
  EXPECT_EQ(good[0].reason, "duplicate");

  const auto implausible = make_ledger(findings, snapshot_at(0, 0), snapshot_at(2, 301));
  EXPECT_EQ(implausible[0].reason, "duplicate");
  EXPECT_NE(implausible[0].detail.find("above 1.5 x"), std::string::npos);

  EnergySnapshot end = snapshot_at(2, 100);
  end.readings[0] = {std::nullopt, "lost", "fake:0: Input/output error"};
  const auto lost = make_ledger(findings, snapshot_at(0, 0), end);
  EXPECT_EQ(lost[0].reason, "duplicate");
  EXPECT_EQ(lost[0].detail, "fake:0: Input/output error");
}

/// Answers at both edges, and knows nothing in between.
class HolesMeter : public FakeMeter {
 public:
  using FakeMeter::FakeMeter;
  double joules_between(const EnergySample&, const EnergySample&) override {
    throw WindowUnknown("gap", "the series has a hole");
  }
};

TEST(Ledger, HasNoJoulesForAWindowThatTheMeterDoesNotKnow) {
  auto findings = fake_findings(std::make_shared<FakeState>(), 100);
  findings[0].meter = std::make_unique<HolesMeter>(std::make_shared<FakeState>(), 100);
  const auto rows = make_ledger(findings, snapshot_at(0, 0), snapshot_at(2, 100));
  EXPECT_FALSE(rows[0].energy_joules.has_value());
  EXPECT_FALSE(rows[0].uncertainty_joules.has_value());
  EXPECT_FALSE(rows[0].counted);
  EXPECT_EQ(rows[0].reason, "gap");
  EXPECT_EQ(rows[0].detail, "the series has a hole");
}

TEST(Ledger, RefusesSnapshotsOfAnotherReader) {
  const auto findings = fake_findings(std::make_shared<FakeState>(), 100);
  EXPECT_THROW(make_ledger(findings, {}, snapshot_at(1, 1)), std::invalid_argument);
}

}  // namespace
}  // namespace tw
