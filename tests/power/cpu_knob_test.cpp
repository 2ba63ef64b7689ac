// The CPU knob's own reasoning, over a system that can refuse, ignore and be changed by others.
#include "power/cpufreq/cpu_knob.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace tw::cpufreq {
namespace {

struct System {
  std::map<unsigned, Limits> now, hardware;
  std::map<unsigned, std::vector<unsigned long>> available;
  std::map<unsigned, int> error;  ///< of writes to this CPU
  bool ignores_writes = false;
  int inversions = 0;  ///< moments with min above max
};

class FakePolicies : public Policies {
 public:
  explicit FakePolicies(System& system) : system_(system) {}
  std::vector<unsigned> cpus() override {
    std::vector<unsigned> cpus;
    for (const auto& [cpu, limits] : system_.now) cpus.push_back(cpu);
    return cpus;
  }
  Limits limits(unsigned cpu) override { return system_.now.at(cpu); }
  Limits hardware(unsigned cpu) override { return system_.hardware.at(cpu); }
  std::vector<unsigned long> available_khz(unsigned cpu) override { return system_.available[cpu]; }
  std::optional<unsigned long> current_khz(unsigned cpu) override { return system_.now.at(cpu).min_khz; }
  int set_min(unsigned cpu, unsigned long khz) override {
    return write(cpu, [&](Limits& limits) { limits.min_khz = khz; });
  }
  int set_max(unsigned cpu, unsigned long khz) override {
    return write(cpu, [&](Limits& limits) { limits.max_khz = khz; });
  }
  int set_governor(unsigned cpu, const std::string& governor) override {
    return write(cpu, [&](Limits& limits) { limits.governor = governor; });
  }

