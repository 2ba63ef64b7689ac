#include "bench/train/folders.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <vector>

#include "bench/train/outcome.hpp"
#include "results/report_io.hpp"

namespace tw {

namespace fs = std::filesystem;

namespace {

/// Whether nothing is there, for sure: a file system that does not answer has not said so.
bool is_missing(const fs::path& path) {
  std::error_code code;
  return !fs::exists(path, code) && !code;
}

/// What a process that was killed in the middle of write_atomically has left. The folder is ours.
void remove_unfinished(const fs::path& folder) {
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    for (const char* file : {run_file, records_file, report_file})
      if (entry.path().filename().string().starts_with(std::string(file) + ".tmp.")) left.push_back(entry.path());
  std::error_code ignored;
  for (const fs::path& path : left) fs::remove(path, ignored);
}

}  // namespace

void make_folder(Job& job, const fs::path& folder, const char* option) {
  together(job, [&] {
    if (!job.is_root()) return;
    std::error_code code;
    if (fs::exists(folder, code))
      throw UsageError(fmt::format("{} {}: exists already: choose another folder, results are never overwritten{}",
                                   option, folder.string(),
                                   fs::exists(folder / run_file, code) ? "; --resume goes on with a run" : ""));
    std::string why;
    try {
      create_folders(folder);
      if (access(folder.c_str(), W_OK) != 0) why = "not writable";
    } catch (const std::system_error& error) {
      why = error.code().message();
    }
    if (!why.empty())
      throw Stop(exit_environment, fmt::format("{} {}: cannot be created: {}: choose a folder that you may write to",
                                               option, folder.string(), why));
  });
}

fs::path default_folder(Job& job, const RunPlan& plan) {
  const std::string suite = plan.suite.substr(0, plan.suite.find(changed_suite));
  const std::string what = suite == "command-line" ? plan.points.front().network.name : fs::path(suite).stem().string();
  const std::string base = fmt::format("out/{}-{:%Y%m%dT%H%M%SZ}", what, fmt::gmtime(std::time(nullptr)));
  std::string folder = base;
  std::error_code ignored;
  for (int i = 2; job.is_root() && fs::exists(folder, ignored); ++i) folder = fmt::format("{}-{}", base, i);
  return job.broadcast(folder);
}

RunFolder::RunFolder(Job& job, const fs::path& resume) : job_(job) {
  std::string start;
  together(job, [&] {
    if (!job.is_root() || resume.empty() || !fs::exists(resume)) return;
    const bool is_run = holds_run(resume);
    lock_.emplace(resume);
    path_ = resume;
    remove_unfinished(resume);
    if (!is_run) return;
    earlier_ = read_earlier(resume);
    start = to_json(earlier_->start);
  });
  path_ = job.broadcast(path_.string());
  start = job.broadcast(start);
  if (!start.empty() && !job.is_root()) earlier_ = Earlier{run_start_from_json(start), {}};
}

void RunFolder::create(const fs::path& folder, const char* option) {
  if (!path_.empty()) return;
  make_folder(job_, folder, option);
  path_ = folder;
  made_ = true;
  together(job_, [&] {
    if (job_.is_root()) lock_.emplace(folder);
  });
}

void RunFolder::keep(const RunStart& start) {
  write_atomically(path_ / run_file, to_json(start));
  kept_ = true;
}

std::string RunFolder::warning() const {
  if (!lock_ || lock_->is_known()) return {};
  return fmt::format("{}: its file system knows no locks: see to it that no other node writes into it", path_.string());
}

RunFolder::~RunFolder() {
  if (!job_.is_root() || !lock_) return;
  const bool is_empty = is_missing(path_ / records_file) && is_missing(path_ / report_file);
  std::error_code code;
  if (is_empty && kept_) fs::remove(path_ / run_file, code);
  lock_.reset();
  if (is_empty && (made_ || (kept_ && earlier_))) fs::remove(path_, code);  // where nothing else is in it
}

RemovedIfEmpty::RemovedIfEmpty(const Job& job, fs::path folder)
    : folder_(job.is_root() ? std::move(folder) : fs::path()) {}

RemovedIfEmpty::~RemovedIfEmpty() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove(folder_, ignored);
}

}  // namespace tw
