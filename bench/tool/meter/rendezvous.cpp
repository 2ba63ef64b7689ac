#include "bench/tool/meter/rendezvous.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <system_error>
#include <thread>

#include "bench/tool/inputs/errors.hpp"
#include "bench/tool/meter/run_command.hpp"

namespace tw::bench::tool {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char *go_file = "go", *reader_file = "reader";
/// Between two looks at the others' files. Each look is work inside a window, and each window is longer by up to one.
constexpr auto pause = std::chrono::milliseconds(50);
/// Who comes later than this is not waited for.
constexpr auto latest = std::chrono::seconds(10);

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

/// The process that started this launch's processes of this node: the nearest one above us whose environment does not
/// hold their `variable`, as a shell in between does.
std::string launching_process(const std::string& variable) {
  pid_t process = getppid();
  while (process > 1) {
    const std::string folder = "/proc/" + std::to_string(process);
    std::ifstream environment(folder + "/environ");
    bool has = false;
    for (std::string entry; !has && std::getline(environment, entry, '\0');) has = entry.starts_with(variable + "=");
    pid_t parent = 0;
    std::ifstream status(folder + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("PPid:")) parent = std::atoi(line.c_str() + 5);
    if (!has || parent <= 0) break;
    process = parent;
  }
  return std::to_string(process);
}

}  // namespace

Place find_place() {
  Place place{comm::read_launch(), {}};
  if (place.marker.empty()) {
    place.ranks = place.local_ranks = 1;
    place.local_rank = 0;
    return place;
  }
  place.meeting = place.job.empty() ? launching_process(place.marker) : place.job;
  std::erase_if(place.meeting, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '.'; });
  return place;
}

GpuChoice choose_gpus(const Place& place, const std::vector<std::string>& addressable, const Gpus& mine,
                      const std::vector<Gpus>& others) {
  GpuChoice choice;
  Gpus visible = mine;
  for (const Gpus& theirs : others) {
    visible.names.insert(theirs.names.begin(), theirs.names.end());
    if (visible.unclear.empty()) visible.unclear = theirs.unclear;
  }
  for (const std::string& gpu : visible.names)
    if (std::ranges::find(addressable, gpu) == addressable.end())
      choice.unread.push_back({gpu, "not_addressable",
                               "only another task of this node can address the GPU (device cgroups): start the command "
                               "with one task of the node's GPUs, or let its tasks share them"});
  choice.visible = std::move(visible.names);
  if (!visible.unclear.empty()) choice.unread.push_back({"gpu", "gpus_unclear", visible.unclear});
  const bool all_said = place.local_ranks > 0 && others.size() + 1 >= static_cast<std::size_t>(place.local_ranks);
  if (!all_said && !addressable.empty())
    choice.unread.push_back(
        {"gpu", "tasks_unknown",
         place.local_ranks > 0
             ? fmt::format("{} of this node's {} tasks did not say in time which GPUs they may use",
                           static_cast<std::size_t>(place.local_ranks) - 1 - others.size(), place.local_ranks)
             : "which tasks are on this node, and which GPUs they may use, is not known"});
  return choice;
}

Rendezvous::Rendezvous(const Place& place) {
  const std::string runtime = variable("XDG_RUNTIME_DIR");
  const fs::path base = geteuid() == 0 ? fs::path("/run") : !runtime.empty() ? fs::path(runtime) : fs::path("/tmp");
  folder_ = base / fmt::format("trainwatt-meter-{}-{}", geteuid(), place.meeting);
  if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST)
    throw std::system_error(errno, std::generic_category(), folder_.string());
  struct stat status {};
  if (lstat(folder_.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & 077) != 0)
    throw EnvironmentError("unsafe-folder", folder_.string() + ": others can write to this folder: remove it");
}

Rendezvous::~Rendezvous() {
  lock_.close(), reader_lock_.close();
  std::error_code ignored;
  const bool is_left = gave_up_ && held().empty() && !is_held(reader_file);
  if (reads_ || is_left) fs::remove_all(folder_, ignored);
}

Rendezvous::Held Rendezvous::hold(const std::optional<int>& local_rank, const Gpus& visible) {
  std::string text = visible.unclear + "\n";
  for (const std::string& gpu : visible.names) text += gpu + "\n";
  const std::string name = local_rank ? std::to_string(*local_rank) : fmt::format("process{}", getpid());
  show(name, text);
  const auto start = Clock::now();
  for (; Clock::now() < start + std::chrono::minutes(1); std::this_thread::sleep_for(pause)) {
    if (is_held(go_file)) return Held::may_begin;
    if (Clock::now() < start + latest || !take_reading()) continue;
    std::error_code ignored;
    fs::remove(folder_ / name, ignored);
    lock_.close();
    return Held::reads;
  }
  gave_up_ = true;
  return Held::alone;
}

std::vector<Gpus> Rendezvous::gather(int local_ranks) {
  reads_ = true;
  std::size_t here = 0;
  auto last_came = Clock::now();
  for (const auto until = last_came + latest; Clock::now() < until; std::this_thread::sleep_for(pause)) {
    if (const std::size_t now = held().size(); now != here) here = now, last_came = Clock::now();
    if (local_ranks > 0 ? here + 1 >= static_cast<std::size_t>(local_ranks)
                        : Clock::now() - last_came > std::chrono::seconds(1))
      break;
  }
  std::vector<Gpus> all;
  for (const fs::path& file : held()) {
    std::ifstream lines(file);
    Gpus& visible = all.emplace_back();
    std::getline(lines, visible.unclear);
    for (std::string gpu; std::getline(lines, gpu);) visible.names.insert(gpu);
  }
  return all;
}

void Rendezvous::go() { show(go_file, ""); }

bool Rendezvous::wait() const {
  while (!held().empty()) {
    if (told_to_end()) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

bool Rendezvous::take_reading() {
  const fs::path path = folder_ / reader_file;
  if (reader_lock_.get() < 0)
    reader_lock_ = power::Descriptor(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (reader_lock_.get() < 0) throw std::system_error(errno, std::generic_category(), path.string());
  return flock(reader_lock_.get(), LOCK_EX | LOCK_NB) == 0;
}

/// Makes a file that has its lock and its text from the moment it has its name.
void Rendezvous::show(const std::string& name, const std::string& text) {
  const fs::path unnamed = folder_ / fmt::format(".{}", getpid());
  lock_ = power::Descriptor(open(unnamed.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock_.get() < 0 || flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 ||
      write(lock_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      rename(unnamed.c_str(), (folder_ / name).c_str()) != 0)
    throw std::system_error(errno, std::generic_category(), unnamed.string());
}

bool Rendezvous::is_held(const std::string& name) const {
  const power::Descriptor file(open((folder_ / name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  return file.get() >= 0 && flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

std::vector<fs::path> Rendezvous::held() const {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name != go_file && name != reader_file && name.front() != '.' && is_held(name)) files.push_back(entry.path());
  }
  return files;
}

}  // namespace tw::bench::tool
