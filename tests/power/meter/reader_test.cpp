#include "power/meter/reader.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "power/meter/ledger.hpp"
#include "tests/power/fake_meter.hpp"

namespace tw {

using namespace power;

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

TEST(EnergyReader, AnswersForEachFinding) {
  const auto state = std::make_shared<FakeState>();
  EnergyReader reader(fake_findings(state, never));
  state->joules = 12.5;
  const EnergySnapshot snapshot = reader.snapshot();
  ASSERT_EQ(snapshot.readings.size(), 2u);
  EXPECT_DOUBLE_EQ(snapshot.readings[0].sample.value().joules, 12.5);
  EXPECT_FALSE(snapshot.readings[1].sample.has_value());
  EXPECT_EQ(snapshot.readings[1].reason, "no_driver");
}

TEST(EnergyReader, SleepsWhereNothingWraps) {
  const auto state = std::make_shared<FakeState>();
  EnergyReader reader(fake_findings(state, never));
  EXPECT_EQ(reader.interval_seconds(), never);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(state->reads, 0);
}

TEST(EnergyReader, ReadsFourTimesAWrap) {
  const auto state = std::make_shared<FakeState>();
  EnergyReader reader(fake_findings(state, 20));
  EXPECT_DOUBLE_EQ(reader.interval_seconds(), 5);
  // Destruction does not wait for the next deadline (the test would time out with many of these).
  for (int i = 0; i < 20; ++i) EnergyReader(fake_findings(state, 3600));
}

TEST(EnergyReader, KeepsReadingInTheBackground) {
  const auto state = std::make_shared<FakeState>();
  EnergyReader reader(fake_findings(state, 2));  // a wrap long enough that a busy machine makes no gap
  while (state->reads < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // else CTest's time limit
}

TEST(EnergyReader, ReadsEachMeterAtItsOwnInterval) {
  const auto quick = std::make_shared<FakeState>(), slow = std::make_shared<FakeState>();
  quick->reading_interval_seconds = 0.001;
  std::vector<MeterFinding> findings = fake_findings(quick, never);
  findings.pop_back();
  for (MeterFinding& finding : fake_findings(slow, 4000)) findings.push_back(std::move(finding));
  EnergyReader reader(std::move(findings));
  EXPECT_DOUBLE_EQ(reader.interval_seconds(), 0.001);
  while (quick->reads < 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // else CTest's time limit
  EXPECT_EQ(slow->reads, 0);
  EXPECT_GT(reader.cpu_seconds(), 6) << "its thread's, and 3 s of each meter";
}

TEST(EnergyReader, LeavesAMeterToThoseWhoReadItOftenEnough) {
  const auto state = std::make_shared<FakeState>();
  state->reading_interval_seconds = 0.05;
  EnergyReader reader(fake_findings(state, never));
  reader.expect_snapshots(0.05);
  const auto start = std::chrono::steady_clock::now();
  const long before = state->reads;
  constexpr long ours = 30;
  for (long i = 0; i < ours; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    reader.snapshot();
  }
  // The thread has come in between only where this one was held up for its patience.
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_LE(state->reads - before - ours, static_cast<long>(elapsed.count()));
  // Nobody comes: the thread does.
  const long after = state->reads;
  while (state->reads == after) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // else CTest's time limit
  // Nobody is expected any more.
  reader.expect_snapshots(never);
  while (state->reads < after + 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(EnergyReader, DoesNotLeaveAMeterToThoseWhoReadItTooSeldom) {
  const auto state = std::make_shared<FakeState>();
  state->reading_interval_seconds = 0.001;
  EnergyReader reader(fake_findings(state, never));
  reader.expect_snapshots(0.1);
  while (state->reads < 5) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // else CTest's time limit
}

/// An update period that no window is shorter than.
constexpr double at_once = 0;

/// Joules of the first meter between two snapshots, or why there are none.
std::string joules(const EnergyReader& reader, const EnergySnapshot& from, const EnergySnapshot& to) {
  const LedgerRow row = make_ledger(reader.findings(), from, to).at(0);
  return row.energy_joules ? std::to_string(static_cast<int>(*row.energy_joules)) : row.reason;
}

TEST(EnergyReader, ASensorThatStopsAnsweringIsLostToTheWindowsThatSawIt) {
  const auto state = std::make_shared<FakeState>();
  EnergyReader reader(fake_findings(state, never, at_once));
  const EnergySnapshot before = reader.snapshot();
  EXPECT_TRUE(before.readings[0].sample.has_value());
  state->fails = true;
  const EnergySnapshot during = reader.snapshot();
  EXPECT_FALSE(during.readings[0].sample.has_value());
  EXPECT_EQ(during.readings[0].reason, "lost");
  EXPECT_NE(during.readings[0].detail.find("fake:0"), std::string::npos);
  state->fails = false;
  state->joules = 10;
  const EnergySnapshot after = reader.snapshot();
  state->joules = 17;
  const EnergySnapshot end = reader.snapshot();
  EXPECT_EQ(joules(reader, before, during), "lost");
  EXPECT_EQ(joules(reader, before, end), "lost") << "what it counted meanwhile is not known";
  EXPECT_EQ(joules(reader, during, end), "lost");
  EXPECT_EQ(joules(reader, after, end), "7");
}

TEST(EnergyReader, JudgesAWindowByAllReadingsInIt) {
  const auto state = std::make_shared<FakeState>();
  EnergyReader reader(fake_findings(state, never, at_once));
  const auto window = [&](double jump) {
    const EnergySnapshot from = reader.begin_window();
    for (int i = 0; i < 20; ++i) {
      state->shift += std::chrono::seconds(1);
      state->joules = state->joules + (i == 10 ? jump : 50);
      reader.snapshot();
    }
    const EnergySnapshot to = reader.end_window();
    EXPECT_TRUE(to.readings[0].window.has_value());
    return make_ledger(reader.findings(), from, to).at(0);
  };
  EXPECT_EQ(window(50).reason, "");
  const LedgerRow reset = window(1000);  // 98 W over the window; 1 kW in a second, of a part of 100 W
  EXPECT_EQ(reset.reason, "reset");
  EXPECT_FALSE(reset.energy_joules);
  EXPECT_FALSE(reset.counted);
  EXPECT_NE(reset.detail, "");
  EXPECT_EQ(window(50).reason, "");
}

TEST(EnergyReader, ACounterLeftUnreadForAWrapIsUnknownToThatWindowAlone) {
  for (const bool may_wrap : {true, false}) {
    const auto state = std::make_shared<FakeState>();
    state->may_wrap = may_wrap;
    state->reading_interval_seconds = 1e6;  // nobody but this test
    EnergyReader reader(fake_findings(state, 1000, at_once));
    const EnergySnapshot before = reader.snapshot();
    state->shift = std::chrono::seconds(1001);  // as after a SIGSTOP
    const EnergySnapshot stopped = reader.snapshot();
    state->joules = 5;
    const EnergySnapshot end = reader.snapshot();
    EXPECT_EQ(joules(reader, before, stopped), may_wrap ? "wrapped" : "gap");
    EXPECT_EQ(joules(reader, before, end), may_wrap ? "wrapped" : "gap");
    EXPECT_EQ(joules(reader, stopped, end), "5");
  }
}

}  // namespace
}  // namespace tw
