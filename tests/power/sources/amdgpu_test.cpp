// AMD GPUs as the kernel shows them: power as a meter of hwmon, telemetry.
#include <gtest/gtest.h>

#include <cmath>

#include "power/sources/amdgpu/amdgpu.hpp"
#include "power/sources/hwmon/source.hpp"
#include "tests/power/fake_tree.hpp"

namespace tw {

using namespace power;

namespace {

void make_card(const FakeTree& tree, const std::string& chip, const std::string& pci) {
  tree.write("pci/" + pci + "/gpu_busy_percent", "75");
  tree.write("pci/" + pci + "/mem_info_vram_used", "2147483648");
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

TEST(AmdGpu, AnApusPowerIsItsSockets) {
  FakeTree tree;
  make_card(tree, "hwmon3", "0000:04:00.0");
  tree.write("class/hwmon3/in1_input", "700");  // the northbridge's voltage
  make_card(tree, "hwmon4", "0000:05:00.0");
  tree.write("pci/0000:05:00.0/device", "0x74a0");  // MI300A
  make_card(tree, "hwmon5", "0000:c1:00.0");
  tree.write("pci/0000:c1:00.0/device", "0x74a1");  // MI300X
  const auto found = by_domain(hwmon::find_meters_in(tree.at("class")));
  ASSERT_EQ(found.size(), 3u);
  for (const char* apu : {"amdgpu:0000:04:00.0", "amdgpu:0000:05:00.0"}) {
    EXPECT_EQ(found.at(apu).meter->scope(), EnergyScope::package) << apu;
    EXPECT_NE(found.at(apu).detail.find("the whole socket's"), std::string::npos) << found.at(apu).detail;
  }
  EXPECT_EQ(found.at("amdgpu:0000:c1:00.0").meter->scope(), EnergyScope::device);
  EXPECT_EQ(found.at("amdgpu:0000:c1:00.0").detail.find("socket"), std::string::npos);
}

TEST(AmdGpu, AnApuThatShowsNothingTakesNoGpusJoules) {
  FakeTree tree;
  make_card(tree, "hwmon3", "0000:04:00.0");
  tree.write("class/hwmon3/in1_input", "700");
  tree.write("class/hwmon3/power1_average", "0");
  std::vector<MeterFinding> found = hwmon::find_meters_in(tree.at("class"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].reason, "unsupported");
  EXPECT_EQ(found[0].scope, EnergyScope::package) << "a device without joules would leave the device scope without";
}

/// Node 0 is a CPU; ROCm's number 0 is c1, 1 and 2 are partitions of 03 in another domain, 3 is 83. 99 has no node, so
/// that no program can use it.
class AmdSight : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* card : {"0000:c1:00.0", "0001:03:00.0", "0000:83:00.0", "0000:99:00.0"}) {
      std::filesystem::create_directories(tree.at("pci/" + std::string(card)));
      std::filesystem::create_directories(tree.at("driver"));
      std::filesystem::create_directory_symlink(tree.at("pci/" + std::string(card)),
                                                tree.at("driver/" + std::string(card)));
    }
    tree.write("driver/new_id", "");
    tree.write("nodes/0/properties", "cpu_cores_count 64\nsimd_count 0\nlocation_id 0\ndomain 0");
    add(1, 0xc100, 0, 0xabc);
    add(2, 0x0300, 1, 0x1111000000000001);
    add(3, 0x0301, 1, 0x1111000000000002);
    add(10, 0x8300, 0, 0xfedcba9876543210);  // after 3, not after 1
  }
  void add(int node, unsigned location, unsigned domain, unsigned long long unique_id) {
    tree.write("nodes/" + std::to_string(node) + "/properties",
               "cpu_cores_count 0\nsimd_count 1216\nvendor_id 4098\nlocation_id " + std::to_string(location) +
                   "\ndomain " + std::to_string(domain) + "\nunique_id " + std::to_string(unique_id));
  }
  /// As the kernel answers for a node that a cgroup keeps away: its files are listed, but cannot be read.
  void hide(int node) {
    const std::string file = "nodes/" + std::to_string(node) + "/properties";
    tree.remove(file);
    std::filesystem::create_directories(tree.at(file));
  }
  std::string see(std::optional<std::string> rocr, std::optional<std::string> hip = std::nullopt,
                  std::optional<std::string> cuda = std::nullopt) {
    const Sight sight =
        amdgpu::look_in(tree.at("driver"), tree.at("nodes"), {std::move(rocr), std::move(hip), std::move(cuda)});
    EXPECT_GE(sight.addressable.size(), sight.visible.size());
    unclear = sight.unclear;
    std::string buses;
    for (const std::string& domain : sight.visible) buses += domain.substr(12, 2) + " ";
    return buses;
  }
  FakeTree tree;
  std::string unclear;  // of the last look
};

