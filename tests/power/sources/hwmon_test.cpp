#include <gtest/gtest.h>

#include <thread>

#include "power/sources/hwmon/rails.hpp"
#include "power/sources/hwmon/source.hpp"
#include "tests/power/fake_tree.hpp"
#include "tests/power/ordinary_user.hpp"

namespace tw {

using namespace power;

namespace {

using hwmon::Rail;

std::string outcome(const hwmon::RailUse& use) { return use.scope ? to_string(*use.scope) : use.reason; }

TEST(Rails, GraceModulesContainWhatIsInThem) {
  const auto uses = hwmon::classify({{"power_meter", "Module Power Socket 0", "hwmon0/power1"},
                                     {"power_meter", "Grace Power Socket 0", "hwmon1/power1"},
                                     {"power_meter", "CPU Power Socket 0", "hwmon2/power1"},
                                     {"power_meter", "SysIO Power Socket 0", "hwmon3/power1"},
                                     {"power_meter", "CPU Power Socket 1", "hwmon4/power1"},
                                     {"power_meter", "SysIO Power Socket 1", "hwmon5/power1"}});
  const std::pair<const char*, const char*> expected[] = {
      {"hwmon:module-0", "node"},      {"hwmon:grace-0", "package"}, {"hwmon:cpu-0", "contained"},
      {"hwmon:sysio-0", "contained"},  {"hwmon:cpu-1", "package"},  // no Grace rail of socket 1
      {"hwmon:sysio-1", "unsupported"}};
  for (std::size_t i = 0; i < uses.size(); ++i) {
    EXPECT_EQ(uses[i].domain, expected[i].first);
    EXPECT_EQ(outcome(uses[i]), expected[i].second) << uses[i].domain;
    EXPECT_EQ(uses[i].detail.empty(), uses[i].scope.has_value()) << uses[i].domain;
  }
}

TEST(Rails, KnowsASystemMeterByItsMissingLabel) {
  EXPECT_EQ(outcome(hwmon::classify({{"power_meter", "", "hwmon0/power1"}})[0]), "node");
  // Two of them: one may contain the other.
  for (const auto& use : hwmon::classify({{"power_meter", "", "hwmon0/power1"}, {"power_meter", "", "hwmon1/power1"}}))
    EXPECT_EQ(outcome(use), "unsupported");
  EXPECT_EQ(outcome(hwmon::classify({{"power_meter", "", "hwmon0/power1", true}})[0]), "unsupported");  // a battery
}

TEST(Rails, ASystemMeterBesideModulesIsNotAddedToThem) {
  const auto uses = hwmon::classify({{"power_meter", "", "hwmon0/power1"},
                                     {"power_meter", "Module Power Socket 0", "hwmon1/power1"},
                                     {"power_meter", "Module Power Socket 1", "hwmon2/power1"}});
  EXPECT_EQ(outcome(uses[0]), "unsupported");
  EXPECT_NE(uses[0].detail.find("modules"), std::string::npos) << uses[0].detail;
  EXPECT_EQ(outcome(uses[1]), "node");
  EXPECT_EQ(outcome(uses[2]), "node");
  FakeTree tree;
  for (const char* meter : {"hwmon0", "hwmon1"}) {
    tree.write(std::string(meter) + "/name", "power_meter");
    tree.write(std::string(meter) + "/power1_average", "400000000");
  }
  EXPECT_FALSE(hwmon::reads_node(tree.root())) << "two without a label";
  tree.write("hwmon1/power1_oem_info", "Module Power Socket 0");
  EXPECT_FALSE(hwmon::reads_node(tree.root())) << "so that IPMI is asked";
  tree.remove("hwmon1");
  EXPECT_TRUE(hwmon::reads_node(tree.root()));
}

TEST(Rails, LeavesOutWhatItDoesNotKnow) {
  for (const Rail& rail : {Rail{"amdgpu", "PPT", "hwmon4/power1"}, Rail{"ina3221", "VDD_IN", "hwmon4/power1"},
                           Rail{"power_meter", "Moon Power Socket 0", "hwmon4/power1"},
                           Rail{"power_meter", "CPU Power Socket x", "hwmon4/power1"}}) {
    const auto use = hwmon::classify({rail})[0];
    EXPECT_EQ(use.domain, "hwmon:hwmon4/power1");
    EXPECT_EQ(use.reason, "unsupported");
    EXPECT_NE(use.detail.find(rail.label), std::string::npos);
  }
}

TEST(Rails, ALabelSeenTwiceIsADuplicate) {
  const auto uses = hwmon::classify({{"power_meter", "Grace Power Socket 0", "hwmon0/power1"},
                                     {"power_meter", "Grace Power Socket 0", "hwmon1/power1"}});
  EXPECT_EQ(outcome(uses[0]), "package");
  EXPECT_EQ(uses[1].reason, "duplicate");
  EXPECT_EQ(uses[1].domain, "hwmon:grace-0@hwmon1/power1");
}

TEST(Hwmon, IntegratesTheMetersOfGrace) {
  FakeTree tree;
  tree.write("hwmon0/name", "power_meter");
  tree.write("hwmon0/device/power1_average", "600000000");  // ACPI's files lie in device/
  tree.write("hwmon0/device/power1_average_interval", "50");
  tree.write("hwmon0/device/power1_oem_info", "Module Power Socket 0");
  tree.write("hwmon1/name", "power_meter");
  tree.write("hwmon1/device/power1_average", "250000000");
  tree.write("hwmon1/device/power1_oem_info", "Grace Power Socket 0");
  tree.write("hwmon2/name", "nvme");
  tree.write("hwmon2/temp1_input", "40000");  // no power: no finding
  const auto found = by_domain(hwmon::find_meters_in(tree.root()));
  ASSERT_EQ(found.size(), 2u);
  EnergyMeter& module = *found.at("hwmon:module-0").meter;
  EXPECT_EQ(module.method(), EnergyMethod::integrated_power);
  EXPECT_DOUBLE_EQ(module.update_period_seconds(), 0.1);
  EXPECT_DOUBLE_EQ(found.at("hwmon:grace-0").meter->update_period_seconds(), 1);  // says no interval
  const EnergySample from = module.read();
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const EnergySample to = module.read();
  const double expected = 600 * std::chrono::duration<double>(to.time - from.time).count();
  EXPECT_NEAR(module.joules_between(from, to), expected, 1e-9 * expected);
  EXPECT_FALSE(hwmon::reads_node(tree.root()));  // a module is not the node

  tree.remove("hwmon0");
  EXPECT_THROW(module.read(), std::system_error);
}

TEST(Hwmon, APowerThatIsSeldomRefreshedIsNoBetterKnown) {
  FakeTree tree;
  tree.write("hwmon0/name", "power_meter");
  tree.write("hwmon0/power1_input", "100000000");
  std::atomic<bool> stop{false};
  std::thread ticker([&] {
    // By far more than is asked for below: one change that is seen late makes the time to the next one shorter.
    for (long value = 100'000'000; !stop; std::this_thread::sleep_for(std::chrono::milliseconds(450)))
      tree.write("hwmon0/power1_input", std::to_string(value += 10));
  });
  const auto found = by_domain(hwmon::find_meters_in(tree.root()));
  stop = true;
  ticker.join();
  EXPECT_GE(found.at("hwmon:node").meter->update_period_seconds(), 0.25);
}

TEST(Hwmon, CountsExactJoulesOfAnEnergyCounter) {
  FakeTree tree;
  tree.write("hwmon0/name", "amd_energy");
  tree.write("hwmon0/energy1_label", "Ecore000");
  tree.write("hwmon0/energy1_input", "5");
  tree.write("hwmon0/energy2_label", "Esocket0");
  tree.write("hwmon0/energy2_input", "1000000");
  std::atomic<bool> stop{false};
  std::atomic<long> value{1'000'000};
  std::thread ticker([&] {
    while (!stop) {
      tree.write("hwmon0/energy2_input", std::to_string(value += 10));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const auto found = by_domain(hwmon::find_meters_in(tree.root()));
  stop = true;
  ticker.join();
  EXPECT_EQ(found.at("hwmon:hwmon0/energy1").reason, "unsupported");  // a core is inside its socket
  EnergyMeter& meter = *found.at("hwmon:package-0").meter;
  EXPECT_EQ(meter.method(), EnergyMethod::counter);
  EXPECT_EQ(meter.scope(), EnergyScope::package);
  const EnergySample from = meter.read();
  tree.write("hwmon0/energy2_input", std::to_string(value + 70'000'000));
  EXPECT_NEAR(meter.read().joules - from.joules, 70, 1e-9);
  tree.write("hwmon0/energy2_input", "7");
  EXPECT_THROW(meter.read(), std::system_error);  // 64 bits do not wrap
}

TEST(Hwmon, ASensorThatStandsStillOrShowsNothingIsNotZeroJoules) {
  FakeTree tree;
  tree.write("hwmon0/name", "amd_energy");
  tree.write("hwmon0/energy1_label", "Esocket0");
  tree.write("hwmon0/energy1_input", "1000000");
  tree.write("hwmon1/name", "power_meter");
  tree.write("hwmon1/power1_input", "0");
  const auto found = by_domain(hwmon::find_meters_in(tree.root()));
  EXPECT_EQ(found.at("hwmon:package-0").reason, "unsupported");
  EXPECT_EQ(found.at("hwmon:node").reason, "unsupported");
  EXPECT_NE(found.at("hwmon:node").detail.find("shows 0 W"), std::string::npos);
}

TEST(Hwmon, UnreadableAndMalformedHaveReasons) {
  FakeTree tree;
  tree.write("hwmon0/name", "power_meter");
  tree.write("hwmon0/power1_average", "100000000");
  tree.deny("hwmon0/power1_average");
  {
    const AsOrdinaryUser user;
    const auto found = by_domain(hwmon::find_meters_in(tree.root()));
    EXPECT_EQ(found.at("hwmon:node").reason, "permission");
    EXPECT_EQ(found.at("hwmon:node").scope, EnergyScope::node);
  }
  tree.allow("hwmon0/power1_average");
  tree.write("hwmon0/power1_average", "n/a");
  EXPECT_EQ(by_domain(hwmon::find_meters_in(tree.root())).at("hwmon:node").reason, "unsupported");
  tree.write("hwmon0/power1_average", "-5");
  EXPECT_EQ(by_domain(hwmon::find_meters_in(tree.root())).at("hwmon:node").reason, "unsupported");
}

TEST(Hwmon, NothingThereIsNoDriver) {
  FakeTree tree;
  EXPECT_EQ(by_domain(hwmon::find_meters_in(tree.at("absent"))).at("hwmon").reason, "no_driver");
  tree.write("hwmon0/name", "coretemp");
  EXPECT_EQ(by_domain(hwmon::find_meters_in(tree.root())).at("hwmon").grant, "modprobe acpi_power_meter");
}

}  // namespace
}  // namespace tw
