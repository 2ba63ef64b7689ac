// Settings, their journal and their guardian, over runs that end well, are told to end, and are killed.
#include "power/settings.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "power/guardian.hpp"
#include "tests/power/file_knob.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;
using Outcome = RestoredSetting::Outcome;

/// Waits for what another process does; false only where it hangs.
bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// settings_run, with its stdout in a pipe.
class Process {
 public:
  explicit Process(std::vector<std::string> command) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      std::vector<char*> argv;
      for (std::string& word : command) argv.push_back(word.data());
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~Process() {
    if (pid_ > 0) end(SIGKILL);
    std::fclose(output_);
  }
  std::string line() {
    char text[512] = {};
    if (!std::fgets(text, sizeof text, output_)) return "";
    return std::string(text).substr(0, std::string(text).find('\n'));
  }
  /// Waits until the settings are applied.
  pid_t guardian() {
    const std::string text = line();
    EXPECT_EQ(text.rfind("ready ", 0), 0u) << text;
    return text.size() > 6 ? std::stoi(text.substr(6)) : -1;
  }
  pid_t pid() const { return pid_; }
  int end(int signal) {
    int status = 0;
    if (signal != 0) kill(pid_, signal);
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  FILE* output_ = nullptr;
};

class SettingsTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/trainwatt-settings-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base = name;
    knobs = base / "knobs";
    make_file_knobs(knobs);
    setenv("TRAINWATT_RUN_DIR", (base / "run").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TRAINWATT_RUN_DIR");
    fs::remove_all(base);
  }
  std::vector<std::string> command(const std::string& then = "wait") const {
    return {SETTINGS_RUN, knobs.string(), then};
  }
  std::string cpu() const { return file_text(knobs / "cpu_frequency_mhz"); }
  std::string gpu() const { return file_text(knobs / "gpu_clock_mhz"); }
  bool journal() const { return fs::exists(base / "run/settings.json"); }
  void expect_applied() const {
    EXPECT_EQ(cpu(), "1500");
    EXPECT_EQ(gpu(), "900");
    EXPECT_TRUE(journal());
  }
  void expect_put_back() const {
    EXPECT_TRUE(eventually([&] { return !journal(); })) << "the journal stays";
    EXPECT_EQ(cpu(), "2500");
    EXPECT_EQ(gpu(), "reset");
  }
  Settings make_settings() const {
    SettingsOptions options;
    options.find = file_knobs(knobs);
    return Settings(options.find({}), options);
  }
  RestoreSummary restore() const {
    RestoreOptions options;
    options.find = file_knobs(knobs);
    return restore_journals(options);
  }
  /// A run, then its guardian and it killed: nobody is left to put back.
  void leave_behind() {
    Process run(command());
    const pid_t guardian = run.guardian();
    ASSERT_GT(guardian, 0);
    ASSERT_EQ(kill(guardian, SIGKILL), 0);
    run.end(SIGKILL);
    expect_applied();
  }
  fs::path base, knobs;
};

TEST_F(SettingsTest, AppliesObservesAndPutsBack) {
  {
    Settings settings = make_settings();
    EXPECT_FALSE(fs::exists(base / "run"));  // nothing set: no journal, no lock
    EXPECT_TRUE(settings.apply({}).empty());
    EXPECT_FALSE(fs::exists(base / "run"));

    auto applied = settings.apply({{KnobKind::cpu_frequency, 1500}});
    ASSERT_EQ(applied.size(), 1u);
    EXPECT_EQ(applied[0].domain, "cpu");
    EXPECT_EQ(applied[0].requested, 1500);
    EXPECT_EQ(applied[0].accepted, 1500);
    EXPECT_EQ(applied[0].reason, "");
    EXPECT_TRUE(journal());
    ASSERT_EQ(settings.observe().size(), 1u);
    EXPECT_EQ(settings.observe()[0].value, 1490);

    // The next point names another kind: the first goes back to what was found.
    applied = settings.apply({{KnobKind::gpu_clock, 900}});
    ASSERT_EQ(applied.size(), 1u);
    EXPECT_EQ(cpu(), "2500");
    EXPECT_EQ(gpu(), "900");
    settings.apply({{KnobKind::gpu_clock, 1000}, {KnobKind::cpu_frequency, 1600}});
    settings.apply({{KnobKind::cpu_frequency, 1700}});
    EXPECT_EQ(cpu(), "1700");
    EXPECT_EQ(gpu(), "reset");
  }
  expect_put_back();
}

