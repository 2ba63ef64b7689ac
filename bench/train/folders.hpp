// The folders that a run makes. Root touches the disk; all ranks learn how that went.
#pragma once

#include <filesystem>
#include <string>

#include "bench/train/plan.hpp"
#include "comm/job.hpp"

namespace tw {

/// Makes the folder before anything is measured; one that exists is an error of usage, which names `option` (collective).
void make_folder(Job& job, const std::filesystem::path& folder, const char* option);

/// out/<what>-<UTC time>, the same on all ranks; with a number behind it where that is taken (collective).
std::filesystem::path default_folder(Job& job, const RunPlan& plan);

/// Removes a folder that root made, where it is still empty at the end: a corrected command then finds it free.
class RemovedIfEmpty {
 public:
  RemovedIfEmpty(const Job& job, std::filesystem::path folder);
  RemovedIfEmpty(const RemovedIfEmpty&) = delete;
  RemovedIfEmpty& operator=(const RemovedIfEmpty&) = delete;
  ~RemovedIfEmpty();

 private:
  std::filesystem::path folder_;
};

}  // namespace tw
