// NVIDIA clocks and power limits over the stand-in library.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "power/knob/settings.hpp"
#include "tests/power/sources/nvml_finders.hpp"
#include "tests/support/nvml/stand_in.hpp"

namespace tw {

using namespace power;

namespace {

const std::string domain = "nvml:GPU-00000000-1111-2222-3333-444444444444";

/// The reason of the NotApplied that a set point ends in; "applied" without.
std::string outcome(Knob& knob, double value, std::string* message = nullptr) {
  try {
    knob.set(value);
  } catch (const NotApplied& error) {
    if (message) *message = error.what();
    return error.reason;
  }
  return "applied";
}

class NvmlKnob : public testing::Test {
 protected:
  standin::StandIn machine_{2};
  std::vector<KnobFinding> findings_ = nvml_find_knobs();
  Knob& knob(KnobKind kind) { return *of_kind(findings_, kind, domain).knob; }
};

TEST_F(NvmlKnob, ThreeOfEachGpu) {
  ASSERT_EQ(findings_.size(), 6u);
  for (const KnobFinding& finding : findings_) {
    ASSERT_NE(finding.knob, nullptr);
    EXPECT_EQ(finding.knob->kind(), finding.kind);
    EXPECT_EQ(finding.reason, geteuid() == 0 ? "" : "permission");
    EXPECT_EQ(finding.grant.empty(), geteuid() == 0);
  }
}

TEST_F(NvmlKnob, AnOrdinaryUserIsToldWhatItTakes) {
  const bool root = geteuid() == 0;
  ASSERT_TRUE(!root || seteuid(65534) == 0);
  const auto findings = nvml_find_knobs();
  ASSERT_TRUE(!root || seteuid(0) == 0);
  ASSERT_EQ(findings.size(), 6u);
  for (const KnobFinding& finding : findings) {
    EXPECT_NE(finding.knob, nullptr);
    EXPECT_EQ(finding.reason, "permission");
    EXPECT_NE(finding.grant.find("--site"), std::string::npos);
    EXPECT_EQ(finding.grant.find("--gpu-freq") != std::string::npos, finding.kind != KnobKind::gpu_power_limit);
  }
}

TEST_F(NvmlKnob, ASitesCommandTakesThePlaceOfAllKnobsOfItsKind) {
  char folder[] = "/tmp/trainwatt-nvml-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::filesystem::path site = std::filesystem::path(folder) / "site.json";
  std::ofstream(site) << R"({"knobs": [
    {"kind": "gpu_power_limit_w", "set": ["true", "{value}"], "reset": ["true"], "minimum": 200, "maximum": 700},
    {"kind": "gpu_clock_mhz", "domain": ")" << domain << R"(", "set": ["true", "{value}"], "reset": ["true"],
     "minimum": 210, "maximum": 1980}]})";
  std::filesystem::permissions(folder, std::filesystem::perms(0755));
  std::filesystem::permissions(site, std::filesystem::perms(0644));
  const bool root = geteuid() == 0;
  std::vector<std::vector<KnobFinding>> found;
  found.push_back(find_knobs({site}));
  ASSERT_TRUE(!root || seteuid(65534) == 0);
  found.push_back(find_knobs({site}));
  ASSERT_TRUE(!root || seteuid(0) == 0);
  for (const std::vector<KnobFinding>& findings : found) {
    std::vector<std::string> limits, clocks;
    for (const KnobFinding& finding : findings) {
      if (finding.kind == KnobKind::gpu_power_limit) limits.push_back(finding.domain + finding.reason);
      if (finding.kind == KnobKind::gpu_clock && finding.domain == domain) clocks.push_back(finding.reason);
    }
    EXPECT_EQ(limits, std::vector<std::string>{"site"});
    EXPECT_EQ(clocks, std::vector<std::string>{""});
  }
  std::filesystem::remove_all(folder);
}

TEST_F(NvmlKnob, LocksTheClockToWhatTheGpuLists) {
  Knob& clock = knob(KnobKind::gpu_clock);
  const KnobRange range = clock.range();
  EXPECT_EQ(range.minimum, 210);
  EXPECT_EQ(range.maximum, 1980);
  ASSERT_EQ(range.values.size(), 119u);
  EXPECT_EQ(range.values[1], 225);
  EXPECT_EQ(clock.get(), std::nullopt);
  const KnobState found = clock.save();
  EXPECT_EQ(clock.set(1410), 1410);
  EXPECT_EQ(clock.observe(), 1410);
  EXPECT_EQ(machine_.gpu(0).lock_mhz, 1410u);
  EXPECT_EQ(machine_.gpu(1).lock_mhz, 0u);
  EXPECT_TRUE(clock.is_ours(1410, 1410));
  std::string message;
  EXPECT_EQ(outcome(clock, 1411, &message), "out_of_range");
  EXPECT_NE(message.find("the nearest is 1410"), std::string::npos) << message;
  EXPECT_EQ(outcome(clock, 5000), "out_of_range");
  EXPECT_EQ(machine_.gpu(0).lock_mhz, 1410u);
  clock.restore(found);
  EXPECT_EQ(machine_.gpu(0).lock_mhz, 0u);
  EXPECT_EQ(machine_.gpu(0).resets, 1u);
  EXPECT_EQ(clock.observe(), 1980);
}

