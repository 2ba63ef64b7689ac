#include "bench/tool/meter/new_folders.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "bench/tool/inputs/errors.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "results/record/report_io.hpp"

namespace tw::bench::tool {

namespace fs = std::filesystem;

NewFolders::NewFolders(fs::path folder, std::vector<fs::path> made) : path_(std::move(folder)), made_(std::move(made)) {
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  is_ours_ = lock_ >= 0 && flock(lock_, LOCK_EX | LOCK_NB) == 0;
  // Not every file system locks folders; in one that was made here just now nobody else can be.
  if (!is_ours_ && !made_.empty() && errno != EWOULDBLOCK) is_ours_ = true;
  std::error_code error;
  is_ours_ = is_ours_ && fs::is_empty(path_, error) && !error;
}

NewFolders::~NewFolders() {
  std::error_code ignored;
  if (!kept_ && is_ours_)
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) fs::remove(*folder, ignored);
  if (lock_ >= 0) close(lock_);
}

NewFolders::NewFolders(NewFolders&& other) noexcept
    : path_(std::move(other.path_)),
      made_(std::exchange(other.made_, {})),
      lock_(std::exchange(other.lock_, -1)),
      is_ours_(other.is_ours_),
      kept_(other.kept_) {}

NewFolders new_out_folder(const fs::path& wanted, bool may_number) {
  try {
    std::vector<fs::path> made = results::create_new_folder(wanted);
    for (int i = 2; made.empty() && may_number; ++i)
      made = results::create_new_folder(fmt::format("{}-{}", wanted.string(), i));
    const fs::path folder = made.empty() ? wanted : made.back();
    NewFolders folders(folder, std::move(made));
    if (!folders.is_ours())
      throw UsageError("file-exists", wanted.string() +
                                          ": the folder exists and is not empty, or another command uses it: "
                                          "choose another folder with --out");
    return folders;
  } catch (const std::system_error& error) {
    throw EnvironmentError("not-written", why_not_written(wanted, error, "--out"));
  }
}

}  // namespace tw::bench::tool
