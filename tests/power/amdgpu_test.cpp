// AMD GPUs as the kernel shows them: power as a meter of hwmon, telemetry.
#include <gtest/gtest.h>

#include <cmath>

#include "power/amdgpu/telemetry.hpp"
#include "power/hwmon/source.hpp"
#include "tests/power/fake_tree.hpp"

namespace tw {
namespace {

void make_card(const FakeTree& tree, const std::string& chip, const std::string& pci) {
  tree.write("pci/" + pci + "/gpu_busy_percent", "75");
  tree.write("class/" + chip + "/name", "amdgpu");
  std::filesystem::create_directory_symlink(tree.at("pci/" + pci), tree.at("class/" + chip + "/device"));
  tree.write("class/" + chip + "/power1_label", "PPT");
  tree.write("class/" + chip + "/power1_average", "300000000");
  tree.write("class/" + chip + "/temp1_label", "edge");
  tree.write("class/" + chip + "/temp1_input", "50000");
  tree.write("class/" + chip + "/temp2_label", "junction");
  tree.write("class/" + chip + "/temp2_input", "65000");
  tree.write("class/" + chip + "/freq1_label", "sclk");
  tree.write("class/" + chip + "/freq1_input", "1700000000");
  tree.write("class/" + chip + "/freq2_label", "mclk");
  tree.write("class/" + chip + "/freq2_input", "1300000000");
}

TEST(AmdGpu, PowerIsADevicesByItsPciAddress) {
  FakeTree tree;
  make_card(tree, "hwmon3", "0000:c1:00.0");
  const auto found = by_domain(hwmon::find_meters_in(tree.at("class")));
  ASSERT_EQ(found.size(), 1u);
  const MeterFinding& card = found.at("amdgpu:0000:c1:00.0");
  EXPECT_EQ(card.scope, EnergyScope::device);
  EXPECT_EQ(card.meter->method(), EnergyMethod::integrated_power);
  EXPECT_TRUE(card.counted);
  const EnergySample from = card.meter->read(), to = card.meter->read();
  EXPECT_NEAR(card.meter->joules_between(from, to), 300 * std::chrono::duration<double>(to.time - from.time).count(),
              1e-9);
}

TEST(AmdGpu, AnApusLimitsAreNoCards) {
  FakeTree tree;
  make_card(tree, "hwmon3", "0000:c1:00.0");
  tree.write("class/hwmon3/power1_label", "slowPPT");
  EXPECT_EQ(by_domain(hwmon::find_meters_in(tree.at("class"))).at("hwmon:hwmon3/power1").reason, "unsupported");
}

TEST(AmdGpu, TelemetryHasWhatIsThere) {
  FakeTree tree;
  make_card(tree, "hwmon3", "0000:c1:00.0");
  tree.write("class/hwmon4/name", "nvme");
  auto found = amdgpu::find_telemetry_in(tree.at("class"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].domain, "amdgpu:0000:c1:00.0");
  const auto read = [&] {
    std::vector<double> values(found[0].telemetry->channels().size());
    found[0].telemetry->read(values);
    std::map<std::string, double> named;
    for (std::size_t i = 0; i < values.size(); ++i) named[found[0].telemetry->channels()[i].quantity] = values[i];
    return named;
  };
  EXPECT_EQ(read(), (std::map<std::string, double>{{"power_w", 300},
                                                   {"temperature_c", 65},
                                                   {"sm_clock_mhz", 1700},
                                                   {"memory_clock_mhz", 1300},
                                                   {"utilisation", 0.75}}));
  tree.remove("class/hwmon3/temp2_input");
  EXPECT_TRUE(std::isnan(read().at("temperature_c")));
  EXPECT_EQ(read().at("power_w"), 300);

  tree.remove("class/hwmon3");
  found = amdgpu::find_telemetry_in(tree.at("class"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].reason, "no_driver");
}

}  // namespace
}  // namespace tw