TEST_F(SettingsTest, RestoreAllSaysWhatItDid) {
  Settings settings = make_settings();
  settings.apply({{KnobKind::cpu_frequency, 1500}, {KnobKind::gpu_clock, 900}});
  const auto restored = settings.restore_all();
  ASSERT_EQ(restored.size(), 2u);
  for (const RestoredSetting& setting : restored)
    EXPECT_EQ(setting.outcome, setting.kind == KnobKind::gpu_clock ? Outcome::reset : Outcome::put_back);
  expect_put_back();
  EXPECT_TRUE(settings.restore_all().empty());
  EXPECT_EQ(settings.apply({{KnobKind::cpu_frequency, 1500}})[0].accepted, 1500);  // and may go on
}

TEST_F(SettingsTest, WhatIsNotAppliedIsPutBackAtOnce) {
  write_file_text(knobs / "locked", "");
  Settings settings = make_settings();
  const auto applied = settings.apply({{KnobKind::cpu_frequency, 1500}, {KnobKind::cpu_power_limit, 100}});
  ASSERT_EQ(applied.size(), 2u);
  EXPECT_EQ(applied[0].accepted, std::nullopt);
  EXPECT_EQ(applied[0].reason, "locked");
  EXPECT_EQ(applied[1].reason, "unsupported");  // no such knob among those found
  expect_put_back();
}

TEST_F(SettingsTest, WhatTheDriverClampedIsPutBackAtOnce) {
  write_file_text(knobs / "clamp", "2000");
  Settings settings = make_settings();
  const auto applied = settings.apply({{KnobKind::cpu_frequency, 1500}});
  ASSERT_EQ(applied.size(), 1u);
  EXPECT_EQ(applied[0].accepted, std::nullopt);
  EXPECT_EQ(applied[0].reason, "clamped");
  EXPECT_EQ(applied[0].detail, "another value reads back");
  expect_put_back();
}

// A value that somebody else wrote before is not made ours by a set point that changes nothing.
TEST_F(SettingsTest, AForeignValueIsLeftAlsoWhereOursIsRefused) {
  Settings settings = make_settings();
  settings.apply({{KnobKind::cpu_frequency, 1500}});
  write_file_text(knobs / "cpu_frequency_mhz", "2000");
  write_file_text(knobs / "clamp", "2000");
  const auto applied = settings.apply({{KnobKind::cpu_frequency, 1600}});
  ASSERT_EQ(applied.size(), 1u);
  EXPECT_EQ(applied[0].reason, "clamped");
  EXPECT_NE(applied[0].detail.find("somebody else has set cpu cpu_frequency_mhz = 2000"), std::string::npos)
      << applied[0].detail;
  EXPECT_EQ(cpu(), "2000");
  EXPECT_FALSE(journal());
}

// Killed after the value was clamped, before it was back: the journal must name what read back.
TEST_F(SettingsTest, AClampedValueOfAKilledRunIsPutBackByItsGuardian) {
  write_file_text(knobs / "clamp", "2000");
  write_file_text(knobs / "hold", "");
  Process run(command());
  EXPECT_TRUE(eventually([&] {
    const auto folder = JournalFolder::open(base / "run", false);
    const auto journal = folder ? folder->read() : std::nullopt;
    return journal && std::any_of(journal->entries.begin(), journal->entries.end(), [](const JournalEntry& entry) {
             return entry.attempts.back().refused == KnobState{{"value", "2000"}};
           });
  }));
  EXPECT_EQ(run.end(SIGKILL), 128 + SIGKILL);
  EXPECT_EQ(cpu(), "2000");
  fs::remove(knobs / "hold");
  expect_put_back();
}

// Killed within set(), when the hardware has already made something else of the value: a clamp, or its rounding.
TEST_F(SettingsTest, ARunKilledWhileItSetsIsPutBackByItsGuardian) {
  for (const char* made : {"2000", "1497"}) {
    SCOPED_TRACE(made);
    write_file_text(knobs / "clamp", made);
    write_file_text(knobs / "hold-set", "");
    Process run(command());
    EXPECT_TRUE(eventually([&] { return cpu() == made; }));
    EXPECT_EQ(run.end(SIGKILL), 128 + SIGKILL);
    expect_put_back();
  }
}