TEST_F(NvmlKnob, LocksTheMemoryClock) {
  Knob& clock = knob(KnobKind::gpu_memory_clock);
  EXPECT_EQ(clock.range().values, (std::vector<double>{1593, 2619}));
  EXPECT_EQ(clock.set(1593), 1593);
  EXPECT_EQ(clock.observe(), 1593);
  EXPECT_EQ(machine_.effective_clock_mhz(0), 1980u);
  EXPECT_EQ(outcome(clock, 2000), "out_of_range");
  clock.restore(clock.save());
  EXPECT_EQ(clock.observe(), 2619);
}

TEST_F(NvmlKnob, AnIgnoredLockShowsInTheClockUnderLoad) {
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.ignore_lock = 1; });
  Knob& clock = knob(KnobKind::gpu_clock);
  EXPECT_EQ(clock.set(1200), 1200);  // the driver says yes, and there is no getter
  EXPECT_EQ(clock.observe(), 1980);  // but it runs on
}

TEST_F(NvmlKnob, CapsPower) {
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.limit_mw = 650000; });  // somebody's; the default is 700 W
  Knob& limit = knob(KnobKind::gpu_power_limit);
  EXPECT_EQ(limit.range().minimum, 200);
  EXPECT_EQ(limit.range().maximum, 700);
  EXPECT_TRUE(limit.range().values.empty());
  EXPECT_EQ(limit.get(), 650);
  const KnobState found = limit.save();
  EXPECT_DOUBLE_EQ(limit.set(350.5), 350.5);
  EXPECT_EQ(machine_.gpu(0).limit_mw, 350500u);
  EXPECT_EQ(limit.get(), 350.5);
  // 450 (f/1980)³ ≤ 350.5 - 170 W: f = 1458 MHz, the listed clock below is 1455.
  EXPECT_EQ(machine_.effective_clock_mhz(0), 1455u);
  EXPECT_LE(limit.observe().value(), 350.5);
  EXPECT_TRUE(limit.is_ours(350.5, 350.5));
  EXPECT_FALSE(limit.is_ours(350, 350));
  limit.restore(found);
  EXPECT_EQ(machine_.gpu(0).limit_mw, 650000u);
  EXPECT_EQ(outcome(limit, 199), "out_of_range");
  EXPECT_EQ(outcome(limit, 701), "out_of_range");
  EXPECT_EQ(machine_.gpu(0).limit_mw, 650000u);
}

TEST_F(NvmlKnob, RestoresOnlyWhatTheGpuTakes) {
  Knob& limit = knob(KnobKind::gpu_power_limit);
  for (const char* text : {"0", "1000000", "-5", "350000x", ""})
    EXPECT_THROW(limit.restore({{"requested_mw", text}}), NotApplied) << text;
  EXPECT_THROW(limit.restore({}), NotApplied);
  EXPECT_EQ(machine_.gpu(0).limit_mw, 700000u);
}

TEST_F(NvmlKnob, AClampedLimitIsNotApplied) {
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.clamp_limit_mw = 400000; });
  std::string message;
  Knob& limit = knob(KnobKind::gpu_power_limit);
  EXPECT_EQ(outcome(limit, 300, &message), "clamped");
  EXPECT_NE(message.find("reads back as 400 W"), std::string::npos) << message;
  EXPECT_EQ(outcome(limit, 450), "applied");
}

TEST_F(NvmlKnob, AClampedLimitIsPutBack) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may set";
  char folder[] = "/tmp/trainwatt-nvml-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  setenv("TRAINWATT_RUN_DIR", folder, 1);
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.clamp_limit_mw = 400000; });
  {
    SettingsOptions options;
    options.find = [](const KnobOptions&) { return nvml_find_knobs(); };
    Settings settings(nvml_find_knobs(), options);
    const auto applied = settings.apply({{KnobKind::gpu_power_limit, 300}});
    ASSERT_EQ(applied.size(), 2u);
    EXPECT_EQ(applied[0].reason, "clamped");
    EXPECT_EQ(applied[1].accepted, 300);
    EXPECT_EQ(machine_.gpu(0).limit_mw, 700000u);
  }
  EXPECT_EQ(machine_.gpu(1).limit_mw, 700000u);
  unsetenv("TRAINWATT_RUN_DIR");
  std::filesystem::remove_all(folder);
}

TEST_F(NvmlKnob, ALimitThatNobodyReadBackIsPutBack) {
  Knob& limit = knob(KnobKind::gpu_power_limit);
  const KnobState found = limit.save();
  for (const unsigned mw : {250000u, 400000u}) {  // rounded, and clamped
    machine_.edit(0, [&](standin::Gpu& gpu) { gpu.limit_mw = mw; });
    const Attempt read_back{250.5, 250.5}, cut_off{250.5, std::nullopt, {}, found};
    EXPECT_FALSE(limit.put_back(found, {&read_back, 1}).changed);
    EXPECT_TRUE(limit.put_back(found, {&cut_off, 1}).changed);
    EXPECT_EQ(machine_.gpu(0).limit_mw, 700000u);
  }
}

