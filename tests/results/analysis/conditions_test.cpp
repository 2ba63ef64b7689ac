// Throttling, device errors, settings that did not take effect, losses that a setting spoils.
#include "results/analysis/conditions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "results/analysis/verdict.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using testing::has;
using testing::sample_record;

Record counted(const char* quantity, double change) {
  Record r = sample_record();
  r.trials[1].counters = {{"node1", "nvml:GPU-1", quantity, change}};
  summarise(r);
  return r;
}
Record set(const char* name, double requested, std::optional<double> accepted, std::optional<double> observed) {
  Record r = sample_record();
  r.setting.clear();
  r.setting[name] = {requested, accepted, observed, {{"node1", "nvml:GPU-1", accepted, observed, accepted ? "" : "permission"}}};
  summarise(r);
  return r;
}

TEST(Conditions, HeatForOverAHundredthOfAWindowInvalidates) {
  const double window = sample_record().trials[1].window_s;
  for (const char* quantity : {"throttle_thermal_s", "throttle_brake_s"}) {
    EXPECT_EQ(counted(quantity, 0.009 * window).verdict.status, Status::valid);
    EXPECT_FALSE(has(counted(quantity, 0.009 * window), "throttled"));
    const Record hot = counted(quantity, 0.02 * window);
    EXPECT_EQ(hot.verdict.status, Status::invalid);
    EXPECT_TRUE(has(hot, "throttled"));
    ASSERT_EQ(hot.verdict.reasons.size(), 1u);
    EXPECT_NE(hot.verdict.reasons[0].find("trial 2"), std::string::npos) << hot.verdict.reasons[0];
    Record again = hot;
    summarise(again);
    EXPECT_EQ(again.verdict.reasons, hot.verdict.reasons) << "calling it again changes nothing";
    EXPECT_EQ(again.verdict.flags, hot.verdict.flags);
  }
}

TEST(Conditions, WhatIsNotedOnly) {
  for (const auto& [quantity, flag] : {std::pair{"throttle_thermal_events", "throttled"}, std::pair{"ecc_errors", "device_errors"},
                                       std::pair{"xid_errors", "device_errors"}, std::pair{"throttle_power_cap_s", "power_capped"}}) {
    const Record noted = counted(quantity, 20);
    EXPECT_EQ(noted.verdict.status, Status::valid) << quantity;
    EXPECT_TRUE(has(noted, flag)) << quantity;
    EXPECT_FALSE(has(counted(quantity, 0), flag)) << quantity;
  }
}

TEST(Conditions, ASetPointIsProvedUnderLoad) {
  EXPECT_EQ(set("gpu_clock_mhz", 1305, 1305, 1300).verdict.status, Status::valid);
  EXPECT_FALSE(has(set("gpu_clock_mhz", 1305, 1305, 1300), "not_applied"));
  for (const double observed : {1980.0, 1200.0}) {
    const Record other = set("gpu_clock_mhz", 1305, 1305, observed);
    EXPECT_EQ(other.verdict.status, Status::invalid);
    EXPECT_TRUE(has(other, "not_applied"));
  }
  EXPECT_EQ(set("gpu_power_limit_w", 300, 300, 120).verdict.status, Status::valid) << "a cap need not bind";
  EXPECT_EQ(set("gpu_power_limit_w", 300, 300, 330).verdict.status, Status::invalid);
  EXPECT_EQ(set("cpu_frequency_mhz", 2400, 2400, 3500).verdict.status, Status::invalid);
  const Record refused = set("gpu_clock_mhz", 1305, std::nullopt, std::nullopt);
  EXPECT_TRUE(has(refused, "not_applied"));
  EXPECT_EQ(refused.verdict.status, Status::invalid);
  const Record unseen = set("gpu_clock_mhz", 1305, 1305, std::nullopt);
  EXPECT_TRUE(has(unseen, "not_observed"));
  EXPECT_EQ(unseen.verdict.status, Status::valid);
}

/// Somebody has set what stands in `found` along the second trial.
Record changed(bool requested, const std::optional<std::string>& found) {
  Record r = set("gpu_power_limit_w", 300, 300, 250);
  for (Trial& trial : r.trials) trial.setting_changes.emplace();
  r.trials[1].setting_changes->push_back(
      {"gpu_power_limit_w", "node1", "nvml:GPU-1", requested, 0.5, "requested_mw = 300000", found});
  summarise(r);
  return r;
}

