#include "power/sources/cpu/telemetry.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "tests/power/fake_tree.hpp"

namespace tw {

using namespace power;

namespace {

class CpuTelemetry : public testing::Test {
 protected:
  std::map<std::string, double> read() {
    auto found = cpu::find_telemetry_in(tree.at("cpus"), tree.at("hwmon"), tree.at("stat"));
    EXPECT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].domain, "cpu");
    EXPECT_EQ(found[0].telemetry == nullptr, !found[0].reason.empty());
    if (!found[0].telemetry) return {{found[0].reason, 0}};
    return values(*found[0].telemetry);
  }
  static std::map<std::string, double> values(Telemetry& telemetry) {
    std::vector<double> all(telemetry.channels().size(), -1);
    telemetry.read(all);
    std::map<std::string, double> named;
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(telemetry.channels()[i].domain, "cpu");
      EXPECT_EQ(telemetry.channels()[i].cumulative, telemetry.channels()[i].quantity == "throttle_thermal_events");
      named[telemetry.channels()[i].quantity] = all[i];
    }
    return named;
  }
  void fill() {
    tree.write("cpus/cpufreq/policy0/scaling_cur_freq", "2000000");
    tree.write("cpus/cpufreq/policy1/scaling_cur_freq", "3000000");
    for (int cpu = 0; cpu < 4; ++cpu) {  // two packages; all CPUs of one show the same count
      const std::string folder = "cpus/cpu" + std::to_string(cpu);
      tree.write(folder + "/topology/physical_package_id", std::to_string(cpu / 2));
      tree.write(folder + "/thermal_throttle/package_throttle_count", cpu < 2 ? "7" : "5");
    }
    tree.write("hwmon/hwmon0/name", "coretemp");
    tree.write("hwmon/hwmon0/temp1_label", "Package id 0");
    tree.write("hwmon/hwmon0/temp1_input", "61000");
    tree.write("hwmon/hwmon0/temp2_label", "Core 0");
    tree.write("hwmon/hwmon0/temp2_input", "99000");
    tree.write("hwmon/hwmon1/name", "coretemp");
    tree.write("hwmon/hwmon1/temp1_label", "Package id 1");
    tree.write("hwmon/hwmon1/temp1_input", "64000");
    tree.write("hwmon/hwmon2/name", "nvme");
    tree.write("hwmon/hwmon2/temp1_label", "Package id 9");
    tree.write("hwmon/hwmon2/temp1_input", "80000");
  }
  FakeTree tree;
};

TEST_F(CpuTelemetry, ReadsWhatIsThere) {
  fill();
  EXPECT_EQ(read(), (std::map<std::string, double>{
                        {"cpu_clock_mhz", 2500}, {"temperature_c", 64}, {"throttle_thermal_events", 12}}));
}

TEST_F(CpuTelemetry, LeavesOutWhatIsNot) {
  fill();
  tree.remove("cpus/cpufreq");
  tree.remove("hwmon");
  EXPECT_EQ(read(), (std::map<std::string, double>{{"throttle_thermal_events", 12}}));
  tree.remove("cpus");
  EXPECT_EQ(read(), (std::map<std::string, double>{{"no_driver", 0}}));
}

TEST_F(CpuTelemetry, KnowsAmdsTemperature) {
  tree.write("hwmon/hwmon0/name", "k10temp");
  tree.write("hwmon/hwmon0/temp1_label", "Tctl");
  tree.write("hwmon/hwmon0/temp1_input", "55500");
  EXPECT_EQ(read(), (std::map<std::string, double>{{"temperature_c", 55.5}}));
}

TEST_F(CpuTelemetry, IdleCpusDoNotDragTheClockDown) {
  // Sixty CPUs rest at 800 MHz; one works all the time at 3000 MHz, one a third of it at 2400 MHz.
  const auto ticks = [&](int full, int third) {
    std::string text = "cpu  " + std::to_string(full + third) + " 0 0 90000 0 0 0 7\n";
    for (int cpu = 0; cpu < 62; ++cpu)
      text += "cpu" + std::to_string(cpu) + " " + std::to_string(cpu == 60 ? full : cpu == 61 ? third : 0) +
              " 0 0 " + std::to_string(90000 + full) + " 0 0 0 0 0 0\n";
    tree.write("stat", text + "intr 1 2 3");
  };
  for (int cpu = 0; cpu < 62; ++cpu) {
    const std::string policy = "cpus/cpufreq/policy" + std::to_string(cpu);
    tree.write(policy + "/scaling_cur_freq", cpu == 60 ? "3000000" : cpu == 61 ? "2400000" : "800000");
    tree.write(policy + "/affected_cpus", std::to_string(cpu));
  }
  ticks(1000, 5000);
  auto found = cpu::find_telemetry_in(tree.at("cpus"), tree.at("hwmon"), tree.at("stat"));
  const auto clock = [&] { return values(*found[0].telemetry).at("cpu_clock_mhz"); };
  const double at_first = clock();  // of 16 policies alike: nothing is known yet
  EXPECT_LE(at_first, (14 * 800 + 3000 + 2400) / 16.0);
  ticks(1090, 5030);
  double now = at_first;
  while (now == at_first) {  // else CTest's time limit
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    now = clock();
  }
  EXPECT_DOUBLE_EQ(now, (90 * 3000 + 30 * 2400) / 120.0);
}

TEST_F(CpuTelemetry, WhatVanishesIsNotANumber) {
  fill();
  auto found = cpu::find_telemetry_in(tree.at("cpus"), tree.at("hwmon"), tree.at("stat"));
  tree.remove("cpus/cpu2");
  tree.remove("hwmon/hwmon1");
  tree.write("cpus/cpufreq/policy0/scaling_cur_freq", "<unknown>");
  auto some = values(*found[0].telemetry);
  EXPECT_TRUE(std::isnan(some.at("throttle_thermal_events")));  // half of a sum is not the sum
  EXPECT_EQ(some.at("temperature_c"), 61);
  EXPECT_EQ(some.at("cpu_clock_mhz"), 3000);
  tree.remove("cpus");
  EXPECT_TRUE(std::isnan(values(*found[0].telemetry).at("cpu_clock_mhz")));
}

}  // namespace
}  // namespace tw
