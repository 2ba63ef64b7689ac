// `trainwatt meter -- CMD`: the joules of any command, in a report like any other.
#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "bench/inventory/inventory.hpp"
#include "bench/node_power/node_power.hpp"
#include "bench/plan/abilities.hpp"
#include "bench/plan/options/meter_options.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/meter/output_parser.hpp"
#include "bench/tool/meter/run_command.hpp"
#include "comm/launch.hpp"
#include "power/knob/in_force.hpp"
#include "power/visible_gpus.hpp"
#include "results/analysis/trials.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"

namespace tw::tool {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// A line for people; an error that has a code, with it.
void say(const std::string& what) { fmt::print(stderr, "{}\n", text::printable(line_of("trainwatt meter", what))); }

std::string utc_now(const char* format) { return fmt::format(fmt::runtime(format), fmt::gmtime(std::time(nullptr))); }

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

/// The place of this process among those that a launcher started with it, and where they meet.
struct Place : Launch {
  std::string meeting;  ///< names the launch on this node, as a part of a file's name; empty: started alone
};
Place find_place() {
  Place place{read_launch(), {}};
  if (place.marker.empty()) {
    place.ranks = place.local_ranks = 1;
    place.local_rank = 0;
    return place;
  }
  place.meeting = place.job.empty() ? launching_process(place.marker) : place.job;
  std::erase_if(place.meeting, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '.'; });
  return place;
}

/// GPUs ("nvml:GPU-…", "amdgpu:0000:c1:00.0") that a task may use.
struct Gpus {
  std::set<std::string> names;
  std::string unclear;  ///< why it may use others, too
};

/// Which GPUs are the job's, from what each of a node's tasks may use: those are counted that one of them may use. This
/// process reads alone: what a cgroup keeps from it leaves the node's GPUs without joules, as do tasks that said
/// nothing, for the samples would be those of more GPUs than the joules.
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

