// AMD GPUs' energy over the stand-in library, whose joules are exact, beside a made-up /sys/bus/pci/devices.
#include <gtest/gtest.h>

#include <cmath>
#include <system_error>

#include "power/meter/energy_meter.hpp"
#include "power/meter/ledger.hpp"
#include "power/meter/reader.hpp"
#include "power/sources/amdsmi/library.hpp"
#include "power/sources/amdsmi/source.hpp"
#include "power/sources/hwmon/source.hpp"
#include "tests/power/fake_tree.hpp"
#include "tests/support/amdsmi/stand_in.hpp"

namespace tw {

using namespace power;

namespace {

using standin_amd::Gpu;
using standin_amd::StandIn;
using standin_amd::State;

constexpr std::uint64_t first_id = 0xc100, second_id = (std::uint64_t{1} << 32) | 0x0318;  // 0000:c1:00.0, 0001:03:03.0
const std::string first = "0000:c1:00.0", second = "0001:03:03.0";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Gpu gpu_of(std::uint64_t id, double watts = 320) {
  Gpu gpu;
  gpu.id = id;
  gpu.watts = watts;
  return gpu;
}

/// The kernel's view of the same card; hwmon's class leads there.
void show_power(const FakeTree& tree, const std::string& pci, double watts, const char* file = "power1_average") {
  const std::string chip = "pci/" + pci + "/hwmon/hwmon7", link = "class/" + pci.substr(5, 2);
  tree.write(chip + "/name", "amdgpu");
  tree.write(chip + "/" + file, std::to_string(std::llround(watts * 1e6)));
  std::error_code ignored;
  std::filesystem::create_directories(tree.at("class"));
  std::filesystem::create_directory_symlink(tree.at(chip), tree.at(link), ignored);
  std::filesystem::create_directory_symlink(tree.at("pci/" + pci), tree.at(chip + "/device"), ignored);
}

TEST(AmdSmi, CountsTheVeryJoulesOfEachCard) {
  StandIn machine({gpu_of(first_id), gpu_of(second_id, 160)});
  FakeTree tree;
  show_power(tree, first, 330);
  show_power(tree, second, 150, "power1_input");
  auto findings = amdsmi::find_meters_in(tree.at("pci"));
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].domain, "amdsmi:" + first);
  EXPECT_EQ(findings[1].domain, "amdsmi:" + second);
  for (const MeterFinding& finding : findings) {
    ASSERT_NE(finding.meter, nullptr) << finding.detail;
    EXPECT_TRUE(finding.counted);
    EXPECT_EQ(finding.scope, EnergyScope::device);
    EXPECT_EQ(finding.meter->method(), EnergyMethod::counter);
    EXPECT_TRUE(has(finding.detail, "00ff74a1-0000-1000-80ab-0123456789ab"));
  }
  machine.freeze();
  EnergyReader reader(std::move(findings));
  const EnergySnapshot begin = reader.snapshot();
  machine.advance_milliseconds(10'000);
  const EnergySnapshot end = reader.snapshot();
  EXPECT_NEAR(end.readings[0].sample->joules - begin.readings[0].sample->joules, 3200, 1e-6);
  EXPECT_NEAR(end.readings[1].sample->joules - begin.readings[1].sample->joules, 1600, 1e-6);
}

TEST(AmdSmi, AnApusJoulesAreItsSockets) {
  StandIn machine({gpu_of(first_id)});
  FakeTree tree;
  show_power(tree, first, 330);
  tree.write("pci/" + first + "/device", "0x74a0");  // MI300A
  auto findings = amdsmi::find_meters_in(tree.at("pci"));
  ASSERT_EQ(findings.size(), 1u);
  ASSERT_NE(findings[0].meter, nullptr) << findings[0].detail;
  EXPECT_EQ(findings[0].scope, EnergyScope::package);
  EXPECT_EQ(findings[0].meter->scope(), EnergyScope::package);
  EXPECT_TRUE(has(findings[0].detail, "the whole socket's")) << findings[0].detail;
  // The kernel's power of the same socket is a cross-check, and no device has joules.
  for (MeterFinding& finding : hwmon::find_meters_in(tree.at("class"))) findings.push_back(std::move(finding));
  arbitrate(findings);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_TRUE(findings[0].counted);
  EXPECT_EQ(findings[1].reason, "duplicate");
  EXPECT_EQ(findings[1].scope, EnergyScope::package);
}

TEST(AmdSmi, AnAccumulatorThatDisagreesWithThePowerIsRefused) {
  // Each count is 16 uJ, but the library says 1 uJ; the other way round; and a power that is another card's.
  for (const auto& [stated_uj, watts] : {std::pair<float, double>{1, 320}, {160, 320}, {16, 500}, {16, 200}}) {
    Gpu gpu = gpu_of(first_id);
    gpu.stated_uj = stated_uj;
    StandIn machine({gpu});
    FakeTree tree;
    show_power(tree, first, watts);
    const auto findings = amdsmi::find_meters_in(tree.at("pci"));
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].meter, nullptr);
    EXPECT_FALSE(findings[0].counted);
    EXPECT_EQ(findings[0].reason, "unsupported");
    EXPECT_EQ(findings[0].scope, EnergyScope::device);
    EXPECT_TRUE(has(findings[0].detail, "differ by more than a factor of 1.5")) << findings[0].detail;
  }
}