TEST_F(AmdSight, FollowsRocmsVariables) {
  EXPECT_EQ(see({}), "83 c1 03 ");
  EXPECT_EQ(see("0"), "c1 ");
  EXPECT_EQ(see("3, 2"), "83 03 ");
  EXPECT_EQ(see("GPU-fedcba9876543210"), "83 ");
  EXPECT_EQ(see("GPU-FEDC"), "83 ");
  EXPECT_EQ(see("GPU-0000000000000abc,1"), "c1 03 ");
  EXPECT_EQ(see("GPU-1111,0"), "") << "two of that beginning: the list ends there";
  EXPECT_EQ(see("0,4,3"), "c1 ") << "there is no 4: the list ends there";
  EXPECT_EQ(see(""), "") << "set, and empty";
  EXPECT_EQ(see("3,0", "1"), "c1 ") << "a number among those left";
  EXPECT_EQ(see({}, "3"), "83 ");
  EXPECT_EQ(see("0", "-1"), "");
  EXPECT_EQ(see("0", ""), "c1 ") << "no restriction";
}

TEST_F(AmdSight, WhatACgroupKeepsAwayIsNotVisible) {
  hide(1);
  EXPECT_EQ(see({}), "83 03 ");
  EXPECT_EQ(see("0"), "03 ") << "0 is then the next one";
  for (const int node : {2, 3, 10}) hide(node);
  EXPECT_EQ(see({}), "") << "all of them";
}

TEST_F(AmdSight, HidesNothingWhereRocmKnowsNoGpu) {
  for (const int node : {1, 2, 3, 10}) tree.remove("nodes/" + std::to_string(node));
  EXPECT_EQ(see("0"), "83 99 c1 03 ") << "CPUs alone";
  tree.remove("nodes");
  EXPECT_EQ(see("0"), "83 99 c1 03 ");
  tree.remove("driver");
  EXPECT_EQ(see({}), "");
}

TEST_F(AmdSight, ACudaVariableThatSomeHipFollowsIsUnclear) {
  see({}, {}, "0");
  EXPECT_NE(unclear.find("CUDA_VISIBLE_DEVICES=0"), std::string::npos) << unclear;
  see({}, "", "1");
  EXPECT_NE(unclear, "") << "an empty HIP_VISIBLE_DEVICES does not count";
  see({}, {}, "-1");
  EXPECT_NE(unclear, "");
  EXPECT_EQ(see({}, "0", "3"), "c1 ");
  EXPECT_EQ(unclear, "") << "HIP's own has the word";
  EXPECT_EQ(see({}, {}, "0,1,2,3"), "83 c1 03 ");
  EXPECT_EQ(unclear, "") << "all, followed or not";
  EXPECT_EQ(see("3,0", {}, "0,1"), "83 c1 ");
  EXPECT_EQ(unclear, "") << "all that the runtime below leaves";
  see({}, {}, "");
  EXPECT_EQ(unclear, "");
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
                                                   {"utilisation", 0.75},
                                                   {"memory_used_bytes", 2147483648.0}}));
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