/// Processes of one launch on one node meet in a folder of this user's over locked files: a lock goes with its process,
/// however that ends, and a file that nobody has locked is a leftover.
class Rendezvous {
 public:
  explicit Rendezvous(const Place& place) {
    const std::string runtime = variable("XDG_RUNTIME_DIR");
    const fs::path base = geteuid() == 0 ? fs::path("/run") : !runtime.empty() ? fs::path(runtime) : fs::path("/tmp");
    folder_ = base / fmt::format("trainwatt-meter-{}-{}", geteuid(), place.meeting);
    if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST)
      throw std::system_error(errno, std::generic_category(), folder_.string());
    struct stat status {};
    if (lstat(folder_.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 077) != 0)
      throw std::runtime_error(folder_.string() + ": is not a folder of this user's alone: remove it");
  }
  ~Rendezvous() {
    for (const int lock : {lock_, reader_lock_})
      if (lock >= 0) close(lock);
    std::error_code ignored;
    const bool is_left = gave_up_ && held().empty() && !is_held(reader_file);
    if (reads_ || is_left) fs::remove_all(folder_, ignored);
  }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  /// Whether this process is to read: the first of its node, unless another had waited for it in vain; where no process
  /// knows its place, the first to come here.
  bool is_reader(const std::optional<int>& local_rank) { return local_rank.value_or(0) == 0 && take_reading(); }

  enum class Held {
    may_begin,  ///< the reader has begun
    reads,      ///< nobody had come to read, as where only this task is metered: it falls to this process
    alone       ///< the reader has not begun within a minute
  };
  /// Of one that does not read: it is here until its end, and may use these GPUs.
  Held hold(const std::optional<int>& local_rank, const Gpus& visible) {
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
      close(lock_);
      lock_ = -1;
      return Held::reads;
    }
    gave_up_ = true;
    return Held::alone;
  }
  /// Of the reader: until all others are here, where it is not known how many until nobody has come for a second; one
  /// that is later than ten seconds is not waited for. What each may use.
  std::vector<Gpus> gather(int local_ranks) {
    reads_ = true;
    std::size_t here = 0;
    auto last_came = Clock::now();
    for (const auto until = last_came + latest; Clock::now() < until;
         std::this_thread::sleep_for(pause)) {
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
  /// Of the reader: the others may begin.
  void go() { show(go_file, ""); }
  /// Of the reader: until all others have ended, or this program is told to end; false then.
  bool wait() const {
    while (!held().empty()) {
      if (told_to_end()) return false;
      std::this_thread::sleep_for(pause);
    }
    return true;
  }

 private:
  static constexpr const char *go_file = "go", *reader_file = "reader";
  /// Between two looks at the others' files. Each look is work inside a window, and each window is longer by up to one.
  static constexpr auto pause = std::chrono::milliseconds(50);
  /// Who comes later than this is not waited for.
  static constexpr auto latest = std::chrono::seconds(10);

  bool take_reading() {
    const fs::path path = folder_ / reader_file;
    if (reader_lock_ < 0) reader_lock_ = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (reader_lock_ < 0) throw std::system_error(errno, std::generic_category(), path.string());
    return flock(reader_lock_, LOCK_EX | LOCK_NB) == 0;
  }
  /// Makes a file that has its lock and its text from the moment it has its name.
  void show(const std::string& name, const std::string& text) {
    const fs::path unnamed = folder_ / fmt::format(".{}", getpid());
    lock_ = open(unnamed.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock_ < 0 || flock(lock_, LOCK_EX | LOCK_NB) != 0 ||
        write(lock_, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        rename(unnamed.c_str(), (folder_ / name).c_str()) != 0)
      throw std::system_error(errno, std::generic_category(), unnamed.string());
  }
  bool is_held(const std::string& name) const {
    const int file = open((folder_ / name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) return false;
    const bool held = flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(file);
    return held;
  }
  std::vector<fs::path> held() const {
    std::vector<fs::path> files;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name != go_file && name != reader_file && name.front() != '.' && is_held(name)) files.push_back(entry.path());
    }
    return files;
  }

  fs::path folder_;
  int lock_ = -1, reader_lock_ = -1;
  bool reads_ = false, gave_up_ = false;
};

/// A folder for a report, with those above it that were made for it; those that are empty go again unless they are
/// kept. It is locked meanwhile, so that an empty one is known to be nobody's: a process that was killed has left it.
class NewFolders {
 public:
  NewFolders(fs::path folder, std::vector<fs::path> made) : path_(std::move(folder)), made_(std::move(made)) {
    lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    is_ours_ = lock_ >= 0 && flock(lock_, LOCK_EX | LOCK_NB) == 0;
    // Not every file system locks folders; in one that was made here just now nobody else can be.
    if (!is_ours_ && !made_.empty() && errno != EWOULDBLOCK) is_ours_ = true;
    std::error_code error;
    is_ours_ = is_ours_ && fs::is_empty(path_, error) && !error;
  }
  ~NewFolders() {
    std::error_code ignored;
    if (!kept_ && is_ours_)
      for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) fs::remove(*folder, ignored);
    if (lock_ >= 0) close(lock_);
  }
  NewFolders(NewFolders&& other) noexcept
      : path_(std::move(other.path_)),
        made_(std::exchange(other.made_, {})),
        lock_(std::exchange(other.lock_, -1)),
        is_ours_(other.is_ours_),
        kept_(other.kept_) {}
  NewFolders& operator=(NewFolders&&) = delete;
  bool is_ours() const { return is_ours_; }
  const fs::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  std::vector<fs::path> made_;
  int lock_ = -1;
  bool is_ours_ = false, kept_ = false;
};

/// Makes this report's folder, and what is missing above it, or takes an empty one.
NewFolders out_folder(const std::string& wanted, const Place& place) {
  fs::path out = wanted;
  if (wanted.empty())
    out = utc_now("out/meter-{:%Y%m%dT%H%M%SZ}") + (place.ranks != 1 ? "-" + host_name() : "");
  else if (place.ranks != 1)
    out /= host_name();  // a folder for each node's reader
  try {
    std::vector<fs::path> made = create_new_folder(out);
    // Commands that start in the same second each have theirs.
    for (int i = 2; made.empty() && wanted.empty(); ++i) made = create_new_folder(fmt::format("{}-{}", out.string(), i));
    const fs::path folder = made.empty() ? out : made.back();
    NewFolders folders(folder, std::move(made));
    if (!folders.is_ours())
      throw UsageError(out.string() +
                       ": exists already, and is not empty, or another command's: choose another folder "
                       "with --out, results are never overwritten");
    return folders;
  } catch (const std::system_error& error) {
    throw std::runtime_error(why_not_written(out, error, "--out"));
  }
}

}  // namespace

