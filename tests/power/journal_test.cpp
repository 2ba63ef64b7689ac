// The journal and its folder: what is written comes back, and what is not ours is not trusted.
#include "power/journal.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "power/restore.hpp"
#include "tests/power/file_knob.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;

class JournalTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/trainwatt-journal-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    base = name;
    path = base / "run";
    make_file_knobs(base / "knobs");
  }
  void TearDown() override { fs::remove_all(base); }

  /// A journal of a dead run, and its settings in force.
  void leave_behind(const std::string& of_boot = boot_id()) {
    auto folder = JournalFolder::open(path, true);
    Owner dead = this_process();
    dead.start_time += 1;
    folder->write({of_boot,
                   dead,
                   {},
                   {{KnobKind::cpu_frequency, "cpu", {{"value", "2500"}}, {{1500, 1500}}},
                    {KnobKind::gpu_clock, "nvml:GPU-0", {}, {{900, std::nullopt}}}}});
    write_file_text(base / "knobs/cpu_frequency_mhz", "1500");
    write_file_text(base / "knobs/gpu_clock_mhz", "900");
  }
  RestoreSummary restore() const {
    RestoreOptions options;
    options.folders = {path};
    options.find = file_knobs(base / "knobs");
    return restore_journals(options);
  }
  void expect_values(const char* cpu, const char* gpu) const {
    EXPECT_EQ(file_text(base / "knobs/cpu_frequency_mhz"), cpu);
    EXPECT_EQ(file_text(base / "knobs/gpu_clock_mhz"), gpu);
  }
  void expect_refused(const std::string& why) const {
    const RestoreSummary summary = restore();
    ASSERT_EQ(summary.problems.size(), 1u);
    EXPECT_NE(summary.problems[0].find(why), std::string::npos) << summary.problems[0];
    EXPECT_TRUE(summary.reports.empty());
    expect_values("1500", "900");
  }
  fs::path base, path;
};

TEST_F(JournalTest, ComesBackAsItWasWritten) {
  auto folder = JournalFolder::open(path, true);
  EXPECT_FALSE(folder->read());
  const Journal written{boot_id(),
                        this_process(),
                        "/site.json",
                        {{KnobKind::gpu_power_limit,
                          "nvml:GPU-1",
                          {{"limit_mw", "400000"}},
                          {{300.1, 300}, {250, {}, {{"limit_mw", "260000"}}}, {240, {}, {}, KnobState{}}}}}};
  folder->write(written);
  folder->write(written);  // over the first
  const auto read = folder->read();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->boot_id, written.boot_id);
  EXPECT_TRUE(read->owner == written.owner);
  EXPECT_EQ(read->owner.program, written.owner.program);
  EXPECT_EQ(read->owner.uid, geteuid());
  EXPECT_EQ(read->site, written.site);
  ASSERT_EQ(read->entries.size(), 1u);
  EXPECT_EQ(read->entries[0].kind, KnobKind::gpu_power_limit);
  EXPECT_EQ(read->entries[0].domain, "nvml:GPU-1");
  EXPECT_EQ(read->entries[0].found, written.entries[0].found);
  ASSERT_EQ(read->entries[0].attempts.size(), 3u);
  EXPECT_EQ(read->entries[0].attempts[0].requested, 300.1);
  EXPECT_EQ(read->entries[0].attempts[0].accepted, 300);
  EXPECT_EQ(read->entries[0].attempts[1].accepted, std::nullopt);
  EXPECT_EQ(read->entries[0].attempts[1].refused, (KnobState{{"limit_mw", "260000"}}));
  EXPECT_EQ(read->entries[0].attempts[1].before, std::nullopt);
  EXPECT_TRUE(read->entries[0].attempts[2].before);
  EXPECT_EQ(std::distance(fs::directory_iterator(path), {}), 1);  // no temporary stays
  folder->remove();
  EXPECT_FALSE(folder->read());
}

TEST_F(JournalTest, ADeadRunsSettingsArePutBack) {
  leave_behind();
  const RestoreSummary summary = restore();
  ASSERT_EQ(summary.reports.size(), 1u);
  EXPECT_TRUE(summary.complete());
  using Outcome = RestoredSetting::Outcome;
  ASSERT_EQ(summary.reports[0].settings.size(), 2u);
  EXPECT_EQ(summary.reports[0].settings[0].outcome, Outcome::reset);  // last applied first
  EXPECT_EQ(summary.reports[0].settings[1].outcome, Outcome::put_back);
  expect_values("2500", "reset");
  EXPECT_TRUE(restore().reports.empty());
}

TEST_F(JournalTest, AnotherBootsJournalIsDiscarded) {
  leave_behind("another boot");
  const RestoreSummary summary = restore();
  ASSERT_EQ(summary.reports.size(), 1u);
  EXPECT_TRUE(summary.reports[0].discarded);
  expect_values("1500", "900");
  EXPECT_TRUE(restore().reports.empty());
}

