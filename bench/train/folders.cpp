#include "bench/train/folders.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "bench/train/outcome.hpp"
#include "results/report_io.hpp"

namespace tw {

namespace fs = std::filesystem;

void make_folder(Job& job, const fs::path& folder, const char* option) {
  together(job, [&] {
    if (!job.is_root()) return;
    std::error_code code;
    if (fs::exists(folder, code))
      throw UsageError(fmt::format("{} {}: exists already: choose another folder, results are never overwritten{}",
                                   option, folder.string(),
                                   fs::exists(folder / run_file, code) ? "; --resume goes on with a run" : ""));
    fs::create_directories(folder, code);
    if (code || access(folder.c_str(), W_OK) != 0)
      throw Stop(exit_environment,
                 fmt::format("{} {}: cannot be created: {}: choose a folder that you may write to", option,
                             folder.string(), code ? code.message() : std::string("not writable")));
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

RunFolder::~RunFolder() {
  if (!job_.is_root() || !lock_) return;
  std::error_code code;
  const bool is_empty = !fs::exists(path_ / records_file, code);
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
