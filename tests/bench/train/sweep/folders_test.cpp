// What stays of a run's folder, and what does not.
#include "bench/train/sweep/folders.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <set>
#include <string>

#include "bench/train/job/outcome.hpp"
#include "results/record/report_io.hpp"
#include "tests/comm/support.hpp"

namespace tw {

using namespace bench;
using namespace comm;
using namespace results;

namespace {

namespace fs = std::filesystem;

class RunFolders : public testing::Test {
 protected:
  void SetUp() override {
    const std::string name = "trainwatt-folders-" + std::to_string(getpid());
    folder_ = fs::path(testing::TempDir()) / test_job().broadcast(name);
  }
  void TearDown() override {
    test_job().barrier();
    if (test_job().is_root()) fs::remove_all(folder_);
    test_job().barrier();
  }
  static void on_root(const std::function<void()>& work) {
    if (test_job().is_root()) work();
    test_job().barrier();
  }
  /// A run that ends with what `work` has left in its folder.
  void run(const std::function<void()>& work) {
    Job& job = test_job();
    {
      RunFolder folder(job, {});
      folder.create(folder_, "--out", {});
      if (job.is_root()) folder.keep({});
      on_root(work);
    }
    job.barrier();
  }
  void put(const char* name) const { std::ofstream(folder_ / name) << "{}"; }
  fs::path folder_;
};

TEST_F(RunFolders, NothingStaysOfARunThatFinishedNothing) {
  run([] {});
  EXPECT_FALSE(fs::exists(folder_));
}

// As where the disk was full when its first record was written.
TEST_F(RunFolders, AnEmptyFileOfRecordsIsNoRecord) {
  run([&] { std::ofstream(folder_ / records_file) << ""; });
  EXPECT_FALSE(fs::exists(folder_));
}

// Two jobs that start in the same second, as array tasks do.
TEST_F(RunFolders, DefaultNamesAreNobodyElses) {
  Job& job = test_job();
  const fs::path before = fs::current_path();
  on_root([&] { fs::create_directories(folder_); });
  fs::current_path(folder_);
  RunPlan plan;
  plan.suite = "quick";
  std::set<std::string> names;
  for (int i = 0; i < 4; ++i) names.insert(make_default_folder(job, plan).first.string());
  EXPECT_EQ(names.size(), 4u);
  job.barrier();
  for (const std::string& name : names) EXPECT_TRUE(fs::is_directory(name)) << name;
  job.barrier();
  fs::current_path(before);
}

TEST_F(RunFolders, AReportWithoutAPointCanBeResumed) {
  run([&] { put(report_file); });
  EXPECT_TRUE(fs::exists(folder_ / run_file));
  EXPECT_FALSE(fs::exists(folder_ / "run.lock"));
}

// As a network file system that does not answer: whether there are records is not known.
TEST_F(RunFolders, WhatCannotBeLookedAtIsNotTakenForMissing) {
  run([&] { fs::create_symlink(records_file, folder_ / records_file); });
  std::error_code code;
  ASSERT_FALSE(fs::exists(folder_ / records_file, code));
  ASSERT_TRUE(code);
  EXPECT_TRUE(fs::exists(folder_ / run_file)) << "or no launch could go on";
}

TEST_F(RunFolders, WhatAKillHasLeftUnfinishedIsRemovedByTheNextLaunch) {
  run([&] { put(records_file); });
  on_root([&] {
    std::ofstream(folder_ / records_file) << "";
    for (const char* file : {"run.json.tmp.1", "report.json.tmp.22", "records.jsonl.tmp.333", "notes.tmp.4"}) put(file);
  });
  Job& job = test_job();
  {
    const RunFolder folder(job, folder_);
    EXPECT_TRUE(folder.earlier());
    EXPECT_EQ(folder.warning(), "");
  }
  job.barrier();
  for (const char* file : {"run.json.tmp.1", "report.json.tmp.22", "records.jsonl.tmp.333"})
    EXPECT_FALSE(fs::exists(folder_ / file)) << file;
  EXPECT_TRUE(fs::exists(folder_ / "notes.tmp.4")) << "not one of ours";
}

}  // namespace
}  // namespace tw
