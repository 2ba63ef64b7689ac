#include "bench/train/sweep/folders.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <ctime>
#include <tuple>

#include "bench/terminal/error_line.hpp"
#include "bench/train/sweep/in_flight.hpp"
#include "results/record/report_io.hpp"

namespace tw::bench {

namespace fs = std::filesystem;

namespace {

/// Whether nothing is there, for sure: a file system that does not answer has not said so.
bool is_missing(const fs::path& path) {
  std::error_code code;
  return !fs::exists(path, code) && !code;
}

/// Whether no record is in it: a full disk leaves an empty file.
bool has_no_record(const fs::path& records) {
  std::error_code code;
  return is_missing(records) || (fs::file_size(records, code) == 0 && !code);
}

/// What a process that was killed in the middle of write_atomically has left. The folder is ours.
void remove_unfinished(const fs::path& folder) {
  std::vector<fs::path> left;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    for (const char* file : {results::run_file, results::records_file, results::report_file})
      if (entry.path().filename().string().starts_with(std::string(file) + ".tmp.")) left.push_back(entry.path());
  std::error_code ignored;
  for (const fs::path& path : left) fs::remove(path, ignored);
}

/// create_new_folder, with an error that names `option`.
std::vector<fs::path> make_new(const fs::path& folder, const char* option) {
  std::string why, remedy = "choose a folder that you can write to";
  std::vector<fs::path> made;
  try {
    made = results::create_new_folder(folder);
    if (made.empty() || access(folder.c_str(), W_OK) == 0) return made;
    why = "not writable";
    std::error_code ignored;
    for (; !made.empty(); made.pop_back()) fs::remove(made.back(), ignored);
  } catch (const std::system_error& error) {
    why = error.code().message();
    if (is_full_disk(error.code().value())) remedy = "free space there, or choose another folder";
  }
  throw Stop(exit_environment, "not-written",
             fmt::format("{} {}: cannot be created: {}: {}", option, folder.string(), why, remedy));
}

}  // namespace

std::string shell_word(const fs::path& path) {
  const std::string text = path.string();
  const bool is_plain =
      std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) || std::strchr("/._-+,:=@%", c); });
  if (is_plain) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<fs::path> make_folder(comm::Job& job, const fs::path& folder, const char* option) {
  std::vector<fs::path> made;
  on_root(job, [&] {
    made = make_new(folder, option);
    std::error_code code;
    if (made.empty())
      throw UsageError("file-exists",
                       fmt::format("{} {}: already exists: choose another folder{}", option, folder.string(),
                                   option == std::string_view("--out") && fs::exists(folder / results::run_file, code)
                                       ? ", or continue the run in it with --resume"
                                       : ""));
  });
  return made;
}

std::pair<fs::path, std::vector<fs::path>> make_default_folder(comm::Job& job, const RunPlan& plan) {
  const std::string suite = plan.suite.substr(0, plan.suite.find(changed_suite));
  const std::string what = suite == "command-line" ? plan.points.front().network.name : fs::path(suite).stem().string();
  const std::string base = fmt::format("out/{}-{:%Y%m%dT%H%M%SZ}", what, fmt::gmtime(std::time(nullptr)));
  std::string folder = base;
  std::vector<fs::path> made;
  on_root(job, [&] {
    for (int i = 2; (made = make_new(folder, "--out")).empty(); ++i) folder = fmt::format("{}-{}", base, i);
  });
  return {job.broadcast(folder), made};
}

RunFolder::RunFolder(comm::Job& job, const fs::path& resume) : job_(job) {
  std::string start;
  on_root(job, [&] {
    if (resume.empty()) return;
    std::error_code error;
    const bool is_there = fs::exists(resume, error);
    if (error)
      throw UsageError("cannot-read", fmt::format("--resume {}: {}: choose a folder that you may read", resume.string(),
                                                  error.message()));
    if (!is_there) return;
    const bool is_run = holds_run(resume);
    lock_.emplace(resume);
    path_ = resume;
    remove_unfinished(resume);
    if (!is_run) return;
    earlier_ = read_earlier(resume);
    start = results::to_json(earlier_->start);
  });
  path_ = job.broadcast(path_.string());
  start = job.broadcast(start);
  if (!start.empty() && !job.is_root()) earlier_ = Earlier{results::run_start_from_json(start), {}};
}

void RunFolder::create(const fs::path& folder, const char* option, const RunPlan& plan) {
  if (!path_.empty()) return;
  path_ = folder;
  if (folder.empty())
    std::tie(path_, made_) = make_default_folder(job_, plan);
  else
    made_ = make_folder(job_, folder, option);
  on_root(job_, [&] { lock_.emplace(path_); });
}

void RunFolder::keep(const results::RunStart& start) {
  try {
    results::write_atomically(path_ / results::run_file, results::to_json(start));
  } catch (const std::system_error& error) {
    throw not_written(results::run_file, error);
  }
  kept_ = true;
}

std::string RunFolder::warning() const {
  if (!lock_ || lock_->is_known()) return {};
  return with_code("no-file-locks", path_.string() +
                                        ": the file system has no locks: make sure that no other node writes to "
                                        "this folder");
}

std::string RunFolder::how_to_go_on() const {
  return fmt::format(": free space in {}, or make it writable, then {}", path_.string(),
                     has_no_record(path_ / results::records_file)
                         ? "give the same command again"
                         : fmt::format("continue with --resume {}", shell_word(path_)));
}

Stop RunFolder::not_written(const char* file, const std::system_error& error, const std::string& what_is_left) const {
  const std::string left = what_is_left.empty() ? "" : "; " + what_is_left;
  return {exit_environment, "not-written",
          fmt::format("{} cannot be written: {}{}{}", (path_ / file).string(), error.code().message(), left,
                      how_to_go_on())};
}

RunFolder::~RunFolder() {
  if (!job_.is_root() || path_.empty()) return;
  const bool is_empty = has_no_record(path_ / results::records_file) && is_missing(path_ / results::report_file);
  std::error_code code;
  if (is_empty && kept_)
    for (const char* file : {results::run_file, results::records_file, in_flight_file}) fs::remove(path_ / file, code);
  lock_.reset();
  if (!is_empty) return;
  // Where nothing else is in it.
  if (kept_ && earlier_) fs::remove(path_, code);
  for (; !made_.empty(); made_.pop_back()) fs::remove(made_.back(), code);
}

RemovedIfEmpty::RemovedIfEmpty(const comm::Job& job, fs::path folder)
    : folder_(job.is_root() ? std::move(folder) : fs::path()) {}

RemovedIfEmpty::~RemovedIfEmpty() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove(folder_, ignored);
}

}  // namespace tw::bench