 private:
  template <typename Change>
  int write(unsigned cpu, const Change& change) {
    if (system_.error[cpu] != 0) return system_.error[cpu];
    if (!system_.ignores_writes) change(system_.now.at(cpu));
    system_.inversions += system_.now.at(cpu).min_khz > system_.now.at(cpu).max_khz;
    return 0;
  }
  System& system_;
};

class CpuKnobTest : public testing::Test {
 protected:
  CpuKnobTest() {
    for (const unsigned cpu : {0u, 2u}) {
      system.now[cpu] = {1'200'000, 3'000'000, "schedutil"};
      system.hardware[cpu] = {800'000, 3'800'000, ""};
    }
    knob = make_cpu_knob(std::make_unique<FakePolicies>(system));
  }
  std::string refusal(double mhz) {
    try {
      knob->set(mhz);
    } catch (const NotApplied& error) {
      return error.reason;
    }
    return "";
  }
  void expect_limits(unsigned cpu, unsigned long min_khz, unsigned long max_khz) {
    EXPECT_EQ(system.now[cpu].min_khz, min_khz) << "cpu" << cpu;
    EXPECT_EQ(system.now[cpu].max_khz, max_khz) << "cpu" << cpu;
  }
  System system;
  std::unique_ptr<Knob> knob;
};

TEST_F(CpuKnobTest, PinsAllPoliciesAndNeverInvertsThem) {
  const KnobState found = knob->save();
  EXPECT_EQ(knob->get(), std::nullopt);
  // Below, above and within what is in force, and back from each.
  for (const double mhz : {800.0, 3800.0, 2000.0, 1000.0, 3400.0}) {
    EXPECT_EQ(knob->set(mhz), mhz);
    EXPECT_EQ(knob->get(), mhz);
    EXPECT_EQ(knob->observe(), mhz);
    EXPECT_TRUE(knob->is_ours(mhz, mhz));
    EXPECT_FALSE(knob->is_ours(mhz + 1, mhz + 1));
  }
  const Attempt last{3400, 3400};
  EXPECT_TRUE(knob->put_back(found, {&last, 1}).changed);
  EXPECT_EQ(knob->save(), found);
  knob->set(800);
  knob->restore(found);
  EXPECT_EQ(knob->save(), found);
  EXPECT_EQ(system.inversions, 0);
}

TEST_F(CpuKnobTest, RangeIsWhatAllPoliciesTake) {
  system.hardware[2] = {1'000'000, 3'200'000, ""};
  EXPECT_EQ(knob->range().minimum, 1000);
  EXPECT_EQ(knob->range().maximum, 3200);
  EXPECT_TRUE(knob->range().values.empty());
  EXPECT_EQ(refusal(900), "out_of_range");
  EXPECT_EQ(refusal(3300), "out_of_range");
  expect_limits(0, 1'200'000, 3'000'000);  // nothing was written

  system.available[0] = {3'800'000, 3'000'000, 2'000'000, 1'000'000};
  system.available[2] = {3'000'000, 2'000'000, 1'500'000};
  EXPECT_EQ(knob->range().values, (std::vector<double>{2000, 3000}));
  EXPECT_EQ(refusal(1500), "out_of_range");
  EXPECT_EQ(refusal(2000), "");
  system.available[2] = {1'500'000};
  EXPECT_GT(knob->range().minimum, knob->range().maximum);
}

TEST_F(CpuKnobTest, WhatDoesNotTakeEffectIsNotApplied) {
  system.ignores_writes = true;
  EXPECT_EQ(refusal(2000), "clamped");
  system.ignores_writes = false;
  system.error[2] = EACCES;
  EXPECT_EQ(refusal(2000), "permission");
  system.error[2] = EBUSY;
  EXPECT_EQ(refusal(2100), "unsupported");
}

TEST_F(CpuKnobTest, PutsBackAHalfWrittenSetting) {
  const KnobState found = knob->save();
  system.error[2] = EBUSY;
  EXPECT_EQ(refusal(2000), "unsupported");
  expect_limits(0, 2'000'000, 2'000'000);
  expect_limits(2, 1'200'000, 3'000'000);
  system.error[2] = 0;
  const Attempt cut_off{2000, std::nullopt};
  const PutBack done = knob->put_back(found, {&cut_off, 1});
  EXPECT_TRUE(done.changed);
  EXPECT_EQ(done.left, "");
  EXPECT_EQ(knob->save(), found);
  EXPECT_FALSE(knob->put_back(found, {&cut_off, 1}).changed);
}

TEST_F(CpuKnobTest, LeavesWhatSomebodyElseHasChanged) {
  const KnobState found = knob->save();
  const Attempt ours{2000, knob->set(2000)};
  system.now[0].max_khz = 2'500'000;
  system.now[2].governor = "performance";
  EXPECT_FALSE(knob->is_ours(2000, 2000));
  const PutBack done = knob->put_back(found, {&ours, 1});
  EXPECT_TRUE(done.changed);
  EXPECT_EQ(done.left, "cpu0 scaling_max_freq = 2500000 kHz, cpu2 scaling_governor = performance");
  expect_limits(0, 1'200'000, 2'500'000);
  expect_limits(2, 1'200'000, 3'000'000);
  EXPECT_EQ(system.now[2].governor, "performance");
  // An exact restore asks nobody.
  knob->restore(found);
  EXPECT_EQ(knob->save(), found);
}

TEST_F(CpuKnobTest, RefusesASavedStateOutsideTheHardware) {
  const KnobState good = knob->save();
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{{"cpu0.max_khz", "9000000"},
                                                                                   {"cpu0.min_khz", "100"},
                                                                                   {"cpu0.min_khz", "3800000"},
                                                                                   {"cpu0.min_khz", "12x"},
                                                                                   {"cpu0.governor", "../x"}}) {
    KnobState bad = good;
    bad[key] = value;
    system.now[0].max_khz = system.now[2].max_khz = 2'900'000;
    EXPECT_THROW(knob->restore(bad), NotApplied) << key << " " << value;
    expect_limits(0, 1'200'000, 2'900'000);
    expect_limits(2, 1'200'000, 3'000'000);  // the other policy is put back all the same
  }
}

}  // namespace
}  // namespace tw::cpufreq
