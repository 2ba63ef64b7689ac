// Which kind of device is taken, and that a visible GPU which cannot be used is never a silent run on the CPU.
#include "bench/inventory/choose_device.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "models/compute/error.hpp"

namespace tw {

using namespace bench;
using namespace models;
using namespace power;

namespace {

namespace fs = std::filesystem;

std::vector<Backend> backends_with(int gpus) {
  const auto make = [](const DeviceOptions&) { return std::unique_ptr<Device>(); };
  const auto one = [] { return 1; };
  const auto none = [] { return 0; };
  const auto two = [] { return 2; };
  const auto fine = [] { return std::string(); };
  return {
      {DeviceKind::cuda, "cuda", make, gpus == 0 ? +none : +two, [] { return std::string("the driver is too old"); }},
      {DeviceKind::cpu, "cpu", make, one, fine},
      {DeviceKind::reference, "reference", make, one, fine}};
}

std::string sees_a_gpu() { return "NVML shows GPU-a"; }
std::string sees_none() { return {}; }

TEST(ChooseDevice, AVisibleGpuThatCannotBeUsedIsNoSilentRunOnTheCpu) {
  try {
    choose_device("auto", backends_with(0), sees_a_gpu);
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::environment);
    for (const char* words : {"NVML shows GPU-a", "the driver is too old", "--device cpu"})
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
  EXPECT_EQ(choose_device("auto", backends_with(0), sees_none).name, "cpu");
  EXPECT_EQ(choose_device("cpu", backends_with(0), sees_a_gpu).name, "cpu") << "on purpose";
  EXPECT_EQ(choose_device("cpu", backends_with(0), sees_a_gpu).note, "");
}

TEST(ChooseDevice, WithoutAGpuABuildThatHasNoCpuDeviceSaysWhatThereIs) {
  std::vector<Backend> backends = backends_with(0);
  backends[1].count = [] { return 0; };
  backends[1].why_none = [] { return std::string("not compiled into this program"); };
  try {
    choose_device("auto", backends, sees_none);
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::environment);
    for (const char* words :
         {"cuda: the driver is too old", "cpu: not compiled into this program", "--device reference"})
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(ChooseDevice, AUsableGpuIsTakenAndWhoAsksForTheCpuIsTold) {
  const DeviceChoice taken = choose_device("auto", backends_with(2), sees_a_gpu);
  EXPECT_EQ(taken.name, "cuda");
  EXPECT_EQ(taken.visible, 2);
  EXPECT_NE(choose_device("cpu", backends_with(2), sees_a_gpu).note.find("not used"), std::string::npos);
  EXPECT_EQ(choose_device("reference", backends_with(2), sees_a_gpu).note, "");
}

TEST(ChooseDevice, OnlyWhatNvmlListsAndTheVariableNamesIsVisible) {
  const fs::path nowhere = "/nonexistent";
  const Sight all{{"nvml:GPU-a", "amdgpu:0"}, {"nvml:GPU-a", "amdgpu:0"}, ""};
  EXPECT_EQ(visible_gpu(all, nowhere, nullptr), "NVML shows GPU-a");
  EXPECT_EQ(visible_gpu(all, nowhere, "0"), "NVML shows GPU-a");
  for (const char* none : {"", " ", "-1", "NoDevFiles"}) EXPECT_EQ(visible_gpu(all, nowhere, none), "") << none;
  EXPECT_EQ(visible_gpu({{"nvml:GPU-a"}, {}, ""}, nowhere, "7"), "") << "it names none of them";
  EXPECT_EQ(visible_gpu({{"nvml:GPU-a"}, {}, "numbers"}, nowhere, "1"), "NVML shows GPU-a") << "or another";
  EXPECT_EQ(visible_gpu({{"amdgpu:0"}, {"amdgpu:0"}, ""}, nowhere, nullptr), "") << "no backend is for it";
}

TEST(ChooseDevice, WhereNvmlIsSilentADeviceFileTells) {
  const fs::path root = fs::path(testing::TempDir()) / "trainwatt-devices";
  fs::create_directories(root / "dev");
  std::ofstream(root / "dev" / "nvidiactl") << "";
  EXPECT_EQ(visible_gpu({}, root, nullptr), "");
  for (const char* name : {"nvidia3", "nvidia1"}) std::ofstream(root / "dev" / name) << "";
  EXPECT_EQ(visible_gpu({}, root, nullptr), (root / "dev" / "nvidia1").string() + " is there");
  EXPECT_EQ(visible_gpu({}, root, ""), "");
  EXPECT_EQ(visible_gpu({{"nvml:GPU-a"}, {}, ""}, root, "7"), "") << "NVML knows better";
  fs::remove_all(root);
}

}  // namespace
}  // namespace tw