// With its guardian killed, too, somebody else may have set the value since: it is put back, and that is said.
TEST_F(SettingsTest, ARunKilledWhileItSetsIsForRestoreWhichNamesTheValue) {
  write_file_text(knobs / "clamp", "2000");
  write_file_text(knobs / "hold-set", "");
  {
    Process run(command("announce"));
    const pid_t guardian = run.guardian();
    EXPECT_TRUE(eventually([&] { return cpu() == "2000"; }));
    ASSERT_EQ(kill(guardian, SIGKILL), 0);
    run.end(SIGKILL);
  }
  ASSERT_TRUE(journal());
  const RestoreSummary summary = restore();
  EXPECT_TRUE(summary.complete());
  ASSERT_EQ(summary.reports.size(), 1u);
  const std::vector<RestoredSetting>& settings = summary.reports[0].settings;
  const auto of_cpu = std::find_if(settings.begin(), settings.end(),
                                   [](const RestoredSetting& one) { return one.kind == KnobKind::cpu_frequency; });
  ASSERT_NE(of_cpu, settings.end());
  EXPECT_EQ(of_cpu->outcome, Outcome::put_back);
  EXPECT_EQ(of_cpu->unread, "value = 2000");
  expect_put_back();
}

/// A device that rounds; set() first looks at the journal that is on disk.
class RoundingKnob : public Knob {
 public:
  RoundingKnob(std::string domain, fs::path folder) : domain_(std::move(domain)), folder_(std::move(folder)) {}
  KnobKind kind() const override { return KnobKind::cpu_power_limit; }
  std::string domain() const override { return domain_; }
  KnobRange range() const override { return {10, 300, {}}; }
  std::optional<double> get() override { return now_; }
  double set(double value) override {
    seen = JournalFolder::open(folder_, false)->read();
    return now_ = std::floor(value);
  }
  std::optional<double> observe() override { return now_; }
  KnobState save() override { return {{"value", std::to_string(now_)}}; }
  bool is_ours(double requested, double accepted) override { return now_ == requested || now_ == accepted; }
  void restore(const KnobState& found) override { now_ = std::stod(found.at("value")); }
  std::optional<Journal> seen;

 private:
  std::string domain_;
  fs::path folder_;
  double now_ = 205;
};

TEST_F(SettingsTest, TheJournalKnowsWhatReadBackAndWhoseTurnItIs) {
  std::vector<KnobFinding> found(2);
  RoundingKnob* knobs[2] = {};
  for (const int i : {0, 1}) {
    auto knob = std::make_unique<RoundingKnob>("rapl:package-" + std::to_string(i), base / "run");
    knobs[i] = knob.get();
    found[i].kind = knob->kind();
    found[i].domain = knob->domain();
    found[i].knob = std::move(knob);
  }
  Settings settings(std::move(found));
  EXPECT_EQ(settings.apply({{KnobKind::cpu_power_limit, 120.5}})[1].accepted, 120);
  const KnobState at_first = {{"value", std::to_string(205.0)}};
  for (const int turn : {0, 1}) {
    ASSERT_TRUE(knobs[turn]->seen);
    ASSERT_EQ(knobs[turn]->seen->entries.size(), 2u);
    for (const int i : {0, 1}) {
      SCOPED_TRACE("device " + std::to_string(i) + " when device " + std::to_string(turn) + " is set");
      const Attempt& attempt = knobs[turn]->seen->entries[static_cast<std::size_t>(i)].attempts.back();
      EXPECT_EQ(attempt.accepted, i < turn ? std::optional(120.0) : std::nullopt);
      EXPECT_EQ(attempt.before, i == turn ? std::optional(at_first) : std::nullopt);
    }
  }
}

TEST_F(SettingsTest, AKnobWithAReasonIsNotTried) {
  SettingsOptions options;
  options.find = file_knobs(knobs);
  auto found = options.find({});
  found[0].reason = "permission";
  found[0].detail = "not yours";
  Settings settings(std::move(found), options);
  const auto applied = settings.apply({{KnobKind::cpu_frequency, 1500}});
  ASSERT_EQ(applied.size(), 1u);
  EXPECT_EQ(applied[0].reason, "permission");
  EXPECT_EQ(applied[0].detail, "not yours");
  EXPECT_EQ(cpu(), "2500");
  EXPECT_FALSE(fs::exists(base / "run"));
}

TEST_F(SettingsTest, NothingIsWrittenWithoutAJournal) {
  Settings settings = make_settings();
  fs::create_directory(base / "elsewhere");
  fs::create_directory_symlink(base / "elsewhere", base / "run");
  EXPECT_THROW(settings.apply({{KnobKind::cpu_frequency, 1500}}), JournalError);
  EXPECT_EQ(cpu(), "2500");
  EXPECT_TRUE(settings.restore_all().empty());
}

