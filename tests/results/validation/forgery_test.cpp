// Each forgery is found by its code, and what is forged was good before.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "results/record/version.hpp"
#include "results/validation/validate.hpp"
#include "tests/results/samples.hpp"
#include "tests/results/validation/forgeries.hpp"
#include "tests/results/validation/large_report.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

std::vector<std::string> codes_of(const std::vector<Fault>& faults) {
  std::vector<std::string> codes;
  for (const Fault& fault : faults) codes.push_back(fault.code);
  return codes;
}
bool has(const std::vector<Fault>& faults, const std::string& code) {
  return std::ranges::find(faults, code, &Fault::code) != faults.end();
}

TEST(Forgery, WhatIsForgedWasGood) {
  const Validation found = validate_report(to_json(sample_energy_report()));
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>());
}

TEST(Forgery, EachIsFoundByItsCode) {
  for (const Forgery& forgery : forgeries()) {
    SCOPED_TRACE(forgery.name);
    const Validation found = validate_report(to_json(forged(sample_energy_report(), forgery.name)));
    EXPECT_TRUE(has(found.violations, forgery.code)) << ::testing::PrintToString(codes_of(found.violations));
    for (const Fault& fault : found.violations) {
      EXPECT_EQ(fault.where.substr(0, 1), "/") << fault.code;
      EXPECT_EQ(fault.code.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << fault.code;
    }
  }
}

/// A report from before trials said when they began is good, and the note says what was not looked at.
TEST(Forgery, AReportWithoutStartsIsNoted) {
  Report report = sample_energy_report();
  for (Record& record : report.records)
    for (Trial& trial : record.trials) trial.start_s.reset();
  const Validation found = validate_report(to_json(report));
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>{"trial_start_unknown"});
}

/// As a report of this build. Where that does not know its commit, others may be "unknown", too.
Report of_this_build(Report report) {
  report.program = program_info("trainwatt-train");
  for (RunPart& part : report.parts.value()) part.program = report.program;
  for (Record& record : report.records)
    if (has_run(record)) add_warm_up(record, record.trials[0].first_step, 5);
  return report;
}
bool knows_itself() { return program_info("").git_commit != "unknown"; }

TEST(Forgery, WhatThisBuildAlwaysWritesMayNotBeAbsent) {
  Report report = of_this_build(sample_energy_report());
  EXPECT_EQ(codes_of(validate_report(to_json(report)).violations), std::vector<std::string>());
  for (Record& record : report.records) {
    record.warm_up->start_s.reset();
    for (Trial& trial : record.trials) trial.start_s.reset();
  }
  const Validation found = validate_report(to_json(report));
  EXPECT_EQ(has(found.violations, "trial_start_missing"), knows_itself());
  EXPECT_EQ(has(found.warnings, "trial_start_unknown"), !knows_itself());
  EXPECT_FALSE(has(found.violations, "warm_up"));
  for (Record& record : report.records) record.warm_up.reset();
  EXPECT_EQ(has(validate_report(to_json(report)).violations, "warm_up"), knows_itself());
}

TEST(Forgery, ThisBuildDoesNotWriteIntervalsOfOlderPrograms) {
  Report report = large_report(12);
  summarise(report.records[0], IntervalRule::olympic_bootstrap);
  ASSERT_EQ(report.records[0].summary.samples_per_s->statistic, Statistic::olympic_mean);
  EXPECT_EQ(codes_of(validate_report(to_json(report)).violations), std::vector<std::string>());
  report = of_this_build(report);
  const Validation found = validate_report(to_json(report));
  EXPECT_EQ(has(found.violations, "older_interval"), knows_itself());
  summarise(report.records[0]);
  EXPECT_EQ(codes_of(validate_report(to_json(report)).violations), std::vector<std::string>());
}