TEST(Conditions, ASetPointThatSomebodyElseChangesInATrialIsNotApplied) {
  const Record foreign = changed(true, "requested_mw = 700000");
  EXPECT_EQ(foreign.verdict.status, Status::invalid);
  EXPECT_TRUE(has(foreign, "not_applied"));
  ASSERT_EQ(foreign.verdict.reasons.size(), 1u);
  EXPECT_EQ(foreign.verdict.reasons[0].rfind("not_applied: ", 0), 0u);
  EXPECT_NE(foreign.verdict.reasons[0].find("requested_mw = 700000"), std::string::npos) << foreign.verdict.reasons[0];
  EXPECT_NE(foreign.verdict.reasons[0].find("trial 2"), std::string::npos) << foreign.verdict.reasons[0];
  EXPECT_EQ(foreign.summary.samples_per_s->count, static_cast<int>(foreign.trials.size()) - 1) << "it enters no mean";
  EXPECT_NE(foreign.verdict.reasons[0].find("; seen 0.500 s into trial 2"), std::string::npos);
  Record early = foreign;
  early.trials[1].setting_changes->front().time_s = 1.5e-5;  // the trial's first reading
  summarise(early);
  ASSERT_EQ(early.verdict.reasons.size(), 1u);
  EXPECT_NE(early.verdict.reasons[0].find("; seen at the start of trial 2"), std::string::npos)
      << early.verdict.reasons[0];
  Record again = foreign;
  summarise(again);
  EXPECT_EQ(again.verdict.reasons, foreign.verdict.reasons);
  EXPECT_EQ(again.verdict.flags, foreign.verdict.flags);
}

TEST(Conditions, WhatWasToStayAsFoundOrCannotBeReadBackIsNoted) {
  const Record found = changed(false, "requested_mw = 700000");
  EXPECT_EQ(found.verdict.status, Status::valid);
  EXPECT_TRUE(has(found, "setting_changed"));
  EXPECT_FALSE(has(found, "not_applied"));
  const Record unread = changed(true, std::nullopt);
  EXPECT_EQ(unread.verdict.status, Status::valid);
  EXPECT_TRUE(has(unread, "not_observed"));
  Record none = unread;
  for (Trial& trial : none.trials) trial.setting_changes->clear();
  summarise(none);
  EXPECT_FALSE(has(none, "not_observed"));
}

TEST(Conditions, AClockThatACapHoldsBackIsNoted) {
  Record r = set("gpu_clock_mhz", 1980, 1980, 1500);
  r.trials[0].counters = {{"node1", "nvml:GPU-1", "throttle_power_cap_s", 30}};
  summarise(r);
  EXPECT_TRUE(has(r, "not_applied"));
  EXPECT_TRUE(has(r, "power_capped"));
  EXPECT_EQ(r.verdict.status, Status::valid);
}

TEST(Conditions, ANameIsProvedByTheSameName) {
  const auto named = [](const char* observed) {
    Record r = sample_record();
    r.setting.clear();
    const SetPoint performance(std::string("performance")), seen{std::string(observed)};
    r.setting["cpu_governor"] = {performance, performance, seen, {{"node1", "cpu", performance, seen, ""}}};
    summarise(r);
    return r;
  };
  EXPECT_FALSE(has(named("performance"), "not_applied"));
  EXPECT_EQ(named("powersave").verdict.status, Status::invalid);
  EXPECT_NE(named("powersave").verdict.reasons.at(0).find("performance of cpu on node1: powersave"), std::string::npos)
      << named("powersave").verdict.reasons[0];
}

TEST(Conditions, WhatASchedulerWasAskedForIsHeldAgainstWhatIsSeen) {
  const auto found = [](std::optional<SetPoint> minimum, std::optional<SetPoint> maximum, std::optional<SetPoint> observed) {
    Record r = sample_record();
    r.setting.clear();
    Setting& setting = r.setting["cpu_frequency_mhz"];
    setting.devices = {{"node1", "cpu", {}, observed, ""}};
    setting.observed = observed;
    setting.found_by = "slurm --cpu-freq";
    setting.found_minimum = minimum, setting.found_maximum = maximum;
    summarise(r);
    return r;
  };
  for (const double inside : {1490.0, 1500.0, 2000.0, 2440.0})
    for (const char* flag : {"not_applied", "not_observed"})
      EXPECT_FALSE(has(found(1500.0, 2400.0, inside), flag)) << inside << flag;
  for (const double outside : {1400.0, 3500.0}) {
    const Record other = found(1500.0, 2400.0, outside);
    EXPECT_TRUE(has(other, "not_applied")) << outside;
    EXPECT_EQ(other.verdict.status, Status::valid) << "the plan asked for nothing";
  }
  EXPECT_TRUE(has(found(std::nullopt, 2400.0, 3500.0), "not_applied"));
  EXPECT_FALSE(has(found(std::nullopt, 2400.0, 800.0), "not_applied"));
  EXPECT_TRUE(has(found(1500.0, 1500.0, std::nullopt), "not_observed"));
  EXPECT_TRUE(has(found(std::nullopt, std::nullopt, 1500.0), "not_observed")) << "a word proves nothing";
  const SetPoint performance(std::string("performance")), powersave(std::string("powersave"));
  EXPECT_FALSE(has(found(performance, performance, performance), "not_applied"));
  EXPECT_TRUE(has(found(performance, performance, powersave), "not_applied"));
}

