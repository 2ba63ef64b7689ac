// A driver from before Volta: no energy counter, no field values, no locked clocks, no GPM.
#include <gtest/gtest.h>

#include <map>

#include "tests/power/sources/nvml_finders.hpp"
#include "tests/support/nvml/stand_in.hpp"

namespace tw {

using namespace power;

namespace {

const std::string uuid = "GPU-00000000-1111-2222-3333-444444444444";

TEST(NvmlOld, IntegratesPowerInsteadOfTheMissingCounter) {
  standin::StandIn machine(1);
  const auto findings = nvml_find_meters({});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].domain, "nvml:" + uuid);
  EXPECT_EQ(findings[0].meter, nullptr);
  EXPECT_EQ(findings[0].reason, "unsupported");
  EXPECT_NE(findings[0].detail.find("has no symbol nvmlDeviceGetTotalEnergyConsumption"), std::string::npos);
  EXPECT_EQ(findings[1].domain, "nvml-power:" + uuid);
  EXPECT_TRUE(findings[1].counted);
  EXPECT_GE(findings[1].meter->update_period_seconds(), 1);  // averaged by the driver, as far as one can know
  EXPECT_NE(findings[1].detail.find("average over 1 s"), std::string::npos);
  const EnergySample from = findings[1].meter->read(), to = findings[1].meter->read();
  EXPECT_NEAR(to.joules - from.joules, 620 * std::chrono::duration<double>(to.time - from.time).count(), 1e-6);
}

TEST(NvmlOld, ThrottleTimesComeFromTheOlderFunction) {
  standin::StandIn machine(1);
  machine.freeze();
  const auto findings = nvml_find_telemetry();
  Telemetry& telemetry = *findings.at(0).telemetry;
  std::vector<double> before(telemetry.channels().size()), after(before);
  telemetry.read(before);
  machine.edit(0, [](standin::Gpu& gpu) { gpu.limit_mw = 300000; });
  machine.advance_milliseconds(1500);
  telemetry.read(after);
  std::map<std::string, double> grown, now;
  for (std::size_t i = 0; i < before.size(); ++i) {
    grown[telemetry.channels()[i].quantity] = after[i] - before[i];
    now[telemetry.channels()[i].quantity] = after[i];
  }
  EXPECT_DOUBLE_EQ(grown.at("throttle_power_cap_s"), 1.5);
  EXPECT_DOUBLE_EQ(grown.at("throttle_thermal_s"), 0);
  EXPECT_LE(now.at("power_w"), 300);
  EXPECT_EQ(now.count("sm_active"), 0u);
  EXPECT_EQ(now.count("throttle_brake_s"), 0u);
}

TEST(NvmlOld, ClocksCannotBeLockedButPowerCanBeCapped) {
  standin::StandIn machine(1);
  auto findings = nvml_find_knobs();
  ASSERT_EQ(findings.size(), 3u);
  const std::string device = "nvml:" + uuid;
  for (const KnobKind kind : {KnobKind::gpu_clock, KnobKind::gpu_memory_clock}) {
    const KnobFinding& finding = of_kind(findings, kind, device);
    EXPECT_EQ(finding.knob, nullptr);
    EXPECT_EQ(finding.reason, "unsupported");
    EXPECT_NE(finding.detail.find("LockedClocks"), std::string::npos);
  }
  Knob& limit = *of_kind(findings, KnobKind::gpu_power_limit, "nvml:" + uuid).knob;
  const KnobState found = limit.save();
  EXPECT_EQ(limit.set(300), 300);
  EXPECT_EQ(machine.gpu(0).limit_mw, 300000u);
  limit.restore(found);
  EXPECT_EQ(machine.gpu(0).limit_mw, 700000u);
}

}  // namespace
}  // namespace tw