/// The second package's meter is another one, with its rows, its series and its joules.
Report with_meter(const std::string& domain, Scope scope) {
  Report report = sample_energy_report();
  const std::string other = "rapl:package-1";
  report.context.hosts[0].sockets = 1;
  for (MeterEntry& meter : report.context.meters)
    if (meter.domain == other) meter.domain = domain, meter.scope = scope;
  for (IdleRow& row : report.context.idle_power)
    if (row.domain == other) row.domain = domain, row.scope = scope, row.power_w = 1;
  for (Trial& trial : report.records[0].trials) {
    for (EnergyRow& row : trial.energy)
      if (row.domain == other) row.domain = domain, row.scope = scope;
    for (SeriesRow& series : trial.series)
      if (series.domain == other) series.domain = domain;
  }
  summarise(report);
  return report;
}
Validation without_series(Report report, const std::string& domain, std::size_t trials) {
  for (std::size_t t = 0; t < trials; ++t)
    std::erase_if(report.records[0].trials[t].series, [&](const SeriesRow& series) { return series.domain == domain; });
  return validate_report(to_json(report));
}
Validation with_joules(Report report, const std::string& domain, double factor) {
  for (Trial& trial : report.records[0].trials)
    for (EnergyRow& row : trial.energy)
      if (row.domain == domain) *row.energy_j *= factor;
  summarise(report);
  return validate_report(to_json(report));
}

/// NVML's power may be unreadable where its counter is not, and then it is so in all trials.
TEST(Forgery, AGpuWithoutASeriesIsNotedUnlessItHasOneElsewhere) {
  const std::string gpu = "nvml:GPU-1";
  const Report report = with_meter(gpu, Scope::device);
  EXPECT_EQ(codes_of(validate_report(to_json(report)).violations), std::vector<std::string>());
  Validation found = without_series(report, gpu, 3);
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>(3, "power_series_missing"));
  found = without_series(report, gpu, 1);
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>{"power_series_missing"});
  for (const char* domain : {"cray:cpu", "hwmon:rail"}) {
    SCOPED_TRACE(domain);
    found = without_series(with_meter(domain, Scope::package), domain, 3);
    EXPECT_EQ(codes_of(found.violations), std::vector<std::string>(3, "power_series_missing"));
  }
  found = without_series(with_meter("external", Scope::node), "external", 3);
  EXPECT_TRUE(has(found.violations, "power_series_missing"));
}

TEST(Forgery, AGpusPowerMayBeReadApartFromItsCounter) {
  const std::string gpu = "nvml:GPU-1";
  const Report report = with_meter(gpu, Scope::device);
  for (const double factor : {0.85, 1.0, 1.15}) {
    const Validation found = with_joules(report, gpu, factor);
    EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
    EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>());
  }
  for (const double factor : {0.6, 1.6}) {
    const Validation found = with_joules(report, gpu, factor);
    EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
    EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>(3, "energy_near_power"));
  }
  for (const double factor : {0.001, 0.3, 3.0})
    EXPECT_EQ(codes_of(with_joules(report, gpu, factor).violations),
              std::vector<std::string>(3, "energy_differs_from_power"));
}

/// What a sensor with a reading of its own has not shown is not known, and what it has shown holds.
TEST(Forgery, OfAGpusPowerThatHasAGapTheRestHolds) {
  const std::string gpu = "nvml:GPU-1";
  Report report = with_meter(gpu, Scope::device);
  for (Trial& trial : report.records[0].trials)
    for (SeriesRow& series : trial.series) {
      if (series.domain != gpu) continue;
      const double watts = series.mean[0];
      series = {series.host, gpu, "power_w", {}, {}, {}, {}};
      for (int i = 0; i < 300; ++i) {  // at 10 Hz in half of the window
        series.time_s.push_back(0.1 * i);
        for (auto* values : {&series.minimum, &series.mean, &series.maximum}) values->push_back(watts);
      }
    }
  Validation found = validate_report(to_json(report));
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>(3, "power_series_gap"));
  EXPECT_EQ(codes_of(with_joules(report, gpu, 0.5).violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(with_joules(report, gpu, 0.2).violations),
            std::vector<std::string>(3, "energy_differs_from_power"));
}