TEST(Conditions, LossesAreAlignedByStep) {
  // A curve that falls fast; the slower setting has done fewer steps before its first trial.
  Report report;
  report.records = {sample_record(), sample_record()};
  report.records[1].setting["gpu_clock_mhz"] = {600, 600, 600, {}};
  for (std::size_t r = 0; r < 2; ++r) {
    std::int64_t step = r == 0 ? 100 : 60;
    for (Trial& trial : report.records[r].trials) {
      trial.first_step = step;
      for (double& loss : trial.loss) loss = 5 * std::exp(-0.01 * static_cast<double>(step++));
    }
  }
  flag_unstable(report);
  EXPECT_FALSE(has(report.records[1], "unstable"));
  for (Trial& trial : report.records[1].trials) trial.first_step += 20;
  flag_unstable(report);
  EXPECT_TRUE(has(report.records[1], "unstable")) << "the same numbers at other steps";
}

TEST(Conditions, TheFoundSettingMayComeLast) {
  Report report;
  report.records = {sample_record()};
  report.records[0].setting["gpu_clock_mhz"] = {600, 600, 600, {}};
  for (Trial& trial : report.records[0].trials)
    for (double& loss : trial.loss) loss *= 1.03;
  EXPECT_FALSE(flag_unstable(report));
  EXPECT_FALSE(has(report.records[0], "unstable")) << "there is nothing to hold it against yet";
  report.records.push_back(sample_record());
  EXPECT_TRUE(flag_unstable(report)) << "what is on disk of the first is out of date";
  EXPECT_TRUE(has(report.records[0], "unstable"));
  EXPECT_FALSE(flag_unstable(report));
  std::swap(report.records[0], report.records[1]);
  EXPECT_FALSE(flag_unstable(report)) << "the last one is not on disk yet";
}

TEST(Conditions, OneDevicesCapExcusesNoOther) {
  Record r = sample_record();
  r.setting["gpu_clock_mhz"] = {1980, 1980, 990, {{"node1", "nvml:GPU-1", 1980, 1500, ""}, {"node1", "nvml:GPU-2", 1980, 990, ""}}};
  r.trials[0].counters = {{"node1", "nvml:GPU-1", "throttle_power_cap_s", 30}};
  summarise(r);
  EXPECT_EQ(r.verdict.status, Status::invalid);
  ASSERT_EQ(r.verdict.reasons.size(), 1u);
  EXPECT_NE(r.verdict.reasons[0].find("GPU-2"), std::string::npos);
}

TEST(Conditions, LossesAreHeldAgainstTheFoundSetting) {
  Report report;
  report.records = {sample_record(), sample_record(), sample_record()};
  for (std::size_t i = 1; i < 3; ++i) report.records[i].setting["gpu_clock_mhz"] = {1305, 1305, 1305, {}};
  for (Trial& trial : report.records[2].trials)
    for (double& loss : trial.loss) loss *= 1.03;
  for (Record& record : report.records) summarise(record);
  for (int twice = 0; twice < 2; ++twice) {
    flag_unstable(report);
    EXPECT_FALSE(has(report.records[0], "unstable"));
    EXPECT_FALSE(has(report.records[1], "unstable"));
    EXPECT_TRUE(has(report.records[2], "unstable"));
    EXPECT_EQ(std::count(report.records[2].verdict.flags.begin(), report.records[2].verdict.flags.end(), FlagName(Flag::unstable)), 1);
  }
  Record again = report.records[2];
  summarise(again);
  EXPECT_EQ(again.verdict.flags, report.records[2].verdict.flags) << "validate recomputes them, in their order";
  report.records[1].trials[0].loss[3] = std::nan("");
  report.records[2].workload.seed = 9;
  flag_unstable(report);
  EXPECT_TRUE(has(report.records[1], "unstable"));
  EXPECT_FALSE(has(report.records[2], "unstable")) << "another seed has other losses";
}

}  // namespace
}  // namespace tw
