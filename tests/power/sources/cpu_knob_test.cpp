// The CPU knobs' own reasoning, over a system that can refuse, ignore and be changed by others.
#include "power/sources/cpufreq/policies.hpp"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/power/fake_policies.hpp"

namespace tw::power::cpufreq {
namespace {

class CpuKnobTest : public testing::Test {
 protected:
  CpuKnobTest() {
    for (const unsigned cpu : {0u, 2u}) {
      system.now[cpu] = {1'200'000, 3'000'000, "schedutil"};
      system.hardware[cpu] = {800'000, 3'800'000, ""};
      system.governors[cpu] = {"conservative", "ondemand", "powersave", "performance", "schedutil"};
    }
    knob = make_cpu_knob(std::make_unique<FakePolicies>(system));
    governor = make_governor_knob(std::make_unique<FakePolicies>(system));
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
  static double of(const char* name) { return set_point_of_name(KnobKind::cpu_governor, name).value(); }
  System system;
  std::unique_ptr<Knob> knob, governor;
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
  const Attempt cut_off{2000, std::nullopt, {}, found};
  const PutBack done = knob->put_back(found, {&cut_off, 1});
  EXPECT_TRUE(done.changed);
  EXPECT_EQ(done.left, "");
  EXPECT_EQ(knob->save(), found);
  EXPECT_FALSE(knob->put_back(found, {&cut_off, 1}).changed);
}

TEST_F(CpuKnobTest, PutsBackWhatNobodyReadBack) {
  const KnobState found = knob->save();
  system.now[0] = {1'960'000, 2'600'000, system.now[0].governor};  // rounded by the driver, and clamped
  const Attempt read_back{2000, 2000}, planned{2000, std::nullopt}, cut_off{2000, std::nullopt, {}, found};
  for (const Attempt& attempt : {read_back, planned}) EXPECT_FALSE(knob->put_back(found, {&attempt, 1}).changed);
  EXPECT_EQ(knob->put_back(found, {&cut_off, 1}).left, "");
  EXPECT_EQ(knob->save(), found);
  // What stood before the call is somebody else's.
  system.now[2].max_khz = 2'600'000;
  const Attempt later{2000, std::nullopt, {}, knob->save()};
  EXPECT_EQ(knob->put_back(found, {&later, 1}).left, "cpu2 scaling_max_freq = 2600000 kHz");
}

TEST_F(CpuKnobTest, PutsBackWhatWasClamped) {
  const KnobState found = knob->save();
  system.now[0] = {2'400'000, 2'600'000, system.now[0].governor};
  const Attempt attempt{2000, std::nullopt, {{"cpu0.min_khz", "2400000"}, {"cpu0.max_khz", "2600000"}}};
  const PutBack done = knob->put_back(found, {&attempt, 1});
  EXPECT_TRUE(done.changed);
  EXPECT_EQ(done.left, "");
  EXPECT_EQ(knob->save(), found);
  // What read back of one policy says nothing of another.
  system.now[2].max_khz = 2'600'000;
  EXPECT_EQ(knob->put_back(found, {&attempt, 1}).left, "cpu2 scaling_max_freq = 2600000 kHz");
}

TEST_F(CpuKnobTest, PutsBackTheGovernorThatReadBackInstead) {
  const KnobState found = governor->save();
  system.now[2].governor = "conservative";
  const Attempt attempt{of("performance"), std::nullopt, {{"cpu2.governor", "conservative"}}};
  const PutBack done = governor->put_back(found, {&attempt, 1});
  EXPECT_TRUE(done.changed);
  EXPECT_EQ(done.left, "");
  EXPECT_EQ(governor->save(), found);
}

TEST_F(CpuKnobTest, LeavesWhatSomebodyElseHasChanged) {
  const KnobState found = knob->save();
  const Attempt ours{2000, knob->set(2000)};
  system.now[0].max_khz = 2'500'000;
  system.now[2].governor = "performance";
  EXPECT_FALSE(knob->is_ours(2000, 2000));
  const PutBack done = knob->put_back(found, {&ours, 1});
  EXPECT_TRUE(done.changed);
  EXPECT_EQ(done.left, "cpu0 scaling_max_freq = 2500000 kHz") << "the governor is another knob's";
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
                                                                                   {"cpu0.min_khz", "12x"}}) {
    KnobState bad = good;
    bad[key] = value;
    system.now[0].max_khz = system.now[2].max_khz = 2'900'000;
    EXPECT_THROW(knob->restore(bad), NotApplied) << key << " " << value;
    expect_limits(0, 1'200'000, 2'900'000);
    expect_limits(2, 1'200'000, 3'000'000);  // the other policy is put back all the same
  }
}

TEST_F(CpuKnobTest, TheGovernorIsEnumeratedSetAndReadBack) {
  system.governors[2] = {"performance", "powersave", "interactive"};
  EXPECT_EQ(governor->kind(), KnobKind::cpu_governor);
  EXPECT_EQ(governor->range().values, (std::vector<double>{of("performance"), of("powersave")})) << "what all list";
  EXPECT_EQ(governor->get(), of("schedutil"));
  const KnobState found = governor->save();
  for (const char* name : {"performance", "powersave"}) {
    EXPECT_EQ(governor->set(of(name)), of(name));
    EXPECT_EQ(system.now[0].governor, name);
    EXPECT_EQ(system.now[2].governor, name);
    EXPECT_EQ(governor->observe(), of(name));
    EXPECT_TRUE(governor->is_ours(of(name), of(name)));
    EXPECT_FALSE(governor->is_ours(of("schedutil"), of("schedutil")));
  }
  expect_limits(0, 1'200'000, 3'000'000);
  try {
    governor->set(of("ondemand"));
    FAIL() << "one policy does not list it";
  } catch (const NotApplied& error) {
    EXPECT_EQ(error.reason, "out_of_range");
    EXPECT_NE(std::string(error.what()).find("performance, powersave"), std::string::npos) << error.what();
  }
  system.now[0].governor = "interactive";
  EXPECT_EQ(governor->get(), std::nullopt) << "of unlike policies there is no one governor";
  system.governors[0] = {};
  EXPECT_TRUE(governor->range().values.empty());
  EXPECT_NE(found, governor->save());
}

TEST_F(CpuKnobTest, AGovernorThatDoesNotTakeEffectIsNotApplied) {
  const auto refusal_of = [&](const char* name) -> std::string {
    try {
      governor->set(of(name));
    } catch (const NotApplied& error) {
      return error.reason;
    }
    return "";
  };
  system.ignores_writes = true;
  EXPECT_EQ(refusal_of("performance"), "clamped");
  system.ignores_writes = false;
  system.error[2] = EACCES;
  EXPECT_EQ(refusal_of("performance"), "permission");
}

TEST_F(CpuKnobTest, PutsBackTheGovernorsThatAreStillOurs) {
  system.now[2].governor = "ondemand";
  const KnobState found = governor->save();
  // Cut off after the first policy.
  system.error[2] = EBUSY;
  EXPECT_THROW(governor->set(of("performance")), NotApplied);
  EXPECT_EQ(system.now[0].governor, "performance");
  system.error[2] = 0;
  const Attempt cut_off{of("performance"), std::nullopt, {}, found};
  PutBack done = governor->put_back(found, {&cut_off, 1});
  EXPECT_TRUE(done.changed);
  EXPECT_FALSE(done.reset);
  EXPECT_EQ(done.left, "");
  EXPECT_EQ(governor->save(), found);
  EXPECT_FALSE(governor->put_back(found, {&cut_off, 1}).changed);

  const Attempt ours{of("performance"), governor->set(of("performance"))};
  system.now[0].governor = "conservative";
  done = governor->put_back(found, {&ours, 1});
  EXPECT_EQ(done.left, "cpu0 scaling_governor = conservative");
  EXPECT_EQ(system.now[0].governor, "conservative");
  EXPECT_EQ(system.now[2].governor, "ondemand");
}

TEST_F(CpuKnobTest, RefusesASavedGovernorThatThePolicyDoesNotList) {
  KnobState bad = governor->save();
  bad["cpu0.governor"] = "../x";
  bad["cpu2.governor"] = "performance";
  EXPECT_THROW(governor->restore(bad), NotApplied);
  EXPECT_EQ(system.now[0].governor, "schedutil");
  EXPECT_EQ(system.now[2].governor, "performance") << "the other policy is put back all the same";
}

}  // namespace
}  // namespace tw::power::cpufreq
