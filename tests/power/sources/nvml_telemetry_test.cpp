// NVIDIA telemetry over the stand-in library.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <thread>

#include "power/sources/nvml/library.hpp"
#include "tests/power/sources/nvml_finders.hpp"
#include "tests/support/nvml/stand_in.hpp"

namespace tw {

using namespace power;

namespace {

std::map<std::string, double> read(Telemetry& telemetry) {
  std::vector<double> values(telemetry.channels().size());
  telemetry.read(values);
  std::map<std::string, double> named;
  for (std::size_t i = 0; i < values.size(); ++i) named[telemetry.channels()[i].quantity] = values[i];
  return named;
}

TEST(NvmlTelemetry, ReadsAllChannels) {
  standin::StandIn machine(1);
  const auto findings = nvml_find_telemetry();
  ASSERT_EQ(findings.size(), 1u);
  ASSERT_NE(findings[0].telemetry, nullptr);
  EXPECT_EQ(findings[0].domain, "nvml:GPU-00000000-1111-2222-3333-444444444444");
  EXPECT_EQ(findings[0].reason, "");
  Telemetry& telemetry = *findings[0].telemetry;
  std::map<std::string, bool> cumulative;
  for (const Channel& channel : telemetry.channels()) {
    EXPECT_EQ(channel.domain, findings[0].domain);
    cumulative[channel.quantity] = channel.cumulative;
  }
  const std::map<std::string, bool> expected = {{"power_w", false},
                                                {"temperature_c", false},
                                                {"sm_clock_mhz", false},
                                                {"memory_clock_mhz", false},
                                                {"utilisation", false},
                                                {"sm_active", false},
                                                {"memory_used_bytes", false},
                                                {"throttle_power_cap_s", true},
                                                {"throttle_thermal_s", true},
                                                {"throttle_brake_s", true},
                                                {"ecc_errors", true},
                                                {"xid_errors", true}};
  EXPECT_EQ(cumulative, expected);
  machine.edit(0, [](standin::Gpu& gpu) { gpu.load_percent = 50, gpu.memory_used_mib = 61440; });
  const auto values = read(telemetry);
  EXPECT_DOUBLE_EQ(values.at("power_w"), 345);
  EXPECT_DOUBLE_EQ(values.at("temperature_c"), 64);
  EXPECT_DOUBLE_EQ(values.at("sm_clock_mhz"), 1980);
  EXPECT_DOUBLE_EQ(values.at("memory_clock_mhz"), 2619);
  EXPECT_DOUBLE_EQ(values.at("utilisation"), 0.5);
  EXPECT_DOUBLE_EQ(values.at("memory_used_bytes"), 60.0 * (1 << 30));
  EXPECT_EQ(values.at("ecc_errors"), 0);
  EXPECT_EQ(values.at("xid_errors"), 0);
}

TEST(NvmlTelemetry, CountsThrottleTimeUnderTheNumbersOfEachDriver) {
  // 565 and 570 have no such fields, but an older function that tells of heat.
  for (const std::string driver :
       {"565.57.01", "570.211.01", "575.51.02", "580.65.06", "580.76.05", "580.82.07", "580.126.09", "610.43.02"}) {
    SCOPED_TRACE(driver);
    const bool has_fields = driver > "575";
    standin::StandIn machine(1);
    machine.edit_all([&](standin::State& state) { state.driver = driver; });
    machine.freeze();
    const auto findings = nvml_find_telemetry();
    Telemetry& telemetry = *findings.at(0).telemetry;
    const auto before = read(telemetry);
    machine.edit(0, [](standin::Gpu& gpu) { gpu.hot = 1; });
    machine.advance_milliseconds(250);
    machine.edit(0, [](standin::Gpu& gpu) { gpu.hot = 0, gpu.brake = 1; });
    machine.advance_milliseconds(125);
    const auto after = read(telemetry);
    EXPECT_DOUBLE_EQ(after.at("throttle_thermal_s") - before.at("throttle_thermal_s"), 0.25);
    ASSERT_EQ(after.count("throttle_brake_s"), has_fields ? 1u : 0u);
    if (has_fields) {
      EXPECT_DOUBLE_EQ(after.at("throttle_brake_s") - before.at("throttle_brake_s"), 0.125);
    }
  }
}

TEST(NvmlTelemetry, ADriverWithoutAVersionIsAskedForNothingThatChanged) {
  for (const char* text : {"", "580", "580.", "five.82", ".82"}) {
    const nvml::ThrottleFields ids = nvml::throttle_fields_of(text);
    EXPECT_EQ(ids.power_cap, 74u) << text;
    EXPECT_EQ(ids.software_thermal + ids.hardware_thermal + ids.brake, 0u) << text;
  }
  standin::StandIn machine(1);
  machine.edit_all([](standin::State& state) { state.driver.clear(); });
  const auto values = read(*nvml_find_telemetry().at(0).telemetry);
  EXPECT_EQ(values.count("throttle_brake_s"), 0u);
  EXPECT_EQ(values.count("throttle_thermal_s"), 1u);  // by the older function
}

TEST(NvmlTelemetry, AThrottleTimeNeverChangesItsSource) {
  standin::StandIn machine(1);
  machine.freeze();
  machine.edit(0, [](standin::Gpu& gpu) { gpu.hot = 1; });
  machine.advance_milliseconds(5000);  // so that the accounts of fields and of the older function would tell apart
  machine.edit(0, [](standin::Gpu& gpu) { gpu.hot = 0; });
  const auto findings = nvml_find_telemetry();
  Telemetry& telemetry = *findings.at(0).telemetry;
  EXPECT_DOUBLE_EQ(read(telemetry).at("throttle_thermal_s"), 5);
  machine.edit(0, [](standin::Gpu& gpu) { gpu.no_fields = 1; });  // a reading that fails
  EXPECT_TRUE(std::isnan(read(telemetry).at("throttle_power_cap_s")));
  EXPECT_TRUE(std::isnan(read(telemetry).at("throttle_thermal_s")));
  EXPECT_TRUE(std::isnan(read(telemetry).at("throttle_brake_s")));
  machine.edit(0, [](standin::Gpu& gpu) { gpu.no_fields = 0, gpu.no_field = 269; });  // one of the two that are added
  EXPECT_TRUE(std::isnan(read(telemetry).at("throttle_thermal_s")));
  EXPECT_DOUBLE_EQ(read(telemetry).at("throttle_brake_s"), 0);
  machine.edit(0, [](standin::Gpu& gpu) { gpu.no_field = 0; });
  EXPECT_DOUBLE_EQ(read(telemetry).at("throttle_thermal_s"), 5);
  // Nor is a source taken up that did not answer at first.
  machine.edit(0, [](standin::Gpu& gpu) { gpu.no_fields = 1; });
  const auto later = nvml_find_telemetry();
  machine.edit(0, [](standin::Gpu& gpu) { gpu.no_fields = 0, gpu.old_base_ns = 3'000'000'000; });
  EXPECT_DOUBLE_EQ(read(*later.at(0).telemetry).at("throttle_thermal_s"), 8);
}

TEST(NvmlTelemetry, CountsThrottleTime) {
  standin::StandIn machine(1);
  machine.freeze();
  const auto findings = nvml_find_telemetry();
  Telemetry& telemetry = *findings.at(0).telemetry;
  const auto before = read(telemetry);
  machine.edit(0, [](standin::Gpu& gpu) { gpu.limit_mw = 300000; });
  machine.advance_milliseconds(2500);
  machine.edit(0, [](standin::Gpu& gpu) { gpu.limit_mw = 700000, gpu.hot = 1; });
  machine.advance_milliseconds(250);
  machine.edit(0, [](standin::Gpu& gpu) { gpu.hot = 0, gpu.brake = 1; });
  machine.advance_milliseconds(125);
  const auto after = read(telemetry);
  const auto grown = [&](const char* name) { return after.at(name) - before.at(name); };
  EXPECT_DOUBLE_EQ(grown("throttle_power_cap_s"), 2.5);
  EXPECT_DOUBLE_EQ(grown("throttle_thermal_s"), 0.25);
  EXPECT_DOUBLE_EQ(grown("throttle_brake_s"), 0.125);
}

TEST(NvmlTelemetry, CountsErrorsFromItsOpeningOn) {
  standin::StandIn machine;
  machine.edit(0, [](standin::Gpu& gpu) { gpu.xid_count = 5; });
  const auto findings = nvml_find_telemetry();
  Telemetry &one = *findings.at(0).telemetry, &other = *findings.at(1).telemetry;
  EXPECT_EQ(read(one).at("xid_errors"), 0);
  machine.edit(0, [](standin::Gpu& gpu) {
    gpu.xid_count = 8, gpu.last_xid = 79, gpu.ecc_corrected = 4, gpu.ecc_uncorrected = 1;
  });
  EXPECT_EQ(read(one).at("xid_errors"), 3);
  EXPECT_EQ(read(one).at("xid_errors"), 3);
  EXPECT_EQ(read(one).at("ecc_errors"), 5);
  EXPECT_EQ(read(other).at("xid_errors"), 0);
  EXPECT_EQ(read(other).at("ecc_errors"), 0);
}

TEST(NvmlTelemetry, ReadsSmActiveBetweenSamplesFarEnoughApart) {
  standin::StandIn machine(1);
  machine.edit(0, [](standin::Gpu& gpu) { gpu.load_percent = 75; });
  // Two samples are needed; too early a second is an error. Where this process was held up, it was not too early.
  std::vector<TelemetryFinding> findings;
  std::chrono::steady_clock::time_point start;
  double value = 0;
  do {
    start = std::chrono::steady_clock::now();
    findings = nvml_find_telemetry();
    value = read(*findings.at(0).telemetry).at("sm_active");
  } while (std::chrono::steady_clock::now() - start > std::chrono::milliseconds(100));
  EXPECT_TRUE(std::isnan(value));
  Telemetry& telemetry = *findings.at(0).telemetry;
  while (std::isnan(value)) {  // else CTest's time limit
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    value = read(telemetry).at("sm_active");
  }
  EXPECT_DOUBLE_EQ(value, 0.75);
  // The first reading of a later window says nothing of the time before it.
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  EXPECT_TRUE(std::isnan(read(telemetry).at("sm_active")));
}

TEST(NvmlTelemetry, LeavesOutWhatTheDeviceLacks) {
  standin::StandIn machine(1);
  machine.edit(0, [](standin::Gpu& gpu) { gpu.gpm = 0, gpu.no_ecc = 1, gpu.no_fields = 1; });
  const auto findings = nvml_find_telemetry();
  const auto values = read(*findings.at(0).telemetry);
  EXPECT_EQ(values.count("sm_active"), 0u);
  EXPECT_EQ(values.count("ecc_errors"), 0u);
  EXPECT_EQ(values.count("throttle_brake_s"), 0u);
  EXPECT_EQ(values.count("throttle_power_cap_s"), 1u);  // by the older function
  EXPECT_DOUBLE_EQ(values.at("power_w"), 620);          // likewise
}

TEST(NvmlTelemetry, HasNoNumbersForALostGpu) {
  standin::StandIn machine;
  const auto findings = nvml_find_telemetry();
  machine.edit(0, [](standin::Gpu& gpu) { gpu.lost = 1; });
  for (const auto& [name, value] : read(*findings.at(0).telemetry)) EXPECT_TRUE(std::isnan(value)) << name;
  EXPECT_FALSE(std::isnan(read(*findings.at(1).telemetry).at("power_w")));
  const auto again = nvml_find_telemetry();
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[0].telemetry, nullptr);
  EXPECT_EQ(again[0].reason, "lost");
}

}  // namespace
}  // namespace tw