TEST_F(SettingsTest, AForeignChangeIsLeft) {
  Settings settings = make_settings();
  settings.apply({{KnobKind::cpu_frequency, 1500}});
  write_file_text(knobs / "cpu_frequency_mhz", "2000");
  const auto restored = settings.restore_all();
  ASSERT_EQ(restored.size(), 1u);
  EXPECT_EQ(restored[0].outcome, Outcome::left);
  EXPECT_NE(restored[0].detail.find("2000"), std::string::npos) << restored[0].detail;
  EXPECT_EQ(cpu(), "2000");
  EXPECT_FALSE(journal());
}

TEST_F(SettingsTest, ARunThatEndsPutsBackAndDismissesItsGuardian) {
  Process run(command("end"));
  const pid_t guardian = run.guardian();
  EXPECT_EQ(run.end(0), 0);
  expect_put_back();
  EXPECT_EQ(kill(guardian, 0), -1);  // it was waited for
}

TEST_F(SettingsTest, ARunThatIsToldToEndPutsBack) {
  Process run(command());
  run.guardian();
  expect_applied();
  EXPECT_EQ(run.end(SIGTERM), 0);
  EXPECT_FALSE(journal());
  expect_put_back();
}

TEST_F(SettingsTest, AKilledRunIsPutBackByItsGuardian) {
  Process run(command());
  const pid_t guardian = run.guardian();
  expect_applied();
  // What a terminal, a scheduler and a batch script send.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) EXPECT_EQ(kill(guardian, signal), 0);
  EXPECT_EQ(run.end(SIGKILL), 128 + SIGKILL);
  expect_put_back();
}

TEST_F(SettingsTest, WithoutItsGuardianARunPutsBackItself) {
  Process run(command());
  ASSERT_EQ(kill(run.guardian(), SIGKILL), 0);
  EXPECT_EQ(run.end(SIGTERM), 0);
  expect_put_back();
}

TEST_F(SettingsTest, BothKilledIsForRestore) {
  leave_behind();
  const RestoreSummary summary = restore();
  EXPECT_TRUE(summary.complete());
  ASSERT_EQ(summary.reports.size(), 1u);
  EXPECT_EQ(summary.reports[0].owner.program, "settings_run");
  expect_put_back();
}

TEST_F(SettingsTest, BothKilledIsForTheNextRun) {
  leave_behind();
  Settings settings = make_settings();
  expect_put_back();
  ASSERT_EQ(settings.recovered().reports.size(), 1u);
  EXPECT_TRUE(settings.recovered().complete());
}

TEST_F(SettingsTest, RestoreLeavesWhatSomebodyElseHasChanged) {
  leave_behind();
  write_file_text(knobs / "cpu_frequency_mhz", "2000");
  const RestoreSummary summary = restore();
  ASSERT_EQ(summary.reports.size(), 1u);
  ASSERT_EQ(summary.reports[0].settings.size(), 2u);
  for (const RestoredSetting& setting : summary.reports[0].settings)
    EXPECT_EQ(setting.outcome, setting.kind == KnobKind::gpu_clock ? Outcome::reset : Outcome::left);
  EXPECT_EQ(cpu(), "2000");
  EXPECT_EQ(gpu(), "reset");
  EXPECT_FALSE(journal());
}

TEST_F(SettingsTest, TwoRunsDoNotHoldSettingsAtOnce) {
  Process run(command());
  run.guardian();
  Settings settings = make_settings();
  ASSERT_EQ(settings.recovered().problems.size(), 1u);
  const std::string who = "settings_run, process " + std::to_string(run.pid());
  EXPECT_NE(settings.recovered().problems[0].find(who), std::string::npos) << settings.recovered().problems[0];
  try {
    settings.apply({{KnobKind::cpu_frequency, 1200}});
    FAIL() << "two runs hold settings";
  } catch (const SettingsHeld& error) {
    EXPECT_NE(std::string(error.what()).find(who), std::string::npos) << error.what();
  }
  Process third(command());
  EXPECT_NE(third.line().find(who), std::string::npos);
  EXPECT_EQ(third.end(0), 3);
  EXPECT_FALSE(restore().complete());
  expect_applied();
  // An epilog overrules.
  RestoreOptions all;
  all.find = file_knobs(knobs);
  all.even_if_held = true;
  EXPECT_TRUE(restore_journals(all).complete());
  expect_put_back();
  EXPECT_EQ(run.end(SIGTERM), 0);
  expect_put_back();
}