/// Also of what is in no total, which is shown beside it.
TEST(Forgery, RowsThatAreNotCountedAreOfTheirMetersToo) {
  const auto with_core = [](void (*change)(EnergyRow&)) {
    Report report = sample_energy_report();
    for (Trial& trial : report.records[0].trials) change(trial.energy[3]);
    return codes_of(validate_report(to_json(report)).violations);
  };
  EXPECT_EQ(with_core([](EnergyRow& row) { row.method = Method::integrated_power; }),
            std::vector<std::string>(3, "meter_method"));
  EXPECT_EQ(with_core([](EnergyRow& row) { row.domain = "rapl:core-9"; }),
            std::vector<std::string>(3, "meter_unknown"));
}

/// Of several devices that did not accept the same none is said for all, and of what was observed the farthest is;
/// where a point takes some of the ranks, the rows of the others are left out, and only what is said is held against
/// the rest.
TEST(Forgery, ASettingSaysWhatItsDevicesSay) {
  const auto codes = [](const Setting& setting, int ranks = 2) {
    Report report = sample_energy_report();
    Record& record = report.records[0];
    record.setting["cpu_frequency_mhz"] = setting;
    record.workload.ranks = ranks;
    summarise(report);
    const std::vector<Fault> faults = validate_report(to_json(report)).violations;
    return std::ranges::count(faults, "setting_differs", &Fault::code);
  };
  const SettingRow slow{"node1", "cpu", 2400, 2390, ""}, other{"node1", "cpu-1", 2400, 2350, ""},
      refused{"node1", "cpu-1", {}, {}, "refused"};
  EXPECT_EQ(codes({2400, 2400, 2350, {slow, other}}), 0);
  EXPECT_EQ(codes({2400, {}, 2390, {slow, refused}}), 0);
  EXPECT_EQ(codes({2400, 2400, 2390, {slow, other}}), 1) << "not the farthest";
  EXPECT_EQ(codes({2400, 2400, 2390, {slow, refused}}), 1) << "not all accepted it";
  EXPECT_EQ(codes({2400, 2400, {}, {slow}}), 1);
  EXPECT_EQ(codes({2400, {}, 2390, {slow}}), 1);
  EXPECT_EQ(codes({2400, {}, 2390, {slow}}, 1), 0) << "a device of another rank did not accept it";
  EXPECT_EQ(codes({2400, 2300, 2390, {slow}}, 1), 1);
}

Validation of_version(const Report& report, const std::string& version) {
  std::string text = to_json(report);
  const std::string known = R"("schema_version": "1.0")";
  return validate_report(text.replace(text.find(known), known.size(), R"("schema_version": ")" + version + "\""));
}

TEST(Forgery, AVersionIsWrittenInOneWay) {
  for (const char* version : {"01.0", "1.00", "1.", "+1.0", " 1.0", "1.0 "})
    EXPECT_EQ(codes_of(of_version(sample_energy_report(), version).violations), std::vector<std::string>{"unreadable"})
        << version;
}

/// What a newer program says may be more than this one knows.
TEST(Forgery, AFlagOfANewerVersionIsKept) {
  Report report = sample_energy_report();
  report.records[0].verdict.flags.emplace_back("certified");
  summarise(report);
  const Validation found = of_version(report, "1.7");
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>{"schema_newer"});
}

/// A device counts its errors anew when its driver does.
TEST(Forgery, ErrorCountersMayBeginAnew) {
  Report report = sample_energy_report();
  report.records[0].trials[0].counters.push_back({"node1", "cpu", "ecc_errors", -1});
  EXPECT_EQ(codes_of(validate_report(to_json(report)).violations), std::vector<std::string>());
}

/// Settings are read back one after another, each by a command that may take a minute.
TEST(Forgery, AChangeMayBeSeenAMinuteLaterForEachSetting) {
  const auto is_late = [](std::size_t settings, double after) {
    Report report = sample_energy_report();
    Record& record = report.records[0];
    const SettingRow row{"node1", "cpu", 2400, 2390, ""};
    record.setting.clear();
    for (std::size_t i = 0; i < settings; ++i) record.setting["knob_" + std::to_string(i)] = {2400, 2400, 2390, {row}};
    Trial& trial = record.trials[0];
    trial.setting_changes = {
        {"cpu_power_limit_w", "node1", "rapl:package-0", false, trial.window_s + after, "limit_uw = 1", {}}};
    summarise(report);
    return has(validate_report(to_json(report)).violations, "setting_change_time");
  };
  for (const std::size_t settings : {0, 1}) EXPECT_TRUE(!is_late(settings, 119) && is_late(settings, 130)) << settings;
  EXPECT_TRUE(!is_late(3, 239) && is_late(3, 250));
}

