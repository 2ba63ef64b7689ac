// A made-up ipmitool on PATH: what it prints, refuses, and when it never ends.
#include "power/sources/ipmi/source.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <system_error>
#include <thread>

#include "power/meter/energy_meter.hpp"
#include "power/sources/hwmon/source.hpp"
#include "tests/power/fake_tree.hpp"
#include "tests/power/ordinary_user.hpp"

namespace tw {

using namespace power;

namespace {

constexpr const char* good = R"(
    Instantaneous power reading:                   220 Watts
    Minimum during sampling period:                 44 Watts
    Maximum during sampling period:                508 Watts
    Average power reading over sample period:      212 Watts
    IPMI timestamp:                           01/02/26 03:04:05 UTC
    Power reading state is:                   activated
)";

TEST(IpmiReading, TakesThePowerOfTheMoment) {
  EXPECT_DOUBLE_EQ(ipmi::parse_reading(good), 220);
  EXPECT_DOUBLE_EQ(ipmi::parse_reading("Instantaneous power reading: 7 Watts"), 7);
}

TEST(IpmiReading, RefusesWhatIsNoReading) {
  for (const char* text : {"", "Instantaneous power reading:", "Instantaneous power reading: 220 Volts",
                           "Instantaneous power reading\n: 220 Watts", "Instantaneous power reading:  0 Watts",
                           "Instantaneous power reading:  x Watts", "DCMI request failed",
                           "Instantaneous power reading: 220 Watts\nPower reading state is: deactivated\n"})
    EXPECT_THROW(ipmi::parse_reading(text), std::system_error) << text;
}

class Ipmi : public testing::Test {
 protected:
  void SetUp() override {
    tree.write("ipmi0", "");
    chmod(tree.at("ipmi0").c_str(), 0666);
    options.devices = {tree.at("none"), tree.at("ipmi0")};
    options.hwmon = tree.at("hwmon");
    options.period_seconds = 0.05;
    path = std::getenv("PATH");
    setenv("PATH", (tree.at("bin").string() + ":" + path).c_str(), 1);
  }
  void TearDown() override { setenv("PATH", path.c_str(), 1); }
  void tool(const std::string& script) {
    tree.replace("bin/ipmitool", "#!/bin/sh\n" + script);
    chmod(tree.at("bin/ipmitool").c_str(), 0755);
  }
  std::map<std::string, MeterFinding> find() { return by_domain(ipmi::find_meters_in(options)); }
  FakeTree tree;
  ipmi::Options options;
  std::string path;
};

TEST_F(Ipmi, IntegratesWhatTheToolPrints) {
  tool("[ \"$*\" = 'dcmi power reading' ] || exit 9\ncat <<'END'" + std::string(good) + "END");
  const auto found = find();
  ASSERT_TRUE(found.at("ipmi:dcmi").meter) << found.at("ipmi:dcmi").detail;
  EnergyMeter& meter = *found.at("ipmi:dcmi").meter;
  EXPECT_EQ(meter.scope(), EnergyScope::node);
  EXPECT_EQ(meter.method(), EnergyMethod::integrated_power);
  const EnergySample from = meter.read();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const EnergySample to = meter.read();
  const double expected = 220 * std::chrono::duration<double>(to.time - from.time).count();
  EXPECT_NEAR(meter.joules_between(from, to), expected, 1e-9 * expected);
}

// What is held at a window's edge is as old as the tool is slow: part of the uncertainty.
TEST_F(Ipmi, ASlowToolMakesTheUpdatePeriodLonger) {
  tool("sleep 0.2; echo 'Instantaneous power reading: 9 Watts'");
  const auto found = find();
  ASSERT_TRUE(found.at("ipmi:dcmi").meter) << found.at("ipmi:dcmi").detail;
  EXPECT_GE(found.at("ipmi:dcmi").meter->update_period_seconds(), 0.3);
}

TEST_F(Ipmi, TheToolsTimeIsMeterings) {
  tool("echo 'Instantaneous power reading: 9 Watts'; i=0; while [ $i -lt 5000 ]; do i=$((i + 1)); done");
  const auto children_seconds = [] {
    rusage used{};
    getrusage(RUSAGE_CHILDREN, &used);
    return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  };
  const double before = children_seconds();
  const auto found = find();
  ASSERT_TRUE(found.at("ipmi:dcmi").meter) << found.at("ipmi:dcmi").detail;
  const double tool_seconds = children_seconds() - before;
  ASSERT_GT(tool_seconds, 0);
  EXPECT_GT(found.at("ipmi:dcmi").meter->cpu_seconds(), 0.99 * tool_seconds);
}

TEST_F(Ipmi, LosesAToolThatBeginsToFail) {
  tool(
      "[ -e \"$0.broken\" ] && { echo 'DCMI request failed' >&2; exit 1; }\necho 'Instantaneous power reading: 9 "
      "Watts'");
  const auto found = find();
  ASSERT_TRUE(found.at("ipmi:dcmi").meter) << found.at("ipmi:dcmi").detail;
  tree.write("bin/ipmitool.broken", "");
  try {
    while (true) {  // else CTest's time limit
      found.at("ipmi:dcmi").meter->read();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("DCMI request failed"), std::string::npos) << error.what();
  }
}

TEST_F(Ipmi, KillsAToolThatNeverEnds) {
  options.timeout_seconds = 0.2;
  tool("exec sleep 1000");
  const auto found = find();
  EXPECT_EQ(found.at("ipmi:dcmi").reason, "unsupported");
  EXPECT_NE(found.at("ipmi:dcmi").detail.find("timed out"), std::string::npos) << found.at("ipmi:dcmi").detail;
}

TEST_F(Ipmi, IsTheNodesMeterWhereTheKernelsShowsNothing) {
  tool("echo 'Instantaneous power reading: 9 Watts'");
  tree.write("hwmon/hwmon0/name", "power_meter");
  for (const char* power : {"0", "n/a"}) {
    tree.write("hwmon/hwmon0/power1_average", power);
    std::vector<MeterFinding> findings = ipmi::find_meters_in(options);
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_TRUE(findings[0].meter) << power << ": " << findings[0].reason;
    for (MeterFinding& finding : hwmon::find_meters_in(options.hwmon)) findings.push_back(std::move(finding));
    arbitrate(findings);
    EXPECT_TRUE(findings[0].counted);
    EXPECT_FALSE(findings.back().scope) << "nothing of the node is missing";
  }
}

TEST_F(Ipmi, SaysWhatIsMissing) {
  tool("echo 'Instantaneous power reading: 9 Watts'");
  chmod(tree.at("ipmi0").c_str(), 0600);
  {
    const AsOrdinaryUser user;
    if (euidaccess(tree.at("ipmi0").c_str(), R_OK) != 0) {
      EXPECT_EQ(find().at("ipmi:dcmi").reason, "permission");
    }
  }
  tree.write("hwmon/hwmon0/name", "power_meter");
  tree.write("hwmon/hwmon0/power1_average", "100000000");
  EXPECT_EQ(find().at("ipmi").reason, "duplicate");
  tree.remove("hwmon");
  tree.remove("bin/ipmitool");
  setenv("PATH", tree.at("bin").c_str(), 1);
  EXPECT_EQ(find().at("ipmi:dcmi").grant, "the program ipmitool on PATH");
  tree.remove("ipmi0");
  EXPECT_EQ(find().at("ipmi").reason, "no_driver");
}

}  // namespace
}  // namespace tw