int meter(const MeterCommand& options) {
  const Place place = find_place();
  OutputParser parser;
  OutputParser* const parsing = options.parse ? &parser : nullptr;
  try {
    // What one process says may be the whole job's; the joules are this node's.
    const bool all_here = place.ranks > 0 && place.ranks <= std::max(1, place.local_ranks);
    const MeterOptions meters = meter_options(options.energy_csv, options.estimate_watts, host_name(), all_here);
    check_meters(meters);
    const Sight sight = look();
    const Gpus visible{{sight.visible.begin(), sight.visible.end()}, sight.unclear};
    std::optional<Rendezvous> rendezvous;
    if (!place.meeting.empty()) rendezvous.emplace(place);
    bool in_place_of_first = false;
    if (rendezvous && !rendezvous->is_reader(place.local_rank)) {  // another process of this node reads
      const Rendezvous::Held held = rendezvous->hold(place.local_rank, visible);
      in_place_of_first = held == Rendezvous::Held::reads;
      if (held == Rendezvous::Held::alone)
        fmt::print(stderr, "trainwatt meter: the process that reads the meters has not begun: its report will miss joules\n");
      if (!in_place_of_first) return run_command(options.command, nullptr);
    }
    NewFolders folders = out_folder(options.out, place);
    const fs::path& out = folders.path();

    Report report;
    if (in_place_of_first)
      report.context.warnings.push_back(
          fmt::format("the first task of this node is not metered: {} reads, and only its output is looked at",
                      place.local_rank ? fmt::format("local rank {}", *place.local_rank) : "another one"));
    report.program = program_info("trainwatt");
    report.context.started_at = utc_now("{:%Y-%m-%dT%H:%M:%SZ}");
    const auto launched = Clock::now();
    report.context.argv = options.argv;
    report.context.environment = relevant_environment();
    report.context.launcher = place.launcher;
    report.context.hosts.push_back(inspect_host());

    std::vector<Gpus> others;
    if (rendezvous) others = rendezvous->gather(in_place_of_first ? 0 : place.local_ranks);  // they had their time
    const GpuChoice gpus = choose_gpus(place, sight.addressable, visible, others);
    for (const GpuChoice::Unread& gpu : gpus.unread)
      report.context.warnings.push_back(fmt::format("{}: no joules of this node's GPUs: {}", gpu.domain, gpu.detail));
    // Not under what a dead run has left.
    for (std::string& line : settle_before_measuring(host_name())) report.context.warnings.push_back(std::move(line));
    NodePower power(host_name(), meters, gpus);
    report.context.meters = power.entries();
    const std::vector<std::string> shared = shared_devices(report.context.meters);
    report.context.warnings.insert(report.context.warnings.end(), shared.begin(), shared.end());
    const auto idle = [&](const char* when) {
      if (!power.has_meter()) return;
      power.begin();
      const std::chrono::duration<double> wanted(power.idle_seconds());
      const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(wanted);
      while (!told_to_end() && Clock::now() < until)
        std::this_thread::sleep_until(std::min(until, Clock::now() + std::chrono::milliseconds(100)));
      power.end();
      if (told_to_end())
        report.context.warnings.push_back(fmt::format("no idle power {} the command: told to end by a signal", when));
      else
        for (IdleRow& row : power.idle(when)) report.context.idle_power.push_back(std::move(row));
    };
    idle("before");
    Record record;
    Trial trial;
    power.begin();
    const auto start = Clock::now();
    if (rendezvous) rendezvous->go();
    const int ended = run_command(options.command, parsing);
    const bool all_ended = !rendezvous || rendezvous->wait();
    const auto end = Clock::now();
    trial.window_s = std::chrono::duration<double>(end - start).count();
    trial.start_s = std::chrono::duration<double>(start - launched).count();
    power.end();
    power.collect(trial, start, end);  // before the next window
    idle("after");
    trial.step_time_s = {trial.window_s};
    if (all_here) trial.samples = parser.samples();
    if (trial.samples) trial.samples_s = parser.seconds();
    if (trial.samples_s && !(*trial.samples_s <= trial.window_s)) {
      report.context.warnings.push_back(fmt::format("the command says seconds={}, but ran for {:.3f} s: throughput is over the latter",
                                                    *trial.samples_s, trial.window_s));
      trial.samples_s.reset();
    }

    record.id = "command/" + fs::path(options.command.front()).filename().string();
    Workload& w = record.workload;
    w.model = fs::path(options.command.front()).filename().string();
    w.device = "command", w.precision = "unknown", w.optimizer = "unknown";
    w.micro_batch = w.accumulate = w.global_batch = w.ranks = 1;
    w.hash = workload_hash(w);
    record.trials.push_back(std::move(trial));
    record.summary.flops_rule = "none: the command's FLOPs are not known";
    record.summary.of_ceiling_reason = record.summary.mfu_reason = "not defined for a command";
    if (ended != 0) record.verdict.reasons.push_back(fmt::format("command: ended with code {}", ended));
    if (!all_ended)
      record.verdict.reasons.emplace_back("command: told to end by a signal before the node's other tasks had ended");
    if (parsing && !all_here)
      report.context.warnings.push_back("samples are left out: they may be the whole job's, the joules are this node's");
    else if (parsing)
      for (std::string& warning : parser.warnings()) report.context.warnings.push_back(std::move(warning));
    if (!shared.empty()) record.verdict.flags.emplace_back("shared_device");
    summarise(record);
    report.plan.suite = "command";
    report.plan.canonical_json = fmt::format(
        R"({{"device":"command","points":[{{"id":{0},"model":{1},"precision":"unknown"}}],"suite":"command"}})",
        nlohmann::json(record.id).dump(), nlohmann::json(w.model).dump());
    report.records.push_back(std::move(record));
    report.context.finished_at = utc_now("{:%Y-%m-%dT%H:%M:%SZ}");

    const Record& done = report.records.front();
    std::string line = text::duration(done.trials.front().window_s);
    for (const auto& [scope, joules] : done.summary.energy_j)
      if (joules)
        line += fmt::format(" · {} {} ± {} ({} mean)", scope, text::si(joules->value, "J"),
                            text::si(uncertainty_of(done.trials.front(), scope), "J"),
                            text::si(joules->value / done.trials.front().window_s, "W"));
    for (const EnergyRow& row : done.trials.front().energy)
      if (row.method == "estimate" && row.energy_j)
        line += fmt::format(" · {} about {} by {}, not measured", row.scope, text::si(*row.energy_j, "J"), row.domain);
    if (!done.summary.energy_reason.empty()) line += " · " + done.summary.energy_reason;
    if (done.summary.samples_per_s) line += fmt::format(" · {} samples/s", text::si(done.summary.samples_per_s->value));
    for (const auto& [scope, efficiency] : done.summary.samples_per_j)
      if (efficiency) line += fmt::format(" · {} samples/J ({})", text::si(efficiency->value), scope);
    fmt::print(stderr, "trainwatt meter: {}: {}\n", host_name(), text::printable(line));
    for (const EnergyRow& row : done.trials.front().energy)
      if (row.detail && row.reason != "duplicate")
        fmt::print(stderr, "trainwatt meter: {}: {}\n", row.domain, text::printable(*row.detail));
    for (const std::string& warning : report.context.warnings) say(warning);
    try {  // last: a full disk must not take the figures along
      write_atomically(out / "report.json", to_json(report));
      folders.keep();
    } catch (const std::system_error& error) {
      throw std::runtime_error(with_code(
          "not-written", fmt::format("{} could not be written; of {} only the figures above remain: {}",
                                     (out / "report.json").string(), done.id, why_not_written(out, error, "--out"))));
    }
    fmt::print(stderr, "trainwatt meter: report: {}\n", (out / "report.json").string());
    return ended;
  } catch (const std::exception& error) {
    say(error.what());
    return meter_failure;
  }
}

}  // namespace tw::tool
