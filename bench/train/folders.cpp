#include "bench/train/folders.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "bench/train/outcome.hpp"

namespace tw {

namespace fs = std::filesystem;

void make_folder(Job& job, const fs::path& folder, const char* option) {
  together(job, [&] {
    if (!job.is_root()) return;
    std::error_code code;
    if (fs::exists(folder, code))
      throw UsageError(fmt::format("{} {}: exists already: choose another folder, results are never overwritten", option, folder.string()));
    fs::create_directories(folder, code);
    if (code || access(folder.c_str(), W_OK) != 0)
      throw Stop(exit_environment, fmt::format("{} {}: cannot be created: {}: choose a folder that you may write to", option,
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

RemovedIfEmpty::RemovedIfEmpty(const Job& job, fs::path folder)
    : folder_(job.is_root() ? std::move(folder) : fs::path()) {}

RemovedIfEmpty::~RemovedIfEmpty() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove(folder_, ignored);
}

}  // namespace tw
