// The journal and its folder: what is written comes back, and what is not ours is not trusted.
#include "power/knob/journal.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/power/knob/journal_fixture.hpp"

namespace tw {

using namespace power;

namespace {

namespace fs = std::filesystem;

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

TEST_F(JournalTest, AnyPathComesBack) {
  auto folder = JournalFolder::open(path, true);
  const fs::path site = "/s\xe9te/\xff.json";  // no UTF-8, which JSON would be
  folder->write({boot_id(), this_process(), site, {}});
  EXPECT_EQ(folder->read()->site, site);
}

TEST_F(JournalTest, AFolderThatCannotBeMadeIsExplained) {
  try {
    JournalFolder::open(base / "no/such", true);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("no/such: the journal of settings cannot be written here: set TRAINWATT"),
              std::string::npos)
        << error.what();
    EXPECT_EQ(error.code().value(), ENOENT);
  }
  EXPECT_FALSE(JournalFolder::open(base / "no/such", false));
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

// kexec is a boot of its own, and leaves RAPL's registers as they are.
TEST_F(JournalTest, APowerCapOfAnotherBootIsPutBackWhereItIsStillOurs) {
  const fs::path cap = base / "knobs/cpu_power_limit_w";
  const auto leave = [&](const std::string& domain) {
    leave_behind("another boot");
    auto folder = JournalFolder::open(path, true);
    Journal journal = *folder->read();
    journal.entries.push_back({KnobKind::cpu_power_limit, domain, {{"value", "200"}}, {{150, 150}}});
    folder->write(journal);
  };
  write_file_text(cap, "150");
  leave("rapl:package-0");
  RestoreSummary summary = restore();
  ASSERT_EQ(summary.reports.size(), 1u);
  EXPECT_FALSE(summary.reports[0].discarded);
  ASSERT_EQ(summary.reports[0].settings.size(), 1u) << "clocks are the new kernel's";
  EXPECT_EQ(summary.reports[0].settings[0].outcome, RestoredSetting::Outcome::put_back);
  EXPECT_EQ(file_text(cap), "200");
  expect_values("1500", "900");
  write_file_text(cap, "180");  // the firmware's, after a reboot
  leave("rapl:package-0");
  summary = restore();
  EXPECT_TRUE(summary.complete());
  EXPECT_EQ(file_text(cap), "180");
  EXPECT_TRUE(restore().reports.empty());
  leave("rapl:package-9");
  EXPECT_TRUE(restore().complete()) << "a package that is gone is nobody's any more";
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

// Whoever may open a lock, if only to read, may hold it.
TEST_F(JournalTest, NobodyElseCanOpenTheLocks) {
  auto folder = JournalFolder::open(path, true);
  std::ofstream(path / "lock") << "";  // an earlier version's
  chmod((path / "lock").c_str(), 0644);
  ASSERT_TRUE(folder->lock({}));
  ASSERT_TRUE(folder->close_door({}));
  for (const char* file : {"lock", "door"}) {
    struct stat status {};
    ASSERT_EQ(stat((path / file).c_str(), &status), 0) << file;
    EXPECT_EQ(status.st_mode & 0777, 0600u) << file;
  }
  const int other = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  auto second = JournalFolder::open(path, true);
  folder.reset();
  ASSERT_EQ(flock(other, LOCK_SH | LOCK_NB), 0);
  EXPECT_TRUE(second->close_door({})) << "a lock of the folder itself is nobody's";
  close(other);
}

TEST_F(JournalTest, ALockThatIsALinkIsExplained) {
  leave_behind();
  fs::create_symlink(base / "elsewhere", path / "lock");
  expect_refused("lock is a symbolic link, so it is not trusted: remove it");
}

TEST_F(JournalTest, NoPipeIsWaitedFor) {
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  make_file_knobs(base / "knobs");
  for (const char* file : {"settings.json", "lock"}) {
    ASSERT_EQ(mkfifo((path / file).c_str(), 0600), 0);
    auto folder = JournalFolder::open(path, false);
    if (std::string(file) == "lock")
      EXPECT_FALSE(folder->lock_owner());
    else
      EXPECT_THROW(folder->read(), JournalError);
    fs::remove(path / file);
  }
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
  expect_refused("has another hard link");
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
  expect_refused("is not a folder");
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
  expect_refused("or name another folder in TRAINWATT_RUN_DIR");  // in /tmp nobody else can remove it
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