// A rank that alone can address a device journals beside the node's folder: a run that addresses all does not take it.
TEST_F(SettingsTest, ADeviceThatAnotherFolderHoldsIsNotTaken) {
  auto rank = JournalFolder::open(journal_folder_of_rank(3), true);
  ASSERT_TRUE(rank->lock({}));
  rank->write({boot_id(), this_process(), {}, {{KnobKind::gpu_clock, "nvml:GPU-0", {}, {{900, 900}}}}});
  write_file_text(knobs / "gpu_clock_mhz", "900");
  Settings settings = make_settings();
  const auto expect_held = [&](const std::map<KnobKind, double>& wanted) {
    try {
      settings.apply(wanted);
      ADD_FAILURE() << "two runs hold one device";
    } catch (const SettingsHeld& error) {
      EXPECT_NE(std::string(error.what()).find("run-rank3: settings are held by"), std::string::npos) << error.what();
    }
    EXPECT_EQ(gpu(), "900");
  };
  expect_held({{KnobKind::gpu_clock, 1200}});
  EXPECT_FALSE(journal());
  // What the other does not hold may be set, and stays where a later point wants too much.
  EXPECT_EQ(settings.apply({{KnobKind::cpu_frequency, 1500}}).at(0).accepted, 1500);
  expect_held({{KnobKind::cpu_frequency, 1600}, {KnobKind::gpu_clock, 1200}});
  EXPECT_EQ(cpu(), "1500");
  settings.restore_all();
  expect_held({{KnobKind::gpu_clock, 1200}});
  EXPECT_EQ(cpu(), "2500");
}

// What such a rank has left when it was killed is not taken for what was found.
TEST_F(SettingsTest, WhatADeadRunHasLeftInAnotherFolderIsPutBackFirst) {
  auto rank = JournalFolder::open(journal_folder_of_rank(3), true);
  ASSERT_TRUE(rank->lock({}));
  rank->write({boot_id(), this_process(), {}, {{KnobKind::cpu_frequency, "cpu", {{"value", "2500"}}, {{1500, 1500}}}}});
  write_file_text(knobs / "cpu_frequency_mhz", "1500");
  Settings settings = make_settings();
  rank.reset();
  EXPECT_EQ(settings.apply({{KnobKind::cpu_frequency, 1600}}).at(0).accepted, 1600);
  settings.restore_all();
  expect_put_back();
}

TEST_F(SettingsTest, TheGuardianHoldsNothingOfTheRun) {
  Process run(command());
  const std::string proc = "/proc/" + std::to_string(run.guardian());
  EXPECT_EQ(file_text(proc + "/comm"), "tw-guardian");
  int files = 0;
  for (const auto& entry : fs::directory_iterator(proc + "/fd")) {
    ++files;
    const std::string target = fs::read_symlink(entry.path()).string();
    EXPECT_EQ(target.rfind(entry.path().filename() == "3" ? "socket:" : "/dev/null", 0), 0u)
        << entry.path() << " " << target;
  }
  EXPECT_EQ(files, 4);
  EXPECT_EQ(fs::read_symlink(proc + "/cwd"), "/");
  std::ifstream stat(proc + "/stat");
  std::string skipped;
  int parent = 0, group = 0, session = 0;
  stat >> skipped >> skipped >> skipped >> parent >> group >> session;
  EXPECT_EQ(parent, run.pid());
  EXPECT_NE(session, getsid(0));
  EXPECT_EQ(run.end(SIGTERM), 0);
}

// A guardian that is at work must not keep the run's output open: this one is kept at work until the file goes.
TEST_F(SettingsTest, OutputEndsWithTheRunNotWithItsGuardian) {
  write_file_text(knobs / "hold", "");
  Process run(command("die"));
  run.guardian();
  EXPECT_EQ(run.line(), "");  // the end of the output; else this waits until the test's limit
  EXPECT_EQ(run.end(0), 128 + SIGKILL);
  EXPECT_TRUE(journal());
  fs::remove(knobs / "hold");
  expect_put_back();
}

#ifdef MPIRUN
TEST_F(SettingsTest, MpirunEndsWithItsRanksNotWithTheirGuardians) {
  write_file_text(knobs / "hold", "");
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  Process run({MPIRUN, "--oversubscribe", "-np", "1", SETTINGS_RUN, knobs.string(), "die"});
  run.guardian();
  EXPECT_NE(run.end(0), 0);  // returns while the guardian is at work
  EXPECT_TRUE(journal());
  fs::remove(knobs / "hold");
  expect_put_back();
}

#endif

TEST(Guardian, KnowsWhetherItLives) {
  Guardian guardian;
  EXPECT_TRUE(guardian.alive());
  kill(guardian.pid(), SIGKILL);
  EXPECT_TRUE(eventually([&] { return !guardian.alive(); }));
  guardian.dismiss();
}

}  // namespace
}  // namespace tw
