// What is told of journals: whose they are, whether their runs live, and what nobody is told of.
#include "power/knob/in_force.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "tests/power/knob/journal_fixture.hpp"

namespace tw {

using namespace power;

namespace {

namespace fs = std::filesystem;

TEST_F(JournalTest, WhatOthersHoldIsTold) {
  leave_behind();
  setenv("TRAINWATT_RUN_DIR", path.c_str(), 1);
  const auto dead = settings_in_force();
  ASSERT_FALSE(dead.empty());
  EXPECT_EQ(dead[0].folder, path);
  EXPECT_TRUE(dead[0].ours);
  EXPECT_EQ(dead[0].life, Life::dead);
  EXPECT_NE(describe(dead[0]).find(": cpu_frequency_mhz 1500 of cpu, gpu_clock_mhz 900 of nvml:GPU-0, left by "),
            std::string::npos)
      << describe(dead[0]);
  const auto tells = [&](bool with_ours) {
    const std::vector<std::string> lines = warnings_in_force("node", with_ours);
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(path.string()) != std::string::npos; });
  };
  EXPECT_FALSE(tells(true)) << "restoring is what speaks of those";
  // Of a living run: told by its process, or by its lock where that cannot be seen.
  auto folder = JournalFolder::open(path, true);
  ASSERT_TRUE(folder->lock({}));
  EXPECT_EQ(settings_in_force().at(0).life, Life::dead) << "whoever has the lock";
  leave_behind(boot_id(), "pid:[1]");
  EXPECT_EQ(settings_in_force().at(0).life, Life::living);
  EXPECT_TRUE(tells(true));
  EXPECT_FALSE(tells(false));
  folder.reset();
  EXPECT_EQ(settings_in_force().at(0).life, Life::dead);
  EXPECT_EQ(life_of(this_process()), Life::living);
  // Whoever may read it is told of it, as a command that is measured under root's settings.
  struct stat status {};
  ASSERT_EQ(stat((path / "settings.json").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, geteuid() == 0 ? 0644u : 0600u);
  write_file_text(path / "settings.json", "{");
  EXPECT_NE(describe(settings_in_force().at(0)).find(": journal unreadable: "), std::string::npos);
  EXPECT_NE(glance_at_journal(path).unreadable.find("is damaged"), std::string::npos);
  fs::remove(path / "settings.json");
  ASSERT_EQ(mkfifo((path / "settings.json").c_str(), 0600), 0);
  EXPECT_NE(glance_at_journal(path).unreadable.find("not a regular file"), std::string::npos) << "and waits for nobody";
  unsetenv("TRAINWATT_RUN_DIR");
}

TEST_F(JournalTest, TheDeadAreKnown) {
  const Owner self = this_process();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
  std::string field;
  for (int i = 0; i < 22; ++i) stat >> field;  // the 22nd: this test's name has no blank
  Owner zombie = self;
  zombie.pid = child, zombie.start_time = std::stoull(field);
  EXPECT_EQ(life_of(zombie), Life::dead);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(life_of(zombie), Life::dead);
  zombie.pid_namespace = "pid:[1]";
  EXPECT_EQ(life_of(zombie), Life::unknown);
  zombie.pid_namespace.clear();  // an earlier version's
  EXPECT_EQ(life_of(zombie), Life::unknown);
}

// Somebody holds the lock of a dead run's folder: neither do both warnings go, nor is the run said to live.
TEST_F(JournalTest, ALockInOtherHandsHidesNothing) {
  leave_behind();
  setenv("TRAINWATT_RUN_DIR", path.c_str(), 1);
  const Journal journal = *JournalFolder::open(path, false)->read();
  std::ofstream(path / "lock") << "{\"pid\": " << journal.owner.pid << ", \"start_time\": " << journal.owner.start_time
                               << ", \"uid\": 0, \"program\": \"run\", \"pid_namespace\": \""
                               << journal.owner.pid_namespace << "\"}";
  chmod((path / "lock").c_str(), 0600);
  const int lock = open((path / "lock").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_SH | LOCK_NB), 0);
  auto folder = JournalFolder::open(path, false);
  EXPECT_FALSE(is_held_by_a_run(*folder));
  RestoreOptions options;
  options.folders = {path};
  options.wait = {};
  const RestoreSummary summary = restore_journals(options);
  ASSERT_EQ(summary.problems.size(), 1u);
  EXPECT_TRUE(summary.held.empty());
  EXPECT_EQ(summary.locked.size(), 1u);
  EXPECT_EQ(summary.problems[0].find("still runs"), std::string::npos) << summary.problems[0];
  EXPECT_NE(summary.problems[0].find("`fuser " + (path / "lock").string()), std::string::npos) << summary.problems[0];
  close(lock);
  unsetenv("TRAINWATT_RUN_DIR");
}

