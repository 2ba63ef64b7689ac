// The folders that a run makes. Root touches the disk; all ranks learn how that went.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "bench/plan/plan.hpp"
#include "bench/train/job/outcome.hpp"
#include "bench/train/sweep/resume.hpp"
#include "comm/job.hpp"

namespace tw::bench {

/// As a shell takes it: in quotes where it needs them.
std::string shell_word(const std::filesystem::path& path);

/// Makes the folder before anything is measured; one that exists is an error of usage, which names `option`
/// (collective). What root has made, outermost first.
std::vector<std::filesystem::path> make_folder(comm::Job& job, const std::filesystem::path& folder, const char* option);

/// Makes out/<what>-<UTC time>, with a number behind it where that is taken; its path on all ranks, and what root has
/// made (collective).
std::pair<std::filesystem::path, std::vector<std::filesystem::path>> make_default_folder(comm::Job& job,
                                                                                         const RunPlan& plan);

/// The folder of a run: a new one, or that of an earlier launch. Held until the end; where neither a finished point nor
/// a report is in it by then, nothing stays of it, so that the same command may be given again.
class RunFolder {
 public:
  /// Opens the folder given to --resume, where it is there, and reads what it holds; root's path counts (collective).
  /// Throws Stop if it is no run's, is damaged, or another process writes into it.
  RunFolder(comm::Job& job, const std::filesystem::path& resume);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  /// What the launches before have left, on all ranks; the records on root only.
  const std::optional<Earlier>& earlier() const { return earlier_; }
  /// For a run that starts (collective). `folder`: where nothing was opened before; empty: the default one of `plan`.
  void create(const std::filesystem::path& folder, const char* option, const RunPlan& plan);
  const std::filesystem::path& path() const { return path_; }
  /// What a user should know of it, from root: "out/r1: its file system knows no locks: …"; may be empty.
  std::string warning() const;
  /// Behind the message of a file that could not be written: what to do, and where a run can be resumed how.
  std::string how_to_go_on() const;
  /// error[not-written]: the file, why, `what_is_left` where that is not empty, and how to go on.
  Stop not_written(const char* file, const std::system_error& error, const std::string& what_is_left = "") const;
  /// Root writes what a later launch needs to go on.
  void keep(const results::RunStart& start);

 private:
  comm::Job& job_;
  std::filesystem::path path_;
  std::optional<RunLock> lock_;  // root's
  std::optional<Earlier> earlier_;
  std::vector<std::filesystem::path> made_;  // on root, outermost first
  bool kept_ = false;
};

/// Removes a folder that root made, where it is still empty at the end: a corrected command then finds it free.
class RemovedIfEmpty {
 public:
  RemovedIfEmpty(const comm::Job& job, std::filesystem::path folder);
  RemovedIfEmpty(const RemovedIfEmpty&) = delete;
  RemovedIfEmpty& operator=(const RemovedIfEmpty&) = delete;
  ~RemovedIfEmpty();

 private:
  std::filesystem::path folder_;
};

}  // namespace tw::bench