TEST(Forgery, APauseBetweenTrialsIsNoted) {
  Report report = sample_energy_report();
  for (std::size_t t = 1; t < 3; ++t) *report.records[0].trials[t].start_s += 60;
  const Validation found = validate_report(to_json(report));
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>{"trials_gap"});
}

TEST(Forgery, JoulesWithoutAClockSkewAreNotedUnlessThisBuildWroteThem) {
  Report report = sample_energy_report();
  for (Trial& trial : report.records[0].trials) trial.clock_skew_s.reset();
  Validation found = validate_report(to_json(report));
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
  EXPECT_EQ(codes_of(found.warnings), std::vector<std::string>{"clock_skew_unknown"});
  found = validate_report(to_json(of_this_build(report)));
  EXPECT_EQ(has(found.violations, "clock_skew"), knows_itself());
}

TEST(Forgery, APackageThatCouldNotBeReadIsListed) {
  Report report = forged(sample_energy_report(), "deleted_package");
  MeterEntry unread;
  unread.host = "node1", unread.domain = "rapl:package-1", unread.scope = Scope::package, unread.reason = "permission";
  unread.detail = "Permission denied";
  report.context.meters.push_back(unread);
  EXPECT_EQ(codes_of(validate_report(to_json(report)).violations), std::vector<std::string>{"meter_left_out"});
  for (Trial& trial : report.records[0].trials) {
    EnergyRow& row = trial.energy.emplace_back();
    row.host = "node1", row.domain = unread.domain, row.scope = Scope::package, row.reason = "permission";
    row.counted = false;
  }
  summarise(report);
  EXPECT_FALSE(report.records[0].summary.energy_j.at(Scope::package)) << "a run writes no joules of one package";
  EXPECT_EQ(codes_of(validate_report(to_json(report)).violations), std::vector<std::string>());
}

/// Two sources of the same package, of which one counts, and a package beside a meter that contains it.
TEST(Forgery, APackageIsLeftOutWhereAnotherMeterCoversIt) {
  const auto codes = [](const std::string& domain, Scope scope, const std::string& reason) {
    Report report = with_meter(domain, scope);
    MeterEntry entry = report.context.meters[1];
    entry.domain = "rapl:package-1", entry.scope = Scope::package, entry.counted = false, entry.reason = reason;
    report.context.meters.push_back(entry);
    for (Trial& trial : report.records[0].trials) {
      EnergyRow row = trial.energy[1];
      row.domain = entry.domain, row.scope = entry.scope, row.counted = false, row.reason = reason;
      trial.energy.push_back(row);
    }
    return codes_of(validate_report(to_json(report)).violations);
  };
  const std::vector<std::string> good, bad = {"meter_left_out"};
  EXPECT_EQ(codes("rapl:psys", Scope::node, "contained"), bad) << "scopes are counted side by side";
  EXPECT_EQ(codes("perf:package-1", Scope::package, "duplicate"), good);
  EXPECT_EQ(codes("rapl-mmio:package-1", Scope::package, "duplicate"), good);
  EXPECT_EQ(codes("rapl:package-1-die-1", Scope::package, "duplicate"), good);
  EXPECT_EQ(codes("rapl-mmio:package-2", Scope::package, "duplicate"), bad) << "another package";
  EXPECT_EQ(codes("perf:package-1", Scope::package, "contained"), bad);
  EXPECT_EQ(codes("rapl:psys", Scope::node, "duplicate"), bad) << "it contains it";
}

