// The folder of a report that is written at the end.
#pragma once

#include <filesystem>
#include <vector>

namespace tw::bench::tool {

/// A folder for a report, with those above it that were made for it; those that are empty go again unless they are
/// kept. It is locked meanwhile, so that an empty one is known to be nobody's: a process that was killed has left it.
class NewFolders {
 public:
  NewFolders(std::filesystem::path folder, std::vector<std::filesystem::path> made);
  ~NewFolders();
  NewFolders(NewFolders&& other) noexcept;
  NewFolders& operator=(NewFolders&&) = delete;
  bool is_ours() const { return is_ours_; }
  const std::filesystem::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;
  int lock_ = -1;
  bool is_ours_ = false, kept_ = false;
};

/// Makes this folder, and what is missing above it, or takes an empty one. `may_number`: where it is there already,
/// another one with a number behind its name. Throws UsageError and EnvironmentError that name --out.
NewFolders new_out_folder(const std::filesystem::path& wanted, bool may_number);

}  // namespace tw::bench::tool