TEST_F(NvmlKnob, ALimitAboveTheBoardsIsNotApplied) {
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.board_limit_mw = 350000; });
  std::string message;
  Knob& limit = knob(KnobKind::gpu_power_limit);
  EXPECT_EQ(outcome(limit, 500, &message), "clamped");
  EXPECT_NE(message.find("another limit holds the GPU at 350 W"), std::string::npos) << message;
  EXPECT_EQ(outcome(limit, 300), "applied");
}

TEST_F(NvmlKnob, ALimitAboveTheBoardsIsPutBackAsItWasFound) {
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.board_limit_mw = 350000; });  // 700 W are asked for, 350 enforced
  Knob& limit = knob(KnobKind::gpu_power_limit);
  const KnobState found = limit.save();
  EXPECT_EQ(outcome(limit, 300), "applied");
  EXPECT_NO_THROW(limit.restore(found));
  EXPECT_EQ(machine_.gpu(0).limit_mw, 700000u);
  // What does not read back is told all the same.
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.board_limit_mw = 0, gpu.clamp_limit_mw = 650000; });
  EXPECT_THROW(limit.restore({{"requested_mw", "600000"}}), NotApplied);
}

TEST_F(NvmlKnob, RefusalsCarryTheirReason) {
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.deny_set = 1; });
  std::string message;
  EXPECT_EQ(outcome(knob(KnobKind::gpu_clock), 1410, &message), "permission");
  EXPECT_NE(message.find("nvmlDeviceSetGpuLockedClocks"), std::string::npos) << message;
  EXPECT_EQ(outcome(knob(KnobKind::gpu_memory_clock), 1593), "permission");
  EXPECT_EQ(outcome(knob(KnobKind::gpu_power_limit), 300), "permission");
  EXPECT_THROW(knob(KnobKind::gpu_clock).restore({}), NotApplied);
  machine_.edit(0, [](standin::Gpu& gpu) { gpu.lost = 1; });
  EXPECT_EQ(outcome(knob(KnobKind::gpu_clock), 1410), "refused");
  EXPECT_EQ(knob(KnobKind::gpu_clock).observe(), std::nullopt);
  EXPECT_THROW(knob(KnobKind::gpu_power_limit).get(), std::system_error);
}

TEST_F(NvmlKnob, ALockIsEvidentWhereNothingElseExplainsTheClock) {
  Knob& clock = knob(KnobKind::gpu_clock);
  const auto edit = [&](auto change) { machine_.edit(0, change); };
  EXPECT_EQ(clock.lock_evident(), "");
  edit([](standin::Gpu& gpu) { gpu.lock_mhz = 1200; });  // by somebody else
  EXPECT_NE(clock.lock_evident().find("1200 of 1980 MHz"), std::string::npos);
  EXPECT_NE(clock.lock_evident().find("0x2"), std::string::npos);
  edit([](standin::Gpu& gpu) { gpu.secret_lock = 1; });  // and no event reason says so
  EXPECT_NE(clock.lock_evident().find("gives no reason"), std::string::npos);
  edit([](standin::Gpu& gpu) { gpu.load_percent = 50; });
  EXPECT_EQ(clock.lock_evident(), "");  // not loaded enough to tell
  edit([](standin::Gpu& gpu) { gpu.load_percent = 100, gpu.lock_mhz = 1905; });
  EXPECT_EQ(clock.lock_evident(), "");  // many GPUs stay a little below their maximum
  edit([](standin::Gpu& gpu) { gpu.lock_mhz = 0, gpu.limit_mw = 300000; });
  EXPECT_EQ(clock.lock_evident(), "");  // the cap explains it
  edit([](standin::Gpu& gpu) { gpu.limit_mw = 700000, gpu.hot = 1; });
  EXPECT_EQ(clock.lock_evident(), "");  // heat does
  edit([](standin::Gpu& gpu) { gpu.hot = 0, gpu.load_percent = 0; });
  EXPECT_EQ(clock.lock_evident(), "");  // idleness does
  EXPECT_EQ(knob(KnobKind::gpu_power_limit).lock_evident(), "");
}

TEST_F(NvmlKnob, EachKindHasAReasonWithoutADriver) {
  machine_.edit_all([](standin::State& state) { state.init_code = 9; });
  const auto findings = nvml_find_knobs();
  ASSERT_EQ(findings.size(), 3u);
  for (const KnobFinding& finding : findings) {
    EXPECT_EQ(finding.knob, nullptr);
    EXPECT_EQ(finding.reason, "no_driver");
    EXPECT_EQ(finding.domain, "nvml");
  }
}

}  // namespace
}  // namespace tw