TEST(Forgery, AGpuMayBeAnotherJobs) {
  for (const char* domain : {"nvml:GPU-1", "nvml-power:GPU-1", "amdgpu:0000:01:00.0", "amdsmi:0000:01:00.0",
                             "cray:accel0"}) {
    SCOPED_TRACE(domain);
    Report report = sample_energy_report();
    MeterEntry entry = report.context.meters[0];
    entry.domain = domain, entry.scope = Scope::device, entry.counted = false, entry.reason = "not_visible";
    report.context.meters.push_back(entry);
    EXPECT_EQ(codes_of(validate_report(to_json(report)).violations), std::vector<std::string>());
  }
}

/// The fans and the supply of a node take some, and its meter may differ by some percent; psys holds no GPU.
TEST(Forgery, ANodeUsesWhatItsPartsUse) {
  const auto codes = [](const std::string& domain, double joules, const std::string& device = "") {
    Report report = with_meter(domain, Scope::node);
    report.context.hosts[0].sockets = 1;
    report.context.devices[0].name = device;
    const EnergyRow gpu = {Scope::device, "nvml:GPU-1", "node1", Method::counter, 3000, 30, {}, 0.001, 0, true, ""};
    report.context.meters.push_back({"node1", gpu.domain, "", "", gpu.scope, gpu.method, true, true, 0.001});
    report.context.idle_power.push_back({IdleTime::before, "node1", gpu.domain, gpu.scope, 1.0, 0.1, 1.0, ""});
    for (Trial& trial : report.records[0].trials) {
      trial.energy.push_back(gpu);
      trial.energy.back().window_s = trial.window_s;
      for (EnergyRow& row : trial.energy)
        if (row.scope == Scope::node) row.energy_j = joules;
      trial.series = sample_power(trial);
    }
    summarise(report);
    return codes_of(validate_report(to_json(report)).violations);
  };
  const std::vector<std::string> good, bad(3, "energy_below_parts");
  // Beside package 6000 J, DRAM 900 J, GPU 3000 J.
  EXPECT_EQ(codes("external", 11000), good);
  EXPECT_EQ(codes("external", 9100), good);
  EXPECT_EQ(codes("external", 8000), bad);
  EXPECT_EQ(codes("cray:node", 8000), bad);
  EXPECT_EQ(codes("external", 7000, "NVIDIA GH200 480GB"), good) << "its sensor is the module's";
  EXPECT_EQ(codes("rapl:psys", 6100), good);
  EXPECT_EQ(codes("rapl:psys", 5000), good) << "a note: its maker may have wired it to less";
}

TEST(Forgery, AGpuOfARankIsAmongTheMeters) {
  Report report = with_meter("nvml:GPU-1", Scope::device);
  for (DeviceEntry& device : report.context.devices) device.uuid = "GPU-" + std::to_string(device.rank + 1);
  EXPECT_EQ(codes_of(validate_report(to_json(report)).violations), std::vector<std::string>{"gpus_missing"});
  report.context.devices[1].uuid = "MIG-2";
  EXPECT_EQ(codes_of(validate_report(to_json(report)).violations), std::vector<std::string>());
}

/// A driver shows somewhat less than the list, and a process may be given a part; more is another device.
TEST(Forgery, AGpuHasTheMemoryOfItsName) {
  const auto found = [](double gib, const std::string& name, const std::string& uuid, bool is_own) {
    Report report = sample_energy_report();
    if (is_own) report = of_this_build(report);
    DeviceEntry& device = report.context.devices[0];
    device.kind = "cuda", device.name = name, device.uuid = uuid;
    if (gib > 0) device.memory_bytes = static_cast<std::uint64_t>(gib * (1 << 30));
    const Validation all = validate_report(to_json(report));
    return std::pair(has(all.violations, "device_memory"), has(all.warnings, "device_memory"));
  };
  const std::pair good(false, false), fault(true, false), note(false, true);
  EXPECT_EQ(found(140, "NVIDIA H200", "GPU-1", false), good);
  EXPECT_EQ(found(44.5, "NVIDIA L40S", "GPU-1", false), good);
  EXPECT_EQ(found(141, "NVIDIA A100-SXM4-40GB", "GPU-1", false), fault);
  EXPECT_EQ(found(46, "NVIDIA A100-SXM4-40GB", "GPU-1", false), fault);
  EXPECT_EQ(found(40, "NVIDIA H200", "GPU-1", false), note);
  EXPECT_EQ(found(18, "NVIDIA H200", "MIG-1", false), good) << "an instance";
  EXPECT_EQ(found(141, "NVIDIA H200 NVL", "GPU-1", false), good) << "not in the list";
  EXPECT_EQ(found(0, "NVIDIA H200", "GPU-1", false), good) << "a report from before it was recorded";
  EXPECT_EQ(found(0, "NVIDIA H200", "GPU-1", true), knows_itself() ? fault : good);
}

