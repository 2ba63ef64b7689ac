#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <thread>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "results/record/report_io.hpp"

namespace {
std::vector<std::string> synced;  // what fsync was called for, by path
}

/// In place of the C library's, which it calls after taking note.
extern "C" int fsync(int fd) {
  synced.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string());
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace tw {

using namespace results;

namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "trainwatt-files-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  static std::string content(const fs::path& path) {
    std::ostringstream out;
    out << std::ifstream(path, std::ios::binary).rdbuf();
    return out.str();
  }
  static void put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
  int files() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  /// What the std::system_error of `write` says, in a child; 0: none was thrown. Its text must name the path.
  template <class F>
  static int errno_in_child(const fs::path& path, F write) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        write();
      } catch (const std::system_error& error) {
        _exit(std::string(error.what()).find(path.string()) == std::string::npos ? 255 : error.code().value());
      }
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  /// Files may not grow past `limit` bytes: a full disk, without one.
  static void limit_files(rlim_t limit) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit files_end{limit, limit};
    setrlimit(RLIMIT_FSIZE, &files_end);
  }
  fs::path folder_;
};

TEST_F(Files, WriteReplacesWhole) {
  const fs::path path = folder_ / "report.json";
  write_atomically(path, "first, and longer\n");
  write_atomically(path, "second\n");
  EXPECT_EQ(content(path), "second\n");
  EXPECT_EQ(files(), 1);
}

TEST_F(Files, WriteIntoAMissingFolderNamesIt) {
  try {
    write_atomically(folder_ / "none" / "report.json", "x");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_NE(std::string(error.what()).find("none/report.json"), std::string::npos);
  }
}

TEST_F(Files, WriteOverAFolderFailsAndLeavesNothing) {
  fs::create_directory(folder_ / "report.json");
  EXPECT_THROW(write_atomically(folder_ / "report.json", "x"), std::system_error);
  EXPECT_EQ(files(), 1);
}

TEST_F(Files, AFolderWithoutRightsIsRefused) {
  const fs::path path = folder_ / "report.json";
  fs::permissions(folder_,
                  fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read | fs::perms::others_exec);
  const int error = errno_in_child(path, [&] {
    if (geteuid() == 0 && seteuid(65534) != 0) _exit(254);  // root may write everywhere
    write_atomically(path, "x");
  });
  EXPECT_EQ(error, EACCES);
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(files(), 0);
}

TEST_F(Files, AFullDiskKeepsTheOldFile) {
  const fs::path path = folder_ / "report.json";
  put(path, "old");
  EXPECT_EQ(errno_in_child(path, [&] { limit_files(100), write_atomically(path, std::string(1000, 'x')); }), EFBIG);
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(files(), 1);  // the temporary is gone
}

TEST_F(Files, AFullDiskKeepsTheLinesBefore) {
  const fs::path path = folder_ / "records.jsonl";
  put(path, "{\"a\":1}\n");
  EXPECT_EQ(errno_in_child(path, [&] { limit_files(100), append_line(path, std::string(1000, 'x')); }), EFBIG);
  EXPECT_EQ(content(path), "{\"a\":1}\n");
}

TEST_F(Files, FullDevice) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  try {
    append_line("/dev/full", "x");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOSPC);
    EXPECT_NE(std::string(error.what()).find("/dev/full"), std::string::npos);
  }
}

TEST_F(Files, AKillWhileWritingLeavesAWholeFile) {
  const fs::path path = folder_ / "report.json";
  const std::string a(1 << 20, 'a'), b(1 << 20, 'b');
  write_atomically(path, a);
  for (int round = 0; round < 30; ++round) {
    const pid_t child = fork();
    if (child == 0)
      for (;;) write_atomically(path, b), write_atomically(path, a);
    usleep(1000 + 700 * round);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const std::string found = content(path);
    ASSERT_TRUE(found == a || found == b) << found.size();
  }
}

TEST_F(Files, AppendAddsLines) {
  const fs::path path = folder_ / "records.jsonl";
  append_line(path, "one");
  append_line(path, "two");
  EXPECT_EQ(content(path), "one\ntwo\n");
}

TEST_F(Files, AppendCutsATornLine) {
  const fs::path path = folder_ / "records.jsonl";
  put(path, "one\n{\"id\": \"tor");
  append_line(path, "two");
  EXPECT_EQ(content(path), "one\ntwo\n");
  put(path, "{\"id\": \"torn from the start");
  append_line(path, "one");
  EXPECT_EQ(content(path), "one\n");
}

TEST_F(Files, RecordsOnDiskAreTheRecords) {
  const std::filesystem::path path = folder_ / "records.jsonl";
  std::vector<Record> records;
  for (const char* id : {"a", "b", "c"}) {
    records.emplace_back().id = id;
    const bool earlier_changed = records.size() == 3;
    if (earlier_changed) records.front().verdict.flags.emplace_back(Flag::unstable);
    keep_last_record(path, records, earlier_changed);
    std::string expected;
    for (const Record& record : records) expected += to_json_line(record) + "\n";
    EXPECT_EQ(content(path), expected) << id;
  }
}

// A power cut takes a folder whose name is not on disk along with all that was written into it.
TEST_F(Files, FoldersAreOnDiskEachBeforeTheNext) {
  const fs::path root = fs::canonical(folder_);
  synced.clear();
  create_folders(root / "a" / "b");
  EXPECT_TRUE(fs::is_directory(root / "a" / "b"));
  EXPECT_EQ(synced, (std::vector<std::string>{root.string(), (root / "a").string()}));
  synced.clear();
  create_folders(root / "a" / "c" / "");  // as a shell completes it
  EXPECT_TRUE(fs::is_directory(root / "a" / "c"));
  EXPECT_EQ(synced.front(), (root / "a").string());
  synced.clear();
  create_folders(root / "a");
  EXPECT_TRUE(synced.empty()) << "nothing was made";
  put(root / "file", "");
  EXPECT_THROW(create_folders(root / "file" / "d"), std::system_error);
}

// Of any number that try at once, one makes it.
TEST_F(Files, ANewFolderIsMadeOnce) {
  const fs::path root = fs::canonical(folder_);
  const fs::path folder = root / "n" / "o" / "p";
  EXPECT_EQ(create_new_folder(folder), (std::vector<fs::path>{root / "n", root / "n" / "o", folder}));
  EXPECT_TRUE(create_new_folder(folder).empty());
  EXPECT_EQ(create_new_folder(root / "n" / "q" / ""), (std::vector<fs::path>{root / "n" / "q"}));
  put(root / "taken", "");
  EXPECT_TRUE(create_new_folder(root / "taken").empty());
  EXPECT_THROW(create_new_folder(root / "taken" / "d"), std::system_error);
  EXPECT_THROW(create_new_folder(root / "made" / std::string(1000, 'x')), std::system_error);
  EXPECT_FALSE(fs::exists(root / "made")) << "what was made for it goes again";
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { made += !create_new_folder(root / "race").empty(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 1);
}

}  // namespace
}  // namespace tw
