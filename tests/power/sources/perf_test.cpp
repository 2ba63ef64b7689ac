// perf_event_open for real, on a made-up PMU: its type is the kernel's software PMU, its event cpu-clock, which counts
// nanoseconds: at a scale of 1e-9 a CPU uses exactly 1 W.
#include "power/sources/perf/source.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/power/fake_tree.hpp"
#include "tests/power/ordinary_user.hpp"

namespace tw {

using namespace power;

namespace {

using Clock = std::chrono::steady_clock;

class PerfPmu : public testing::Test {
 protected:
  void SetUp() override {
    tree.write("pmu/type", "1");
    tree.write("pmu/cpumask", "0");
    tree.write("pmu/format/event", "config:0-7");
    add_event("energy-pkg");
    tree.write("cpus/cpu0/topology/physical_package_id", "0");
    tree.write("cpus/cpu0/topology/die_id", "0");
  }
  void add_event(const std::string& name) {
    tree.write("pmu/events/" + name, "event=0x00");
    tree.write("pmu/events/" + name + ".scale", "1e-9");
    tree.write("pmu/events/" + name + ".unit", "Joules");
  }
  std::map<std::string, MeterFinding> find() {
    return by_domain(perf::find_meters_in(tree.at("pmu"), tree.at("cpus")));
  }
  /// For the cases that need an event to open.
  std::string why_not() {
    const auto found = find();
    return found.at("perf:package-0").meter ? "" : "perf_event_open is not allowed here";
  }
  FakeTree tree;
};

TEST_F(PerfPmu, CountsAWattOfCpuClock) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  auto found = find();
  EnergyMeter& meter = *found.at("perf:package-0").meter;
  EXPECT_EQ(meter.scope(), EnergyScope::package);
  EXPECT_EQ(meter.method(), EnergyMethod::counter);
  // Whatever the scheduler does, the joules lie between the shortest and the longest time between the two readings.
  const auto a = Clock::now();
  const EnergySample from = meter.read();
  const auto b = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto c = Clock::now();
  const EnergySample to = meter.read();
  const auto d = Clock::now();
  const double joules = meter.joules_between(from, to), slew = 1e-3;  // of one kernel clock against the other
  EXPECT_GE(joules, std::chrono::duration<double>(c - b).count() * (1 - slew));
  EXPECT_LE(joules, std::chrono::duration<double>(d - a).count() * (1 + slew));
}

TEST_F(PerfPmu, OpensEachDomainByTheMask) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  add_event("energy-ram");
  add_event("energy-psys");
  add_event("energy-cores");  // inside package: never asked for
  tree.write("cpus/cpu1/topology/physical_package_id", "0");
  tree.write("cpus/cpu1/topology/die_id", "1");
  if (std::thread::hardware_concurrency() > 1) {
    tree.write("pmu/cpumask", "0-1");  // two dies of one package
    const auto found = find();
    EXPECT_EQ(found.size(), 5u);
    for (const char* domain : {"perf:package-0-die-0", "perf:package-0-die-1"})
      EXPECT_EQ(found.at(domain).scope, EnergyScope::package) << domain;
    for (const char* domain : {"perf:package-0-die-0/dram", "perf:package-0-die-1/dram"})
      EXPECT_EQ(found.at(domain).scope, EnergyScope::dram) << domain;
    EXPECT_EQ(found.at("perf:psys").scope, EnergyScope::node);  // once, not once a die
  }
  tree.write("pmu/cpumask", "0");
  const auto found = find();
  EXPECT_EQ(found.size(), 3u);
  EXPECT_TRUE(found.at("perf:package-0").meter && found.at("perf:package-0/dram").meter);
}

TEST_F(PerfPmu, DiesOfAPackageWideCounterCountOnce) {
  tree.write("cpus/modalias", "cpu:type:x86,ven0002fam0019mod0001:feature:,0000,0001");  // AMD
  tree.write("cpus/cpu1/topology/physical_package_id", "0");
  tree.write("cpus/cpu1/topology/die_id", "1");
  tree.write("pmu/cpumask", "0-1");
  const auto found = find();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at("perf:package-0-die-0").scope, EnergyScope::package);
  EXPECT_EQ(found.at("perf:package-0-die-1").reason, "duplicate");
  EXPECT_FALSE(found.at("perf:package-0-die-1").scope);
}

TEST_F(PerfPmu, AnOrdinaryUserIsToldWhatWouldHelp) {
  const AsOrdinaryUser user;
  const auto found = find();
  const MeterFinding& finding = found.at("perf:package-0");
  if (finding.meter) GTEST_SKIP() << "kernel.perf_event_paranoid lets everybody count here";
  EXPECT_EQ(finding.reason, "permission");
  EXPECT_EQ(finding.scope, EnergyScope::package);
  EXPECT_NE(finding.detail.find("perf_event_open on CPU 0"), std::string::npos) << finding.detail;
  EXPECT_NE(finding.grant.find("cap_perfmon"), std::string::npos);
  EXPECT_NE(finding.grant.find("perf_event_paranoid=0"), std::string::npos);
}

TEST_F(PerfPmu, NoPmuIsNoDriver) {
  tree.remove("pmu");
  const auto found = find();
  EXPECT_EQ(found.at("perf").reason, "no_driver");
  EXPECT_EQ(found.at("perf").grant, "modprobe rapl");
}

TEST_F(PerfPmu, MalformedFilesAreUnsupportedNotZero) {
  for (const auto& [file, text] : std::map<std::string, std::string>{{"pmu/events/energy-pkg.unit", "Furlongs"},
                                                                     {"pmu/events/energy-pkg.scale", "-1"},
                                                                     {"pmu/events/energy-pkg.scale", "much"},
                                                                     {"pmu/events/energy-pkg", "umask=0x1"},
                                                                     {"pmu/format/event", "config1:0-7"}}) {
    SetUp();
    tree.write(file, text);
    const auto found = find();
    EXPECT_EQ(found.at("perf:package-0").reason, "unsupported") << file;
    EXPECT_EQ(found.at("perf:package-0").scope, EnergyScope::package) << file;
  }
  for (const char* mask : {"", "zero", "3-1", "0,", "-1"}) {
    SetUp();
    tree.write("pmu/cpumask", mask);
    EXPECT_EQ(find().at("perf").reason, "unsupported") << mask;
  }
}

TEST_F(PerfPmu, ACpuThatIsNotThereIsUnsupported) {
  if (const std::string why = why_not(); !why.empty()) GTEST_SKIP() << why;
  tree.write("pmu/cpumask", "1048575");
  tree.write("cpus/cpu1048575/topology/physical_package_id", "0");
  EXPECT_EQ(find().at("perf:package-0").reason, "unsupported");
}

TEST_F(PerfPmu, NoEventOfOursIsUnsupported) {
  tree.remove("pmu/events");
  add_event("energy-gpu");
  EXPECT_EQ(find().at("perf").reason, "unsupported");
}

}  // namespace
}  // namespace tw