TEST(AmdSmi, WithoutAPowerToHoldItAgainstTheAccumulatorIsRefused) {
  StandIn machine({gpu_of(first_id)});
  FakeTree tree;
  auto finding = std::move(amdsmi::find_meters_in(tree.at("pci")).at(0));
  EXPECT_EQ(finding.meter, nullptr);
  EXPECT_EQ(finding.reason, "unsupported");
  EXPECT_TRUE(has(finding.detail, "cannot be compared with")) << finding.detail;
  show_power(tree, first, 320);
  tree.write("pci/" + first + "/hwmon/hwmon7/power1_average", "n/a");
  finding = std::move(amdsmi::find_meters_in(tree.at("pci")).at(0));
  EXPECT_EQ(finding.meter, nullptr);
  EXPECT_TRUE(has(finding.detail, "n/a")) << finding.detail;
  tree.write("pci/" + first + "/hwmon/hwmon7/power1_average", "0");
  finding = std::move(amdsmi::find_meters_in(tree.at("pci")).at(0));
  EXPECT_EQ(finding.meter, nullptr);
  EXPECT_TRUE(has(finding.detail, "the kernel shows 0 W")) << finding.detail;
}

TEST(AmdSmi, ACardThatTheKernelShowsTooIsCountedOnce) {
  StandIn machine({gpu_of(first_id), gpu_of(second_id)});
  FakeTree tree;
  show_power(tree, first, 320);
  show_power(tree, second, 20);  // refused there: the kernel's power is all there is
  std::vector<MeterFinding> all = amdsmi::find_meters_in(tree.at("pci"));
  for (MeterFinding& finding : hwmon::find_meters_in(tree.at("class"))) all.push_back(std::move(finding));
  arbitrate(all);
  std::map<std::string, std::string> outcome;
  for (const MeterFinding& finding : all) {
    outcome[finding.domain] = finding.counted ? "counted" : finding.reason;
    // What is refused but measured by other means leaves no hole.
    EXPECT_EQ(finding.scope.has_value(), finding.meter != nullptr) << finding.domain;
  }
  EXPECT_EQ(outcome, (std::map<std::string, std::string>{{"amdsmi:" + first, "counted"},
                                                         {"amdgpu:" + first, "duplicate"},
                                                         {"amdsmi:" + second, "unsupported"},
                                                         {"amdgpu:" + second, "counted"}}));
}

TEST(AmdSmi, ThePartitionsOfACardAreOneSensor) {
  // Partitions differ by function number or by partition id.
  StandIn machine({gpu_of(first_id), gpu_of(first_id | 1), gpu_of(first_id | (2u << 28))});
  FakeTree tree;
  show_power(tree, first, 320);
  const auto found = by_domain(amdsmi::find_meters_in(tree.at("pci")));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_TRUE(found.at("amdsmi:" + first).counted);
  for (const char* partition : {"/0.1", "/2.0"}) {
    EXPECT_EQ(found.at("amdsmi:" + first + partition).reason, "duplicate");
    EXPECT_FALSE(found.at("amdsmi:" + first + partition).scope.has_value());
  }
}