TEST_F(JournalTest, WhatFailsStaysInTheJournal) {
  leave_behind();
  auto folder = JournalFolder::open(path, false);
  Journal journal = *folder->read();
  journal.entries[0].found["value"] = "9999";  // no such frequency
  journal.entries.push_back({KnobKind::gpu_clock, "nvml:GPU-gone", {}, {{900, 900}}});
  folder->write(journal);
  const RestoreSummary summary = restore();
  EXPECT_FALSE(summary.complete());
  ASSERT_EQ(summary.reports.size(), 1u);
  using Outcome = RestoredSetting::Outcome;
  const Outcome outcomes[] = {Outcome::absent, Outcome::reset, Outcome::failed};  // last applied first
  ASSERT_EQ(summary.reports[0].settings.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(summary.reports[0].settings[i].outcome, outcomes[i]) << i;
  expect_values("1500", "reset");
  ASSERT_TRUE(folder->read());
  ASSERT_EQ(folder->read()->entries.size(), 2u);
  EXPECT_EQ(folder->read()->entries[0].domain, "cpu");
  EXPECT_EQ(folder->read()->entries[1].domain, "nvml:GPU-gone");
}

TEST_F(JournalTest, OneLockForAFolder) {
  auto first = JournalFolder::open(path, true), second = JournalFolder::open(path, true);
  ASSERT_TRUE(first->lock({}));
  EXPECT_FALSE(second->lock({}));
  EXPECT_TRUE(second->lock_owner() == this_process());
  first.reset();
  EXPECT_TRUE(second->lock({}));
}

TEST_F(JournalTest, TheDoorIsALockOfItsOwn) {
  auto first = JournalFolder::open(path, true), second = JournalFolder::open(path, true);
  ASSERT_TRUE(first->lock({}));
  ASSERT_TRUE(second->close_door({}));
  EXPECT_FALSE(first->close_door({}));
  second.reset();
  EXPECT_TRUE(first->close_door({}));
}

TEST_F(JournalTest, NothingThereIsNoProblem) {
  const RestoreSummary summary = restore();
  EXPECT_TRUE(summary.complete());
  EXPECT_TRUE(summary.reports.empty());
  EXPECT_FALSE(fs::exists(path));  // looking makes no folder
}

TEST_F(JournalTest, DoesNotTrustWhatOthersMayWrite) {
  leave_behind();
  chmod((path / "settings.json").c_str(), 0622);
  expect_refused("may be written by others");
  chmod((path / "settings.json").c_str(), 0600);
  chmod(path.c_str(), 0777);
  expect_refused("may be written by others");
  chmod(path.c_str(), 0700);
  fs::create_hard_link(path / "settings.json", base / "second");
  expect_refused("has a second name");
  fs::remove(base / "second");
  EXPECT_EQ(restore().reports.size(), 1u);
}

TEST_F(JournalTest, FollowsNoSymbolicLink) {
  leave_behind();
  fs::rename(path / "settings.json", base / "elsewhere");
  fs::create_symlink(base / "elsewhere", path / "settings.json");
  expect_refused("is a symbolic link");
  fs::remove(path / "settings.json");
  fs::rename(base / "elsewhere", path / "settings.json");
  fs::rename(path, base / "real");
  fs::create_directory_symlink(base / "real", path);
  expect_refused("is no folder");
  EXPECT_THROW(JournalFolder::open(path, true), JournalError);
}

TEST_F(JournalTest, RootReplaysNobodyElsesJournal) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
  leave_behind();
  ASSERT_EQ(chown((path / "settings.json").c_str(), 65534, 65534), 0);
  expect_refused("belongs to another user");
  ASSERT_EQ(chown((path / "settings.json").c_str(), 0, 0), 0);
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  expect_refused("belongs to another user");
  ASSERT_EQ(chown(path.c_str(), 0, 0), 0);
  EXPECT_EQ(restore().reports.size(), 1u);
}

TEST_F(JournalTest, ADamagedJournalIsKeptAndNamed) {
  leave_behind();
  for (const char* text : {"", "{", "{\"schema_version\": 1}", "[1, 2]"}) {
    std::ofstream(path / "settings.json") << text;
    expect_refused("is damaged");
  }
  std::ofstream(path / "settings.json") << "{\"schema_version\": 99}";
  expect_refused("another version");
  EXPECT_TRUE(fs::exists(path / "settings.json"));
}

TEST_F(JournalTest, FolderComesFromTheEnvironment) {
  const std::string user = std::to_string(geteuid());
  ASSERT_EQ(setenv("TRAINWATT_RUN_DIR", path.c_str(), 1), 0);
  EXPECT_EQ(journal_folder(), path);
  EXPECT_EQ(journal_folders().size(), 1u);
  unsetenv("TRAINWATT_RUN_DIR");
  if (geteuid() == 0) {
    EXPECT_EQ(journal_folder(), "/run/trainwatt");
  } else {
    setenv("XDG_RUNTIME_DIR", base.c_str(), 1);
    EXPECT_EQ(journal_folder(), base / "trainwatt");
    unsetenv("XDG_RUNTIME_DIR");
    EXPECT_EQ(journal_folder(), "/tmp/trainwatt-" + user);
  }
}

}  // namespace
}  // namespace tw