TEST_F(JournalTest, ManyValuesAndLongNamesAreCut) {
  Journal journal{boot_id(), this_process(), {}, {}};
  for (int i = 0; i < 100'000; ++i)
    journal.entries.push_back({KnobKind::gpu_clock, std::string(1000, 'x'), {}, {{300.0 + i, 300.0 + i}}});
  const std::string text = values_of(journal);
  EXPECT_LT(text.size(), 4000u);
  EXPECT_NE(text.find(", and 99980 more"), std::string::npos) << text;
  journal.owner.program = std::string(1000, 'x');
  EXPECT_LT(describe(journal.owner).size(), 200u);
}

/// Folders in /tmp with names of ours, of users who are not there.
class OthersJournals : public JournalTest {
 protected:
  static constexpr uid_t somebody = 999'999'001, nobody = 999'999'002;
  /// A /tmp of this process's own, where it may have one: what is there for a moment is in no other program's report.
  static void SetUpTestSuite() {
    if (geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0)
      (void)!mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777");
  }
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to give files away";
    JournalTest::SetUp();
    remove_all();
  }
  void TearDown() override {
    if (geteuid() != 0) return;
    remove_all();
    JournalTest::TearDown();
  }
  static fs::path folder_of(uid_t user, const std::string& rank = "") {
    return "/tmp/trainwatt-" + std::to_string(user) + rank;
  }
  static void remove_all() {
    for (const auto& entry : fs::directory_iterator("/tmp"))
      if (entry.path().filename().string().starts_with("trainwatt-999999")) fs::remove_all(entry.path());
  }
  /// A journal in `place` that says it is of `claims`; the folder is `of_folder`'s, the file `of_file`'s.
  void leave(const fs::path& place, uid_t claims, uid_t of_folder, uid_t of_file, const std::string& domain = "cpu",
             const std::string& of_boot = boot_id(), KnobKind kind = KnobKind::cpu_frequency) const {
    const auto folder = JournalFolder::open(place, true);
    Owner owner = this_process();
    owner.start_time += 1, owner.uid = claims;
    folder->write({of_boot, owner, {}, {{kind, domain, {{"value", "2500"}}, {{1500, 1500}}}}});
    ASSERT_EQ(chown((place / "settings.json").c_str(), of_file, 0), 0);
    ASSERT_EQ(chown(place.c_str(), of_folder, 0), 0);
  }
  static std::vector<SettingsInForce> seen() {
    std::vector<SettingsInForce> all = settings_in_force();
    std::erase_if(all, [](const SettingsInForce& one) {
      return one.unreadable.find("more trainwatt folders") == std::string::npos &&
             one.folder.string().find("/tmp/trainwatt-999999") != 0;
    });
    return all;
  }
};

TEST_F(OthersJournals, OnlyWhatIsTheirsIsTold) {
  leave(folder_of(somebody), somebody, somebody, somebody);
  ASSERT_EQ(seen().size(), 1u);
  EXPECT_FALSE(seen()[0].ours);
  EXPECT_EQ(seen()[0].journal.owner.uid, somebody);
  remove_all();
  leave(folder_of(somebody), 0, somebody, somebody);  // root's, it says
  leave(folder_of(nobody), nobody, somebody, nobody);
  leave(folder_of(nobody, "-rank1"), nobody, nobody, somebody);
  EXPECT_TRUE(seen().empty()) << describe(seen()[0]);
}

TEST_F(OthersJournals, LargeOnesAreNotRead) {
  leave(folder_of(somebody), somebody, somebody, somebody, std::string(100'000, 'x'));
  ASSERT_EQ(seen().size(), 1u);
  EXPECT_NE(seen()[0].unreadable.find("settings.json is larger than 64 KiB"), std::string::npos)
      << seen()[0].unreadable;
  EXPECT_LT(describe(seen()[0]).size(), 300u);
  const std::vector<std::string> lines = warnings_in_force("node", true);
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find("perhaps under settings of another user: node: /tmp/trainwatt-999999001: journal unreadable: ") ==
           0;
  }));
}

TEST_F(OthersJournals, ACapFromBeforeAKexecIsTold) {
  leave(folder_of(somebody), somebody, somebody, somebody, "cpu", "another boot");
  leave(folder_of(nobody), nobody, nobody, nobody, "rapl:package-0", "another boot", KnobKind::cpu_power_limit);
  ASSERT_EQ(seen().size(), 1u) << "clocks are the new kernel's";
  EXPECT_TRUE(seen()[0].earlier_boot);
  const std::vector<std::string> lines = warnings_in_force("node", true);
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.find(
               "perhaps under a power cap from before a kexec: node: /tmp/trainwatt-999999002: cpu_power_limit_w "
               "1500 of rapl:package-0, set before this boot by ") == 0;
  }));
}

TEST_F(OthersJournals, AreNotManyOfOneUser) {
  for (int rank = 0; rank < 70; ++rank) {
    const std::string suffix = "-rank" + std::to_string(rank);
    leave(folder_of(somebody, suffix), somebody, somebody, somebody);
  }
  leave(folder_of(nobody), nobody, nobody, nobody);
  const std::vector<SettingsInForce> all = seen();
  ASSERT_EQ(all.size(), 64u + 1 + 1);
  EXPECT_EQ(all.back().unreadable, "6 more trainwatt folders were not checked");
}

// Named in the environment, another user's folder is still another user's: `trainwatt restore` refuses it.
TEST_F(OthersJournals, AFolderOfAnotherUserIsNotOurs) {
  leave(path, somebody, somebody, somebody);
  setenv("TRAINWATT_RUN_DIR", path.c_str(), 1);
  const std::vector<SettingsInForce> all = settings_in_force();
  unsetenv("TRAINWATT_RUN_DIR");
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].folder, path);
  EXPECT_FALSE(all[0].ours);
  EXPECT_EQ(remedy(all[0]), ": `trainwatt restore` of that user, in that environment, restores them");
}

}  // namespace
}  // namespace tw