TEST(AmdSmi, ASecondDieIsContainedAndAStillCounterIsNot) {
  Gpu second_die = gpu_of(second_id);
  second_die.still = 1;
  second_die.offset = 0;
  Gpu still = gpu_of(first_id);
  still.still = 1;
  StandIn machine({still, second_die});
  FakeTree tree;
  show_power(tree, first, 320);
  const auto found = by_domain(amdsmi::find_meters_in(tree.at("pci")));
  EXPECT_EQ(found.at("amdsmi:" + first).reason, "unsupported");
  EXPECT_TRUE(has(found.at("amdsmi:" + first).detail, "stayed at"));
  EXPECT_EQ(found.at("amdsmi:" + first).scope, EnergyScope::device);
  EXPECT_EQ(found.at("amdsmi:" + second).reason, "contained");
  EXPECT_FALSE(found.at("amdsmi:" + second).scope.has_value());
}

TEST(AmdSmi, ErrorsHaveReasons) {
  Gpu denied = gpu_of(first_id);
  denied.code = amdsmi::no_permission;
  Gpu strange = gpu_of(second_id);
  strange.stated_uj = 0;
  StandIn machine({denied, strange});
  FakeTree tree;
  show_power(tree, first, 320);
  show_power(tree, second, 320);
  const auto found = by_domain(amdsmi::find_meters_in(tree.at("pci")));
  EXPECT_EQ(found.at("amdsmi:" + first).reason, "permission");
  EXPECT_TRUE(has(found.at("amdsmi:" + first).detail, "AMDSMI_STATUS_NO_PERM"));
  EXPECT_EQ(found.at("amdsmi:" + second).reason, "unsupported");
  EXPECT_TRUE(has(found.at("amdsmi:" + second).detail, "resolution of 0"));

  machine.edit([](State& state) { state.gpus = {gpu_of(first_id)}; });
  EnergyReader reader(amdsmi::find_meters_in(tree.at("pci")));
  EXPECT_TRUE(reader.snapshot().readings.at(0).sample.has_value());
  machine.edit([](State& state) { state.gpus[0].code = amdsmi::not_found; });
  EXPECT_EQ(reader.snapshot().readings[0].reason, "lost");
}

TEST(AmdSmi, ACounterThatWentBackIsNotCountedOn) {
  StandIn machine({gpu_of(first_id)});
  FakeTree tree;
  show_power(tree, first, 320);
  const auto findings = amdsmi::find_meters_in(tree.at("pci"));
  machine.freeze();
  findings.at(0).meter->read();
  machine.edit([](State& state) { state.gpus[0].offset = 0; });
  EXPECT_THROW(findings[0].meter->read(), std::system_error);
}

TEST(AmdSmi, SaysWhyThereIsNothing) {
  FakeTree tree;
  {
    StandIn machine({});
    const auto findings = amdsmi::find_meters_in(tree.at("pci"));
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].domain, "amdsmi");
    EXPECT_EQ(findings[0].reason, "no_driver");
  }
  Gpu processor = gpu_of(first_id);
  processor.type = 2;
  StandIn machine({processor});
  EXPECT_EQ(amdsmi::find_meters_in(tree.at("pci")).at(0).reason, "no_driver");
  machine.edit([](State& state) { state.init_code = amdsmi::driver_not_loaded; });
  const auto findings = amdsmi::find_meters_in(tree.at("pci"));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].reason, "no_driver");
  EXPECT_TRUE(has(findings[0].detail, "amdsmi_init"));
}

TEST(AmdSmiLibrary, IsNotThereOrLacksASymbol) {
  Unavailable why;
  EXPECT_EQ(amdsmi::Library::open(&why, {"libamd_smi.so.of-no-driver"}), nullptr);
  EXPECT_EQ(why.reason, "no_driver");
  EXPECT_TRUE(has(why.detail, "libamd_smi.so.of-no-driver"));
  EXPECT_EQ(amdsmi::Library::open(&why, {"libamd_smi.so.of-no-driver", "libc.so.6"}), nullptr);
  EXPECT_EQ(why.reason, "unsupported");
  EXPECT_TRUE(has(why.detail, "amdsmi_init"));
}

}  // namespace
}  // namespace tw
