// What a user asked Slurm for, as the job's environment tells it, and what of it shows.
#include "bench/train/job/slurm.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "bench/train/node/job_settings.hpp"

namespace tw {

using namespace bench;
using namespace power;
using namespace results;

namespace {

using Bounds = std::pair<std::optional<double>, std::optional<double>>;

Bounds bounds_of(const std::map<KnobKind, FoundSetting>& found, KnobKind kind) {
  const auto one = found.find(kind);
  EXPECT_NE(one, found.end());
  return one == found.end() ? Bounds{-1, -1} : Bounds{one->second.minimum, one->second.maximum};
}

TEST(Slurm, CpuFrequenciesAreRangesWordsAndGovernors) {
  const auto cpu = [](const char* text) { return slurm_settings(text, ""); };
  constexpr KnobKind frequency = KnobKind::cpu_frequency, governor = KnobKind::cpu_governor;
  const auto code = [](const char* name) { return set_point_of_name(KnobKind::cpu_governor, name); };
  EXPECT_TRUE(cpu("").empty());
  EXPECT_EQ(bounds_of(cpu("2250000"), frequency), Bounds(2250, 2250));
  EXPECT_EQ(cpu("2250000").count(governor), 0u);
  EXPECT_EQ(bounds_of(cpu("1500000-2400000"), frequency), Bounds(1500, 2400));
  EXPECT_EQ(bounds_of(cpu("1500000-2400000:Performance"), frequency), Bounds(1500, 2400));
  EXPECT_EQ(bounds_of(cpu("1500000-2400000:Performance"), governor), Bounds(code("performance"), code("performance")));
  EXPECT_EQ(bounds_of(cpu("low-2400000"), frequency), Bounds(std::nullopt, 2400));
  for (const char* word : {"High", "medium", "highm1", "low", "2147483650"})  // the last: a code of theirs
    EXPECT_EQ(bounds_of(cpu(word), frequency), Bounds(std::nullopt, std::nullopt)) << word;
  EXPECT_EQ(bounds_of(cpu("high:UserSpace"), governor), Bounds(code("userspace"), code("userspace")));
  const auto alone = cpu("OnDemand");
  EXPECT_EQ(alone.size(), 1u);
  EXPECT_EQ(bounds_of(alone, governor), Bounds(code("ondemand"), code("ondemand")));
  EXPECT_EQ(alone.at(governor).by, "slurm --cpu-freq=OnDemand");
}

TEST(Slurm, GpuFrequenciesAreAClockAndAMemoryClock) {
  const auto gpu = [](const char* text) { return slurm_settings("", text); };
  EXPECT_EQ(bounds_of(gpu("1305"), KnobKind::gpu_clock), Bounds(1305, 1305));
  const auto both = gpu("medium,memory=2619,verbose");
  EXPECT_EQ(both.size(), 2u);
  EXPECT_EQ(bounds_of(both, KnobKind::gpu_clock), Bounds(std::nullopt, std::nullopt));
  EXPECT_EQ(bounds_of(both, KnobKind::gpu_memory_clock), Bounds(2619, 2619));
  EXPECT_EQ(both.at(KnobKind::gpu_clock).by, "slurm --gpu-freq=medium,memory=2619,verbose");
  EXPECT_EQ(gpu("memory=high").size(), 1u);
}

TEST(Slurm, TheEnvironmentCountsInsideOfAJobOnly) {
  HostInfo host;
  host.name = "node1";
  host.cpu_governor = "powersave";
  setenv("SLURM_CPU_FREQ_REQ", "2000000:performance", 1);
  unsetenv("SLURM_JOB_ID");
  EXPECT_TRUE(found_settings({host}).empty());
  setenv("SLURM_JOB_ID", "7", 1);
  const auto found = found_settings({host});
  setenv("SLURM_GPU_FREQ", "medium", 1);
  EXPECT_EQ(found_settings({}).at(KnobKind::gpu_clock).maximum, std::nullopt);
  setenv("SLURMD_TRES_FREQ", "gpu:1305,memory=high", 1);  // of srun, inside of that job
  EXPECT_EQ(found_settings({}).at(KnobKind::gpu_clock).maximum, 1305);
  EXPECT_EQ(found_settings({}).at(KnobKind::gpu_clock).by, "slurm --gpu-freq=1305,memory=high");
  for (const char* name : {"SLURM_JOB_ID", "SLURM_GPU_FREQ", "SLURMD_TRES_FREQ"}) unsetenv(name);
  unsetenv("SLURM_CPU_FREQ_REQ");
  ASSERT_EQ(found.size(), 2u);
  const std::vector<SettingRow>& devices = found.at(KnobKind::cpu_governor).devices;
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].observed, SetPoint(std::string("powersave")));
}

TEST(Slurm, IsNotedWhereThePlanLeavesTheKindAndObservedByItsSeries) {
  Trial trial;
  trial.series = {{"node1", "cpu", "cpu_clock_mhz", {0, 1}, {}, {2400, 2500}, {}},
                  {"node1", "nvml:GPU-a", "sm_clock_mhz", {0}, {}, {1980}, {}},
                  {"node1", "nvml:GPU-b", "sm_clock_mhz", {0}, {}, {600}, {}}};
  std::map<std::string, Setting> settings;
  settings["cpu_frequency_mhz"].requested = 3000.0;
  note_found(settings, slurm_settings("2400000", "1305"));
  EXPECT_FALSE(settings["cpu_frequency_mhz"].found_by) << "the plan has its own";
  observe_settings(settings, {trial}, {"nvml:GPU-a"});
  const Setting& gpu = settings.at("gpu_clock_mhz");
  EXPECT_FALSE(gpu.requested);
  EXPECT_EQ(gpu.found_maximum, SetPoint(1305.0));
  ASSERT_EQ(gpu.devices.size(), 1u) << "the other is not the job's";
  EXPECT_EQ(gpu.observed, SetPoint(1980.0));

  settings.clear();
  note_found(settings, slurm_settings("2400000", ""));
  observe_settings(settings, {trial}, {});
  EXPECT_EQ(settings.at("cpu_frequency_mhz").observed, SetPoint(2450.0));
}

}  // namespace
}  // namespace tw