/// Whoever takes such a flag out gains nothing.
TEST(Forgery, FlagsThatTheContextImpliesComeBack) {
  const auto left_out = [](void (*change)(Context&)) {
    Report report = sample_energy_report();
    change(report.context);
    const Validation found = validate_report(to_json(report));
    EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
    std::vector<std::string> flags;
    for (const auto& one : found.left_out_flags) flags.push_back(one.flag.name);
    return flags;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(left_out([](Context&) {}), Names());
  EXPECT_EQ(left_out([](Context& c) { c.hosts[0].cpu_governor = "powersave"; }), Names{"governor"});
  EXPECT_EQ(left_out([](Context& c) { c.hosts[0].steal_share_since_boot = 0.2; }), Names());
  EXPECT_EQ(left_out([](Context& c) { c.devices[1].affinity = {0}; }), Names{"oversubscribed"});
  EXPECT_EQ(left_out([](Context& c) { c.versions["build_type"] = "Debug"; }), Names{"debug_build"});
}

TEST(Forgery, ALargeClockSkewAndUnknownSharesAreNoted) {
  Report report = sample_energy_report();
  report.records[0].trials[0].steal_share.reset();
  EXPECT_EQ(codes_of(validate_report(to_json(report)).warnings), std::vector<std::string>{"cpu_shares_unknown"});
  report = sample_energy_report();
  Trial& trial = report.records[0].trials[0];
  trial.window_s = 19, trial.clock_skew_s = 0.96;
  EXPECT_TRUE(has(validate_report(to_json(report)).warnings, "clock_skew_large"));
}

TEST(Forgery, ATrialThatIsACopyOfAnotherIsFound) {
  Report report = sample_report();
  Record& record = report.records[0];
  unsigned state = 1;
  for (Trial& trial : record.trials)
    for (double& seconds : trial.step_time_s)  // as a clock of nanoseconds has them: each its own
      seconds = std::round((seconds + 1e-12 * ((state = state * 1103515245 + 12345) % 1000000)) * 1e9) * 1e-9;
  summarise(record);
  const auto copies = [&] {
    std::vector<std::string> places;
    for (const Fault& fault : validate_report(to_json(report)).violations)
      if (fault.code == "trial_copied") places.push_back(fault.where);
    return places;
  };
  EXPECT_EQ(copies(), std::vector<std::string>());
  record.trials[2].step_time_s = record.trials[0].step_time_s;
  summarise(record);
  EXPECT_EQ(copies(), std::vector<std::string>{"/records/0/trials/2"});
  // What a coarse clock, or a step that always takes the same, may well give twice.
  for (Trial& trial : record.trials)
    for (double& seconds : trial.step_time_s) seconds = std::round(seconds * 1e3) * 1e-3;
  summarise(record);
  EXPECT_EQ(copies(), std::vector<std::string>());
}

/// A run that was told to end has not measured it, and says so.
TEST(Forgery, IdlePowerMayBeMissingWithAReason) {
  Report report = forged(sample_energy_report(), "no_idle_power");
  report.context.warnings.push_back("no idle power before the command: told to end by a signal");
  EXPECT_EQ(codes_of(validate_report(to_json(report)).violations), std::vector<std::string>());
}

/// No check blames trials for being many. tests/fuzz/count_steps.cpp holds how many steps it takes; make_large_report
/// is for timing it.
TEST(Forgery, ManyTrialsOfAGoodRunAreGood) {
  const Validation found = validate_report(to_json(large_report(20'000)));
  EXPECT_EQ(codes_of(found.violations), std::vector<std::string>());
}

}  // namespace
}  // namespace tw
