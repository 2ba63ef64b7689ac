#include "power/sources/estimate/source.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/power/fake_tree.hpp"

namespace tw {

using namespace power;

namespace {

std::string ticks(int busy, int idle, int steal) {
  return "cpu  " + std::to_string(busy) + " 0 0 " + std::to_string(idle) + " 0 0 0 " + std::to_string(steal) +
         " 0 0\ncpu0 1 2";
}

TEST(Estimate, IsALineOverUtilisation) {
  FakeTree tree;
  tree.write("stat", ticks(100, 100, 0));
  auto found = by_domain(estimate::find_meters_in(tree.at("stat"), 200));
  EnergyMeter& meter = *found.at("estimate:cpu").meter;
  EXPECT_EQ(meter.method(), EnergyMethod::estimate);
  EXPECT_FALSE(found.at("estimate:cpu").counted);
  const auto watts = [&](int busy, int idle, int steal) {
    const EnergySample from = meter.read();
    tree.write("stat", ticks(busy, idle, steal));
    const EnergySample to = meter.read();
    return (to.joules - from.joules) / std::chrono::duration<double>(to.time - from.time).count();
  };
  EXPECT_NEAR(watts(100, 200, 0), 60, 1e-6);     // idle: 0.3 x 200 W
  EXPECT_NEAR(watts(200, 200, 0), 200, 1e-6);    // busy
  EXPECT_NEAR(watts(250, 250, 900), 130, 1e-6);  // half; what another machine stole is left out
}

TEST(Estimate, RefusesWhatIsNoPowerOrNoStat) {
  FakeTree tree;
  tree.write("stat", ticks(1, 1, 0));
  for (const double watts : {0.0, -5.0, std::nan("")})
    EXPECT_EQ(by_domain(estimate::find_meters_in(tree.at("stat"), watts)).at("estimate:cpu").reason, "unsupported");
  tree.write("stat", "intr 5");
  EXPECT_EQ(by_domain(estimate::find_meters_in(tree.at("stat"), 100)).at("estimate:cpu").reason, "unsupported");
}

TEST(Estimate, IsOptInAndNeverCounted) {
  for (const MeterFinding& finding : find_meters()) EXPECT_NE(finding.domain, "estimate:cpu");
  MeterOptions options;
  options.estimate_watts = 100;
  const auto findings = find_meters(options);
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [](const MeterFinding& one) { return one.domain == "estimate:cpu"; });
  ASSERT_NE(found, findings.end());
  EXPECT_FALSE(found->counted);
  EXPECT_TRUE(found->reason == "estimate" || found->reason == "duplicate") << found->reason;
}

}  // namespace
}  // namespace tw
