#include "power/sources/cray/source.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "power/meter/reader.hpp"
#include "tests/power/fake_tree.hpp"
#include "tests/power/ordinary_user.hpp"

namespace tw {

using namespace power;

namespace {

class PmCounters : public testing::Test {
 protected:
  void SetUp() override {
    tree.write("energy", "1000 J 1700000000000000 us");
    tree.write("cpu_energy", "400 J 1700000000000000 us");
    tree.write("memory_energy", "50 J");  // older systems have no time stamp
    tree.write("accel10_energy", "70 J");
    tree.write("accel2_energy", "60 J");
    tree.write("accel_energy_cap", "0 W");
    tree.write("power", "300 W");
    refresh();
  }
  void refresh() { tree.write("freshness", std::to_string(++freshness)); }
  /// Finds, while freshness moves.
  std::map<std::string, MeterFinding> find(double stale_seconds = 1000) {
    std::atomic<bool> stop{false};
    std::thread controller([&] {
      while (!stop) {
        refresh();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
    auto found = by_domain(cray::find_meters_in(tree.root(), stale_seconds));
    stop = true;
    controller.join();
    return found;
  }
  FakeTree tree;
  long freshness = 0;
};

TEST_F(PmCounters, CountsExactJoulesOfEachScope) {
  const auto found = find();
  ASSERT_EQ(found.size(), 5u);
  const std::map<std::string, EnergyScope> scopes = {{"cray:node", EnergyScope::node},
                                                     {"cray:cpu", EnergyScope::package},
                                                     {"cray:memory", EnergyScope::dram},
                                                     {"cray:accel2", EnergyScope::device},
                                                     {"cray:accel10", EnergyScope::device}};
  for (const auto& [domain, scope] : scopes) EXPECT_EQ(found.at(domain).meter->scope(), scope) << domain;
  tree.write("energy", "1123 J 1700000001000000 us");
  tree.write("accel2_energy", "61 J");
  refresh();
  EXPECT_DOUBLE_EQ(found.at("cray:node").meter->read().joules, 123);
  EXPECT_DOUBLE_EQ(found.at("cray:accel2").meter->read().joules, 1);
  EXPECT_DOUBLE_EQ(found.at("cray:accel10").meter->read().joules, 0);
  EXPECT_GT(found.at("cray:node").meter->update_period_seconds(), 0.0025);  // the controller sleeps 5 ms
}

TEST_F(PmCounters, AControllerThatStandsStillIsNotZeroJoules) {
  const auto found = by_domain(cray::find_meters_in(tree.root()));
  EXPECT_EQ(found.at("cray:node").reason, "unsupported");
  EXPECT_NE(found.at("cray:node").detail.find("freshness stayed at 1"), std::string::npos);
  EXPECT_EQ(found.at("cray:node").scope, EnergyScope::node);
}

TEST_F(PmCounters, LosesAControllerThatDies) {
  const auto found = find(0);  // any time without a refresh is too long
  EnergyMeter& meter = *found.at("cray:node").meter;
  refresh();
  EXPECT_NO_THROW(meter.read());
  EXPECT_THROW(meter.read(), std::system_error);
}

TEST_F(PmCounters, LosesACounterThatGoesBack) {
  const auto found = find();
  EnergyMeter& meter = *found.at("cray:node").meter;
  tree.write("energy", "1100 J");
  refresh();
  EXPECT_DOUBLE_EQ(meter.read().joules, 100);
  tree.write("energy", "90 J");
  refresh();
  EXPECT_THROW(meter.read(), std::system_error);
  tree.write("energy", "95 J");
  refresh();
  EXPECT_DOUBLE_EQ(meter.read().joules, 105) << "on from where it was";
}

TEST_F(PmCounters, LosesFilesThatVanish) {
  std::vector<MeterFinding> findings;
  for (auto& [domain, finding] : find()) findings.push_back(std::move(finding));
  EnergyReader reader(std::move(findings));
  EXPECT_TRUE(reader.snapshot().readings[0].sample);
  tree.remove("freshness");
  for (const MeterReading& reading : reader.snapshot().readings) {
    EXPECT_EQ(reading.reason, "lost");
    EXPECT_NE(reading.detail.find("freshness"), std::string::npos) << reading.detail;
  }
}

TEST_F(PmCounters, MalformedOrUnreadableIsSaidOfThatCounterAlone) {
  tree.write("cpu_energy", "unavailable");
  tree.deny("memory_energy");
  std::filesystem::permissions(tree.root(), std::filesystem::perms::all);  // the controller of this test is nobody, too
  const AsOrdinaryUser user;
  const auto found = find();
  EXPECT_EQ(found.at("cray:cpu").reason, "unsupported");
  EXPECT_NE(found.at("cray:cpu").detail.find("holds \"unavailable\""), std::string::npos)
      << found.at("cray:cpu").detail;
  EXPECT_EQ(found.at("cray:memory").reason, "permission");
  EXPECT_TRUE(found.at("cray:node").meter);
}

TEST_F(PmCounters, ElsewhereIsNoDriver) {
  EXPECT_EQ(by_domain(cray::find_meters_in(tree.at("not_there"))).at("cray").reason, "no_driver");
  FakeTree empty;
  EXPECT_EQ(by_domain(cray::find_meters_in(empty.root())).at("cray").reason, "no_driver");
}

}  // namespace
}  // namespace tw
