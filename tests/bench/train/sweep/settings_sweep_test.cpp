// A run over GPU clocks and power limits against the stand-in driver: the records show the optimum that its power model has,
// no point is shown as something that it was not, and everything is put back.
#include <csignal>

#include "power/knob/guardian.hpp"
#include "tests/bench/train/sweep/sweep_fixture.hpp"

namespace tw {

using namespace bench;
using namespace comm;
using namespace power;
using namespace results;

namespace {

using namespace sweep_test;

TEST_F(Sweep, TheOptimumOfEnergyLiesInsideAndEverythingIsPutBack) {
  bool journalled = false;
  during_ = [&](int) { journalled = journalled || has_journal(); };
  const Report report = run({{KnobKind::gpu_clock, {"600:1980:480"}}});  // 600, 1080, 1560
  ASSERT_EQ(report.records.size(), 3u);
  std::vector<double> joules;
  for (std::size_t i = 0; i < 3; ++i) {
    const Record& record = report.records[i];
    const double mhz = 600.0 + 480.0 * static_cast<double>(i);
    SCOPED_TRACE(record.id);
    EXPECT_EQ(record.verdict.status, Status::valid) << (record.verdict.reasons.empty() ? "" : record.verdict.reasons[0]);
    const Setting& setting = record.setting.at("gpu_clock_mhz");
    EXPECT_EQ(setting.requested, mhz);
    EXPECT_EQ(setting.accepted, mhz);
    EXPECT_NEAR(setting.observed.value().number, mhz, 0.03 * mhz);
    ASSERT_TRUE(record.summary.samples_per_j.at(results::Scope::device));
    const double per_step = static_cast<double>(record.workload.global_batch) /
                            record.summary.samples_per_j.at(results::Scope::device)->value;
    EXPECT_NEAR(per_step, expected_joules_per_step(gpus_.gpu(0), mhz), 0.1 * per_step) << "the counter has its steps";
    EXPECT_TRUE(record.summary.flops_per_w.at(results::Scope::device));
    EXPECT_FALSE(has(record, "not_applied"));
    joules.push_back(per_step);
    bool sampled = false;
    for (const SeriesRow& series : record.trials[0].series) sampled = sampled || series.quantity == "sm_clock_mhz";
    EXPECT_TRUE(sampled);
  }
  EXPECT_LT(joules[1], joules[0]);
  EXPECT_LT(joules[1], joules[2]);
  EXPECT_EQ(gpus_.gpu(0).lock_mhz, 0u);
  EXPECT_EQ(gpus_.gpu(0).limit_mw, 650'000u);
  EXPECT_TRUE(journalled) << "while a clock was locked";
  EXPECT_FALSE(has_journal());
}

// Over a grid of both: a limit that binds is the clock that it leaves, and the least joules lie inside, not at an edge.
TEST_F(Sweep, TheOptimumOverClocksAndLimitsLiesInside) {
  const Report report = run({{KnobKind::gpu_clock, {"600", "1080", "1980"}}, {KnobKind::gpu_power_limit, {"400", "650"}}});
  ASSERT_EQ(report.records.size(), 6u);
  std::map<std::pair<double, double>, double> joules;  // of a step, by clock and limit
  for (const Record& record : report.records) {
    SCOPED_TRACE(record.id);
    EXPECT_EQ(record.verdict.status, Status::valid) << (record.verdict.reasons.empty() ? "" : record.verdict.reasons[0]);
    const double mhz = record.setting.at("gpu_clock_mhz").accepted.value().number;
    const double watts = record.setting.at("gpu_power_limit_w").accepted.value().number;
    const double seen_mhz = record.setting.at("gpu_clock_mhz").observed.value().number;
    const double per_step = static_cast<double>(record.workload.global_batch) /
                            record.summary.samples_per_j.at(results::Scope::device).value().value;
    EXPECT_NEAR(per_step, expected_joules_per_step(gpus_.gpu(0), seen_mhz), 0.1 * per_step);
    EXPECT_LE(record.setting.at("gpu_power_limit_w").observed.value().number, 1.05 * watts);
    joules[{mhz, watts}] = per_step;
  }
  ASSERT_EQ(joules.size(), 6u);
  for (const double limit : {400.0, 650.0}) {
    EXPECT_LT((joules[{1080, limit}]), (joules[{600, limit}]));
    EXPECT_LT((joules[{1080, limit}]), (joules[{1980, limit}]));
  }
  EXPECT_LT((joules[{1980, 400}]), 0.95 * (joules[{1980, 650}])) << "the limit binds where the clock is high";
  EXPECT_NEAR((joules[{600, 400}]), (joules[{600, 650}]), (0.1 * joules[{600, 650}])) << "and not where it is low";
  EXPECT_EQ(gpus_.gpu(0).lock_mhz, 0u);
  EXPECT_EQ(gpus_.gpu(0).limit_mw, 650'000u);
  EXPECT_FALSE(has_journal());
}

// Two ranks of a machine, and only the second can address the GPU: none is to speak for a kind that is the other's.
TEST_F(Sweep, ARankIsNotAskedForKnobsThatAreAnothers) {
  const std::string gpu = "nvml:" + gpus_.gpu(0).uuid;
  const std::vector<Sighted> ranks = {{"machine", {}, {}}, {"machine", {gpu}, {gpu}}};
  {
    JobSettings settings(job(), Machines(ranks, 1), {});
    const auto applied = settings.apply({{KnobKind::gpu_clock, 1305}, {KnobKind::cpu_governor, 1}});
    ASSERT_EQ(applied.at("gpu_clock_mhz").devices.size(), 1u);
    EXPECT_EQ(applied.at("gpu_clock_mhz").accepted, 1305);
    EXPECT_TRUE(applied.at("cpu_governor").devices.empty()) << applied.at("cpu_governor").devices[0].reason;
    EXPECT_EQ(gpus_.gpu(0).lock_mhz, 1305u);
    settings.apply({{KnobKind::cpu_governor, 1}});  // the first rank's: here it only ends the lock
    EXPECT_EQ(gpus_.gpu(0).lock_mhz, 0u);
  }
  setenv(standin::only_variable, "none", 1);
  {
    JobSettings settings(job(), Machines(ranks, 0), {});
    EXPECT_TRUE(settings.apply({{KnobKind::gpu_clock, 1305}}).at("gpu_clock_mhz").devices.empty());
  }
  unsetenv(standin::only_variable);
  // But where no rank may use a GPU, somebody has to say that there is none.
  const std::vector<Sighted> hidden = {{"machine", {gpu}, {}}};
  JobSettings none(job(), Machines(hidden, 0), {});
  const auto refused = none.apply({{KnobKind::gpu_clock, 1305}});
  ASSERT_EQ(refused.at("gpu_clock_mhz").devices.size(), 1u);
  EXPECT_FALSE(refused.at("gpu_clock_mhz").devices[0].accepted);
  EXPECT_EQ(refused.at("gpu_clock_mhz").devices[0].reason.rfind("not_visible: ", 0), 0u);
  EXPECT_EQ(gpus_.gpu(0).lock_mhz, 0u);
  // One that nobody may ask is not the job's.
  gpus_.edit_all([](standin::State& state) {
    state.gpus.push_back(state.gpus[0]);
    state.gpus[1].uuid = "GPU-11111111-1111-2222-3333-444444444444", state.gpus[1].hidden = 1;
  });
  JobSettings whole(job(), Machines(job()), {});
  EXPECT_EQ(whole.apply({{KnobKind::gpu_clock, 1305}}).at("gpu_clock_mhz").accepted, 1305);
}

/// The only line there is, or all of them.
std::string only(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : "\n") + line;
  return text;
}

TEST_F(Sweep, WhatSomebodyElseHasSetMeanwhileIsToldAndKept) {
  const std::string what = job().host() + ": gpu_power_limit_w of nvml:" + gpus_.gpu(0).uuid;
  const auto somebody_sets = [&](standin::Count mw) { gpus_.edit(0, [&](standin::Gpu& gpu) { gpu.limit_mw = mw; }); };
  JobSettings settings(job(), Machines(job()), options_);
  EXPECT_EQ(only(settings.news()), "");
  settings.apply({{KnobKind::gpu_power_limit, 300}});
  somebody_sets(500'000);
  EXPECT_EQ(settings.apply({{KnobKind::gpu_power_limit, 350}}).at("gpu_power_limit_w").accepted, 350);
  EXPECT_EQ(only(settings.news()), "found: " + what +
                                       ": someone else has set requested_mw = 500000 since the last "
                                       "point; this value will be restored");
  EXPECT_EQ(only(settings.news()), "") << "told once";
  somebody_sets(400'000);
  settings.apply({});  // a point that leaves it as found
  EXPECT_EQ(only(settings.news()).find("left: " + what + ": someone else has since set "), 0u);
  EXPECT_EQ(gpus_.gpu(0).limit_mw, 400'000u);
  settings.apply({{KnobKind::gpu_power_limit, 300}});
  somebody_sets(450'000);
  EXPECT_TRUE(settings.restore()) << "left is not failed";
  EXPECT_EQ(only(settings.news()).find("left: " + what), 0u);
  EXPECT_EQ(gpus_.gpu(0).limit_mw, 450'000u);
}

TEST_F(Sweep, WhatCannotBePutBackIsToldAndKeptInTheJournal) {
  JobSettings settings(job(), Machines(job()), options_);
  settings.apply({{KnobKind::gpu_clock, 990}});
  gpus_.edit(0, [](standin::Gpu& gpu) { gpu.deny_set = 1; });
  EXPECT_FALSE(settings.restore());
  const std::string line = only(settings.news());
  EXPECT_EQ(line.find("not restored: " + job().host() + ": gpu_clock_mhz of nvml:"), 0u) << line;
  EXPECT_NE(line.find("nvmlDeviceResetGpuLockedClocks"), std::string::npos) << line;
  EXPECT_TRUE(has_journal());
  gpus_.edit(0, [](standin::Gpu& gpu) { gpu.deny_set = 0; });
  EXPECT_TRUE(settings.restore());
  EXPECT_FALSE(has_journal());
}

// A run that dies after ours has begun, and of which a set point of ours must put back what it left.
TEST_F(Sweep, WhatADeadRunHasLeftIsToldWheneverItIsPutBack) {
  const std::string gpu = "nvml:" + gpus_.gpu(0).uuid;
  auto rank = JournalFolder::open(journal_folder_of_rank(0), true);
  ASSERT_TRUE(rank->lock({}));
  rank->write(
      {boot_id(), this_process(), {}, {{KnobKind::gpu_power_limit, gpu, {{"requested_mw", "650000"}}, {{500, 500}}}}});
  gpus_.edit(0, [](standin::Gpu& one) { one.limit_mw = 500'000; });
  JobSettings settings(job(), Machines(job()), options_);
  const std::string held = only(settings.news());
  EXPECT_EQ(held.find("not restored: " + job().host() + ": "), 0u) << held;
  EXPECT_NE(held.find("which still runs"), std::string::npos) << held;
  rank.reset();
  settings.apply({{KnobKind::gpu_power_limit, 300}});
  const std::string told = only(settings.news());
  EXPECT_EQ(told.find("restored: " + job().host() + ": gpu_power_limit_w of " + gpu + ", left by "), 0u) << told;
  EXPECT_EQ(only(settings.news()), "") << "told once";
  EXPECT_TRUE(settings.restore());
  EXPECT_EQ(gpus_.gpu(0).limit_mw, 650'000u);
}

// Where there are GPUs and no rank may use any, a site's command for all of them is none of the job's either.
TEST_F(Sweep, ASitesCommandForAllGpusIsNotRunForNone) {
  const fs::path site = run_folder_ / "site.json", ran = run_folder_ / "ran";
  std::ofstream(site) << R"({"knobs": [{"kind": "gpu_clock_mhz", "set": ["touch", ")" << ran.string()
                      << R"({value}"], "reset": ["true"], "minimum": 210, "maximum": 1980}]})";
  fs::permissions(site, fs::perms(0644));
  options_.site = site;
  const std::string gpu = "nvml:" + gpus_.gpu(0).uuid;
  const std::vector<Sighted> hidden = {{"machine", {gpu}, {}}}, none = {{"machine", {}, {}}};
  {
    JobSettings settings(job(), Machines(hidden, 0), options_);
    const auto refused = settings.apply({{KnobKind::gpu_clock, 1305}});
    ASSERT_EQ(refused.at("gpu_clock_mhz").devices.size(), 1u);
    EXPECT_EQ(refused.at("gpu_clock_mhz").devices[0].reason.rfind("not_visible: ", 0), 0u);
    EXPECT_FALSE(fs::exists(ran.string() + "1305"));
  }
  // Of GPUs that nobody can ask it is the site that knows.
  JobSettings settings(job(), Machines(none, 0), options_);
  EXPECT_EQ(settings.apply({{KnobKind::gpu_clock, 1305}}).at("gpu_clock_mhz").accepted, 1305);
  EXPECT_TRUE(fs::exists(ran.string() + "1305"));
}

TEST_F(Sweep, ALimitThatBindsIsNotedAndTheClockItHoldsBackIsNotShownAsSet) {
  const Report report = run({{KnobKind::gpu_clock, {"1980"}}, {KnobKind::gpu_power_limit, {"found", "300"}}});
  ASSERT_EQ(report.records.size(), 2u);
  EXPECT_FALSE(has(report.records[0], "power_capped"));
  EXPECT_FALSE(has(report.records[0], "not_applied"));
  const Record& capped = report.records[1];
  EXPECT_TRUE(has(capped, "power_capped"));
  EXPECT_TRUE(has(capped, "not_applied"));
  EXPECT_EQ(capped.verdict.status, Status::valid) << "noted in a clock sweep";
  EXPECT_LT(capped.setting.at("gpu_clock_mhz").observed.value().number, 1500);
  EXPECT_LE(capped.setting.at("gpu_power_limit_w").observed.value().number, 300 * 1.05);
  EXPECT_EQ(gpus_.gpu(0).limit_mw, 650'000u);
}

TEST_F(Sweep, WhatTheDriverIgnoresOrRefusesIsNeverShownAsSet) {
  gpus_.edit(0, [](standin::Gpu& gpu) { gpu.ignore_lock = 1; });
  const Report ignored = run({{KnobKind::gpu_clock, {"found", "990"}}});
  EXPECT_EQ(ignored.records[0].verdict.status, Status::valid);
  EXPECT_EQ(ignored.records[1].verdict.status, Status::invalid);
  EXPECT_TRUE(has(ignored.records[1], "not_applied"));

  gpus_.edit(0, [](standin::Gpu& gpu) { gpu.ignore_lock = 0, gpu.deny_set = 1; });
  const Report refused = run({{KnobKind::gpu_clock, {"found", "990"}}});
  EXPECT_EQ(refused.records[0].verdict.status, Status::valid) << "a sweep goes on";
  EXPECT_EQ(refused.records[1].verdict.status, Status::unsupported);
  EXPECT_TRUE(has(refused.records[1], "not_applied"));
  EXPECT_TRUE(refused.records[1].trials.empty());
  ASSERT_FALSE(refused.records[1].verdict.reasons.empty());
  EXPECT_NE(refused.records[1].verdict.reasons[0].find("permission"), std::string::npos) << refused.records[1].verdict.reasons[0];
}

// In the middle of a trial: at its second step of four.
TEST_F(Sweep, ALimitThatSomebodyElseSetsInTheMiddleOfATrialIsNotApplied) {
  measurement_.warmup_steps = 2, measurement_.steps = 4;
  during_ = [&](int step) {
    if (step == 3) gpus_.edit(0, [](standin::Gpu& gpu) { gpu.limit_mw = 500'000; });
  };
  expected_news_ = 1;  // the other's limit is left
  const Report report = run({{KnobKind::gpu_power_limit, {"450"}}});
  EXPECT_EQ(news_.at(0).rfind("left: ", 0), 0u) << news_[0];
  const Record& record = report.records.at(0);
  EXPECT_EQ(record.verdict.status, Status::invalid);
  EXPECT_TRUE(has(record, "not_applied"));
  EXPECT_EQ(record.setting.at("gpu_power_limit_w").accepted, 450) << "it was, at first";
  ASSERT_TRUE(record.trials.at(0).setting_changes);
  ASSERT_EQ(record.trials[0].setting_changes->size(), 1u);
  const SettingChange& change = record.trials[0].setting_changes->front();
  EXPECT_EQ(change.setting, "gpu_power_limit_w");
  EXPECT_EQ(change.domain, "nvml:" + gpus_.gpu(0).uuid);
  EXPECT_TRUE(change.requested);
  EXPECT_EQ(change.expected, "requested_mw = 450000");
  EXPECT_EQ(change.found, "requested_mw = 500000");
  EXPECT_FALSE(record.summary.samples_per_s) << "the trial does not count";
}

TEST_F(Sweep, ALimitThatWasToStayAsFoundAndIsChangedInATrialIsFlagged) {
  measurement_.warmup_steps = 2, measurement_.steps = 4;
  during_ = [&](int step) {
    if (step == 3) gpus_.edit(0, [](standin::Gpu& gpu) { gpu.limit_mw = 500'000; });
  };
  const Report report = run({{KnobKind::gpu_power_limit, {"found"}}});
  const Record& record = report.records.at(0);
  EXPECT_EQ(record.verdict.status, Status::valid);
  EXPECT_TRUE(has(record, "setting_changed"));
  EXPECT_FALSE(has(record, "not_applied"));
  ASSERT_EQ(record.trials.at(0).setting_changes.value().size(), 1u);
  EXPECT_FALSE(record.trials[0].setting_changes->front().requested);
  EXPECT_EQ(gpus_.gpu(0).limit_mw, 500'000u) << "whose it is";
}

TEST_F(Sweep, AGuardianThatHasDiedIsToldOnce) {
  Guardian guardian;
  JobSettings settings(job(), Machines(job()), options_);
  settings.look_after(guardian);
  EXPECT_EQ(only(settings.news()), "");
  ASSERT_EQ(kill(guardian.pid(), SIGKILL), 0);
  while (guardian.alive()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  settings.look_after(guardian);
  EXPECT_EQ(only(settings.news()).rfind("guardian_died: " + job().host() + ": ", 0), 0u);
  settings.look_after(guardian);
  EXPECT_EQ(only(settings.news()), "") << "told once";
}

TEST_F(Sweep, AClampedSettingIsUnsupportedAndPutBack) {
  gpus_.edit(0, [](standin::Gpu& gpu) { gpu.clamp_limit_mw = 400'000; });
  const Report report = run({{KnobKind::gpu_power_limit, {"300", "450"}}});
  EXPECT_EQ(report.records[0].verdict.status, Status::unsupported);
  EXPECT_TRUE(has(report.records[0], "not_applied"));
  ASSERT_FALSE(report.records[0].verdict.reasons.empty());
  const std::string& reason = report.records[0].verdict.reasons[0];
  EXPECT_NE(reason.find("clamped"), std::string::npos) << reason;
  EXPECT_NE(reason.find("reads back as 400 W"), std::string::npos) << reason;
  EXPECT_EQ(report.records[1].verdict.status, Status::valid) << "a sweep goes on";
  EXPECT_EQ(gpus_.gpu(0).limit_mw, 650'000u);
  EXPECT_FALSE(has_journal());
}

// A site's command without a domain stands for all GPUs, and is no less held against them than one for each.
TEST_F(Sweep, ASitesCommandIsHeldAgainstAllDevicesOfItsKind) {
  const fs::path site = run_folder_ / "site.json";
  std::ofstream(site) << R"({"knobs": [
    {"kind": "gpu_clock_mhz", "set": ["true", "{value}"], "reset": ["true"], "minimum": 210, "maximum": 1980},
    {"kind": "gpu_power_limit_w", "set": ["true", "{value}"], "reset": ["true"], "minimum": 200, "maximum": 700},
    {"kind": "cpu_power_limit_w", "set": ["true", "{value}"], "reset": ["true"], "minimum": 1, "maximum": 999}]})";
  fs::permissions(site, fs::perms(0644));
  options_.site = site;
  gpus_.edit_all([](standin::State& state) {
    state.gpus.push_back(state.gpus[0]);
    state.gpus[1].uuid = "GPU-11111111-1111-2222-3333-444444444444";
    for (standin::Gpu& gpu : state.gpus) gpu.lock_mhz = 1305;  // what the command does
  });
  const auto only_row = [](const Record& record, const char* kind) {
    const Setting& setting = record.setting.at(kind);
    EXPECT_EQ(setting.devices.size(), 1u);
    EXPECT_EQ(setting.devices.at(0).domain, "site");
    return setting.devices.at(0);
  };
  Report report = run({{KnobKind::gpu_clock, {"1305", "990"}}});
  EXPECT_EQ(report.records[0].verdict.status, Status::valid);
  EXPECT_FALSE(has(report.records[0], "not_observed"));
  EXPECT_EQ(only_row(report.records[0], "gpu_clock_mhz").observed, 1305);
  EXPECT_EQ(report.records[1].verdict.status, Status::invalid);
  EXPECT_TRUE(has(report.records[1], "not_applied"));
  // On one of two it had no effect.
  gpus_.edit(1, [](standin::Gpu& gpu) { gpu.lock_mhz = 0; });
  report = run({{KnobKind::gpu_clock, {"1305"}}});
  EXPECT_EQ(report.records[0].verdict.status, Status::invalid);
  EXPECT_EQ(only_row(report.records[0], "gpu_clock_mhz").observed, 1980);
  // A power is held against the joules; where nothing shows it, that is said.
  report = run({{KnobKind::gpu_power_limit, {"300"}}});
  EXPECT_EQ(report.records[0].verdict.status, Status::invalid);
  EXPECT_GT(only_row(report.records[0], "gpu_power_limit_w").observed.value().number, 500);
  report = run({{KnobKind::cpu_power_limit, {"100"}}});
  EXPECT_EQ(report.records[0].verdict.status, Status::valid);
  EXPECT_TRUE(has(report.records[0], "not_observed"));
  EXPECT_EQ(only_row(report.records[0], "cpu_power_limit_w").reason, "nothing on this node shows it under load");
}

/// A package whose limit the firmware has locked: the driver answers ENODATA to each.
class LockedPackage : public powercap::CapAccess {
 public:
  std::string path() const override { return "intel-rapl:0"; }
  int get_limit_uw(std::uint64_t* value) override { return *value = 205'000'000, 0; }
  int set_limit_uw(std::uint64_t) override { return -ENODATA; }
  int get_window_us(std::uint64_t* value) override { return *value = 999'424, 0; }
  int set_window_us(std::uint64_t) override { return -ENODATA; }
  int get_enabled(bool* value) override { return *value = true, 0; }
  int set_enabled(bool) override { return 0; }
  int get_maximum_uw(std::uint64_t* value) override { return *value = 205'000'000, 0; }
  int get_minimum_uw(std::uint64_t*) override { return -ENODATA; }
  int get_energy_uj(std::uint64_t*) override { return -ENODATA; }
  int get_energy_range_uj(std::uint64_t*) override { return -ENODATA; }
};

TEST_F(Sweep, AKnobThatTheFirmwareLocksMakesItsPointUnsupported) {
  options_.find = [](const KnobOptions&) {
    std::vector<KnobFinding> found(1);
    found[0].kind = KnobKind::cpu_power_limit;
    found[0].domain = "rapl:package-0";
    found[0].knob = powercap::make_cap_knob(std::make_unique<LockedPackage>(), found[0].domain, 1000);
    return found;
  };
  const Report report = run({{KnobKind::cpu_power_limit, {"found", "120"}}});
  EXPECT_EQ(report.records[0].verdict.status, Status::valid) << "a sweep goes on";
  EXPECT_EQ(report.records[1].verdict.status, Status::unsupported);
  EXPECT_TRUE(has(report.records[1], "not_applied"));
  EXPECT_TRUE(report.records[1].trials.empty());
  ASSERT_FALSE(report.records[1].verdict.reasons.empty());
  const std::string& reason = report.records[1].verdict.reasons[0];
  EXPECT_NE(reason.find("locked: "), std::string::npos) << reason;
  EXPECT_NE(reason.find("the firmware has locked the limit"), std::string::npos) << reason;
  EXPECT_FALSE(has_journal());
}

TEST_F(Sweep, AMeterThatStopsAnsweringLosesItsScopeAlone) {
  during_ = [&](int step) {
    if (step == 20) gpus_.edit(0, [](standin::Gpu& gpu) { gpu.lost = 1; });
  };
  const Report report = run({});
  const Record& record = report.records.at(0);
  EXPECT_EQ(record.verdict.status, Status::valid);
  EXPECT_TRUE(record.summary.samples_per_s);
  EXPECT_FALSE(record.summary.energy_j.at(results::Scope::device));
  EXPECT_NE(record.summary.energy_reason.find("lost"), std::string::npos) << record.summary.energy_reason;
  for (const EnergyRow& row : record.trials.at(0).energy)
    EXPECT_TRUE(row.energy_j || !row.reason.empty()) << row.domain;
}

TEST_F(Sweep, AMeterThatAnswersAgainCountsInTheNextWindows) {
  measurement_.warmup_steps = 10;
  measurement_.steps = 10;
  measurement_.trials = 3;
  during_ = [&](int step) {  // lost in the first window, back in the second
    if (step == 15 || step == 25) gpus_.edit(0, [&](standin::Gpu& gpu) { gpu.lost = step == 15; });
  };
  const Report report = run({});
  std::vector<std::string> reasons;
  for (const Trial& trial : report.records.at(0).trials)
    for (const EnergyRow& row : trial.energy)
      if (row.domain == "nvml:" + gpus_.gpu(0).uuid) reasons.push_back(row.energy_j ? "joules" : row.reason);
  EXPECT_EQ(reasons, (std::vector<std::string>{"lost", "lost", "joules"}));
}

TEST_F(Sweep, SettingsBeginAtTheTemperatureOfTheFirst) {
  Job& job = Sweep::job();
  const Machines machines(job);
  EnergyWindow energy(job, machines);
  Progress progress(false, 1, 0);
  Point found, slow;
  slow.setting[KnobKind::gpu_clock] = 990;
  const auto idle_at = [&](std::uint64_t milliwatts) {  // the stand-in's temperature is 30 °C and 1 °C for each 10 W
    gpus_.edit(0, [&](standin::Gpu& gpu) { gpu.load_percent = 0, gpu.idle_mw = milliwatts; });
  };
  idle_at(100'000);
  CoolDown cool_down(job, energy, progress, 50);
  const auto first = cool_down.before(found);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->waited_s, 0);
  idle_at(3'000'000);
  const auto same = cool_down.before(found);
  EXPECT_EQ(same->waited_s, 0) << "nothing was changed";
  EXPECT_GE(same->temperature_c, first->temperature_c + 30);
  std::thread cooling([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    idle_at(120'000);
  });
  const auto cooled = cool_down.before(slow);
  cooling.join();
  EXPECT_LE(cooled->temperature_c, first->temperature_c + CoolDown::band_c);

  idle_at(3'000'000);
  CoolDown anew(job, energy, progress, 0.3);
  EXPECT_EQ(anew.before(slow)->waited_s, 0) << "a run begins as it finds the machine";
  CoolDown resumed(job, energy, progress, 0.3, first->temperature_c);
  for (const Point& point : {slow, found}) {
    const auto hot = resumed.before(point);
    EXPECT_GT(hot->waited_s, 0) << "one that goes on holds to what its first launch began at";
    EXPECT_GE(hot->temperature_c, first->temperature_c + 30) << "the time was up, and it says so";
  }
}

TEST_F(Sweep, HeatInvalidates) {
  gpus_.edit(0, [](standin::Gpu& gpu) { gpu.hot = 1; });
  const Report report = run({{KnobKind::gpu_clock, {"found"}}});
  EXPECT_EQ(report.records[0].verdict.status, Status::invalid);
  EXPECT_TRUE(has(report.records[0], "throttled"));
}

}  // namespace
}  // namespace tw
