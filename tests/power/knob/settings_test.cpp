// Settings, their journal and their guardian, over runs that end well, are told to end, and are killed.
#include <sys/file.h>

#include <algorithm>
#include <fstream>

#include "power/knob/guardian.hpp"
#include "tests/power/knob/settings_fixture.hpp"

namespace tw {

using namespace power;

namespace {

namespace fs = std::filesystem;
using Outcome = RestoredSetting::Outcome;

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

// What somebody else sets between two points is told, and is what is put back in the end.
TEST_F(SettingsTest, AForeignChangeBetweenTwoPointsIsLeftOrPutBackAndTold) {
  Settings settings = make_settings();
  settings.apply({{KnobKind::cpu_frequency, 1500}});
  write_file_text(knobs / "cpu_frequency_mhz", "2000");
  // A point that leaves the knob as it is.
  auto applied = settings.apply({{KnobKind::gpu_clock, 900}});
  ASSERT_EQ(applied.size(), 2u);
  EXPECT_EQ(applied[0].accepted, 900);
  EXPECT_EQ(applied[1].kind, KnobKind::cpu_frequency);
  EXPECT_EQ(applied[1].reason, "left");
  EXPECT_EQ(applied[1].detail, "cpu cpu_frequency_mhz = 2000");
  EXPECT_EQ(cpu(), "2000");
  // One that sets another value over it.
  settings.apply({{KnobKind::cpu_frequency, 1500}});
  write_file_text(knobs / "cpu_frequency_mhz", "2200");
  applied = settings.apply({{KnobKind::cpu_frequency, 1600}});
  ASSERT_EQ(applied.size(), 1u);
  EXPECT_EQ(applied[0].accepted, 1600);
  EXPECT_EQ(applied[0].foreign, "value = 2200");
  const auto entries = JournalFolder::open(base / "run", false)->read()->entries;
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].found, (KnobState{{"value", "2200"}})) << "a guardian is to know it, too";
  // Nobody has changed anything since: nothing is told.
  EXPECT_EQ(settings.apply({{KnobKind::cpu_frequency, 1700}}).at(0).foreign, "");
  const auto restored = settings.restore_all();
  ASSERT_EQ(restored.size(), 1u);
  EXPECT_EQ(restored[0].outcome, Outcome::put_back);
  EXPECT_EQ(cpu(), "2200");
}

TEST_F(SettingsTest, WhatAnotherHasPutBackAlreadyIsNothingForeign) {
  Settings settings = make_settings();
  settings.apply({{KnobKind::cpu_frequency, 1500}});
  write_file_text(knobs / "cpu_frequency_mhz", "2500");
  EXPECT_EQ(settings.apply({{KnobKind::cpu_frequency, 1600}}).at(0).foreign, "");
  settings.restore_all();
  EXPECT_EQ(cpu(), "2500");
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

/// Somebody who puts back what a dead run left, and has the lock a while before its file names anybody else. Works from
/// its making on.
class SlowRestorer {
 public:
  SlowRestorer(const fs::path& folder, KnobFinder find) {
    lock_ = open((folder / "lock").c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_EQ(flock(lock_, LOCK_EX | LOCK_NB), 0);
    thread_ = std::thread([this, folder, find = std::move(find)] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::string text = R"({"pid": 1, "start_time": 1, "uid": 0, "program": "restorer"})";
      EXPECT_EQ(ftruncate(lock_, 0), 0);
      EXPECT_EQ(pwrite(lock_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
      restore_from(*JournalFolder::open(folder, false), find);
      close(lock_);
    });
  }
  ~SlowRestorer() { thread_.join(); }

 private:
  int lock_ = -1;
  std::thread thread_;
};

TEST_F(SettingsTest, ADeadRunIsNotSaidToLiveWhileAnotherPutsBackWhatItLeft) {
  leave_behind();
  {
    const SlowRestorer other(base / "run", file_knobs(knobs));
    const RestoreSummary summary = restore();
    EXPECT_TRUE(summary.problems.empty()) << summary.problems.front();
  }
  expect_put_back();
  // Nor is a run refused that wants to set. What was there when it began was put back then, so that it finds it later.
  Settings settings = make_settings();
  leave_behind();
  {
    const SlowRestorer other(base / "run", file_knobs(knobs));
    EXPECT_EQ(settings.apply({{KnobKind::cpu_frequency, 1600}}).at(0).accepted, 1600);
  }
  settings.restore_all();
  expect_put_back();
}

// However long another process has the lock, the dead run's guardian is there when it lets go.
TEST_F(SettingsTest, TheGuardianOutlastsALock) {
  Process run(command("hasty"));
  const pid_t guardian = run.guardian();
  ASSERT_GT(guardian, 0);
  const int stopped = kill(guardian, SIGSTOP);  // until the lock is in other hands
  ASSERT_EQ(stopped, 0);
  EXPECT_EQ(run.end(SIGKILL), 128 + SIGKILL);
  const int lock = open((base / "run/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX | LOCK_NB), 0);
  kill(guardian, SIGCONT);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // many times its patience
  expect_applied();
  close(lock);
  expect_put_back();
}

// What apply() would be refused is known before anything is measured.
TEST_F(SettingsTest, ADoorInOtherHandsIsSeenAtTheStart) {
  auto other = JournalFolder::open(journal_folder(), true);
  ASSERT_TRUE(other->close_door({}));
  SettingsOptions options;
  options.find = file_knobs(knobs);
  options.wait = std::chrono::milliseconds(20);
  Settings settings(options.find({}), options);
  EXPECT_THROW(settings.check_journal({KnobKind::cpu_frequency}), SettingsHeld);
  other.reset();
  settings.check_journal({KnobKind::cpu_frequency});
  EXPECT_FALSE(journal());
}

TEST_F(SettingsTest, ThatWhichCannotBePutBackIsNamed) {
  Settings settings = make_settings();
  leave_behind();
  // The GPU's, which comes first, can be; the CPU's cannot.
  const auto folder = JournalFolder::open(base / "run", false);
  Journal journal = *folder->read();
  std::reverse(journal.entries.begin(), journal.entries.end());  // the last is the first to be put back
  ASSERT_EQ(journal.entries.back().kind, KnobKind::gpu_clock);
  for (JournalEntry& entry : journal.entries)
    if (entry.kind == KnobKind::cpu_frequency) entry.found = {{"value", "9999"}};
  folder->write(journal);
  try {
    settings.apply({{KnobKind::cpu_frequency, 1600}});
    FAIL() << "9999 is none of its values";
  } catch (const JournalError& error) {
    EXPECT_NE(std::string(error.what()).find("cpu_frequency_mhz of cpu: not a saved state of ours"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(gpu(), "reset");
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
    EXPECT_EQ(error.what(), settings.recovered().held.at(0) + "; wait until it ends, or leave all settings as found");
    EXPECT_NE(std::string(error.what()).find(who + " of user "), std::string::npos) << error.what();
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
  const RestoreSummary overruled = restore_journals(all);
  EXPECT_TRUE(overruled.complete());
  ASSERT_EQ(overruled.reports.size(), 1u);
  EXPECT_TRUE(overruled.reports[0].overruled);
  expect_put_back();
  EXPECT_EQ(run.end(SIGTERM), 0);
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
  Process run({MPIRUN, "-np", "1", SETTINGS_RUN, knobs.string(), "die"});
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
