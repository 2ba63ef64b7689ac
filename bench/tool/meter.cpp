// `trainwatt meter -- CMD`: the joules of any command, in a report like any other.
#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "bench/inventory/inventory.hpp"
#include "bench/node_power/node_power.hpp"
#include "bench/plan/abilities.hpp"
#include "bench/plan/options/meter_options.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/terminal/terminal.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/options.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/meter/output_parser.hpp"
#include "bench/tool/meter/rendezvous.hpp"
#include "bench/tool/meter/run_command.hpp"
#include "bench/tool/terminal.hpp"
#include "power/knob/in_force.hpp"
#include "power/meter/descriptor.hpp"
#include "power/visible_gpus.hpp"
#include "results/analysis/trials.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/known_texts.hpp"
#include "results/record/names_format.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"

namespace tw::bench::tool {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct MeterCommand {
  Words words;
  std::string out;         ///< folder for report.json; empty: out/meter-<time>
  std::string energy_csv;  ///< this node's power by the site's own meter; empty: none
  std::optional<double> estimate_watts;
  bool parse = false;  ///< copy the command's output through, and look for samples in it
  const std::vector<std::string>& command() const { return words.behind_dashes; }
};

std::string utc_now(const char* format) { return fmt::format(fmt::runtime(format), fmt::gmtime(std::time(nullptr))); }

void say(const std::string& what) { say_on_stderr("trainwatt meter: " + what); }

fs::path out_folder(const std::string& wanted, const Place& place) {
  if (wanted.empty()) return utc_now("out/meter-{:%Y%m%dT%H%M%SZ}") + (place.ranks != 1 ? "-" + host_name() : "");
  return place.ranks != 1 ? fs::path(wanted) / host_name() : fs::path(wanted);  // a folder for each node's reader
}

/// A folder for a report, with those above it that were made for it; those that are empty go again unless they are
/// kept. It is locked meanwhile, so that an empty one is known to have no owner: a process that was killed has left it.
class NewFolders {
 public:
  NewFolders(fs::path folder, std::vector<fs::path> made);
  ~NewFolders() {
    std::error_code ignored;
    if (!kept_ && is_ours_)
      for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) fs::remove(*folder, ignored);
  }
  NewFolders(NewFolders&&) = default;
  bool is_ours() const { return is_ours_; }
  const fs::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  fs::path path_;
  std::vector<fs::path> made_;
  power::Descriptor lock_;
  bool is_ours_ = false, kept_ = false;
};

NewFolders::NewFolders(fs::path folder, std::vector<fs::path> made) : path_(std::move(folder)), made_(std::move(made)) {
  lock_ = power::Descriptor(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  is_ours_ = lock_.get() >= 0 && flock(lock_.get(), LOCK_EX | LOCK_NB) == 0;
  // Not every file system locks folders; no other process uses one that was created just now.
  if (!is_ours_ && !made_.empty() && errno != EWOULDBLOCK) is_ours_ = true;
  std::error_code error;
  is_ours_ = is_ours_ && fs::is_empty(path_, error) && !error;
}

/// Makes this folder, and what is missing above it, or takes an empty one. `may_number`: where it is there already,
/// another one with a number behind its name. Throws UsageError and EnvironmentError that name --out.
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

/// What a command did, as its exit code and what it says of itself.
struct Ended {
  int code = 0;
  bool all_ended = true;  ///< also the node's other tasks
};

/// A command that is measured, and the report that this makes. Its process reads the node's meters.
class Metering {
 public:
  Metering(const MeterCommand& options, const Place& place, std::optional<Rendezvous>& rendezvous)
      : options_(options), place_(place), rendezvous_(rendezvous) {}

  /// `gpus`: which of the node's are the job's. Throws where the command cannot be started.
  Ended run(const power::MeterOptions& meters, const GpuChoice& gpus) {
    begin_report();
    for (const GpuChoice::Unread& gpu : gpus.unread)
      warn("gpu-energy-missing",
           fmt::format("{}: the energy of this node's GPUs is not measured: {}", gpu.domain, gpu.detail));
    // Not under what a dead run has left.
    for (const std::string& line : power::settle_before_measuring(host_name())) warn("settings", line);
    NodePower power(host_name(), meters, gpus);
    report_.context.meters = power.entries();
    const std::vector<std::string> shared = shared_devices(report_.context.meters);
    for (const std::string& line : shared) warn("shared-device", line);
    if (!shared.empty()) record_.verdict.flags.emplace_back(results::Flag::shared_device);
    idle(power, results::IdleTime::before);
    const Ended ended = measure(power);
    idle(power, results::IdleTime::after);
    return ended;
  }

  void finish(const Ended& ended, bool all_here) {
    take_samples(all_here);
    fill_record(ended);
    report_.records.push_back(std::move(record_));
    report_.context.finished_at = utc_now("{:%Y-%m-%dT%H:%M:%SZ}");
    for (const std::string& warning : warnings_) report_.context.warnings.emplace_back(without_code(warning));
    print_figures();
    for (const std::string& warning : warnings_) say_warning(warning);
  }

  void warn(const char* code, const std::string& text) { warnings_.push_back(with_code(code, text)); }

  const results::Report& report() const { return report_; }

 private:
  void begin_report() {
    report_.program = results::program_info("trainwatt");
    results::Context& context = report_.context;
    context.started_at = utc_now("{:%Y-%m-%dT%H:%M:%SZ}");
    launched_ = Clock::now();
    context.argv = options_.words.all;
    context.environment = relevant_environment();
    context.launcher = place_.launcher;
    context.hosts.push_back(inspect_host());
  }

  void idle(NodePower& power, results::IdleTime when) {
    if (!power.has_meter()) return;
    power.begin();
    const std::chrono::duration<double> wanted(power.idle_seconds());
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(wanted);
    while (!told_to_end() && Clock::now() < until)
      std::this_thread::sleep_until(std::min(until, Clock::now() + std::chrono::milliseconds(100)));
    power.end();
    if (told_to_end())
      warn("no-idle-power",
           results::no_idle_power.text({results::to_string(when)}) + " the command: interrupted by a signal");
    else
      std::ranges::move(power.idle(when), std::back_inserter(report_.context.idle_power));
  }

  Ended measure(NodePower& power) {
    power.begin();
    const auto start = Clock::now();
    if (rendezvous_) rendezvous_->go();
    Ended ended;
    ended.code = run_command(options_.command(), options_.parse ? &parser_ : nullptr);
    ended.all_ended = !rendezvous_ || rendezvous_->wait();
    const auto end = Clock::now();
    trial_.window_s = std::chrono::duration<double>(end - start).count();
    trial_.start_s = std::chrono::duration<double>(start - launched_).count();
    trial_.step_time_s = {trial_.window_s};
    power.end();
    power.collect(trial_, start, end);  // before the next window
    return ended;
  }

  void take_samples(bool all_here) {
    if (!options_.parse) return;
    if (!all_here)
      return warn("samples-left-out",
                  "the command's samples are not used: they may be those of the whole job, and the "
                  "energy is this node's");
    trial_.samples = parser_.samples();
    if (trial_.samples) trial_.samples_s = parser_.seconds();
    if (trial_.samples_s && !(*trial_.samples_s <= trial_.window_s)) {
      warn("seconds-too-long",
           fmt::format("the command printed seconds={0}, but ran for {1:.3f} s: the throughput uses {1:.3f} s",
                       *trial_.samples_s, trial_.window_s));
      trial_.samples_s.reset();
    }
    std::ranges::move(parser_.warnings(), std::back_inserter(warnings_));
  }

  void fill_record(const Ended& ended) {
    const std::string name = fs::path(options_.command().front()).filename().string();
    record_.id = "command/" + name;
    results::Workload& w = record_.workload;
    w.model = name;
    w.device = to_string(results::DeviceKind::command), w.precision = "unknown", w.optimizer = "unknown";
    w.micro_batch = w.accumulate = w.global_batch = w.ranks = 1;
    w.hash = results::workload_hash(w);
    record_.trials.push_back(std::move(trial_));
    record_.summary.flops_rule = "none: the command's FLOPs are not known";
    record_.summary.of_ceiling_reason = record_.summary.mfu_reason = "not defined for a command";
    if (ended.code != 0) record_.verdict.reasons.push_back(fmt::format("command: ended with code {}", ended.code));
    if (!ended.all_ended)
      record_.verdict.reasons.emplace_back("command: a signal ended it before the node's other tasks had ended");
    results::summarise(record_);
    report_.plan.suite = results::command_suite;
    report_.plan.canonical_json = nlohmann::json{
        {"device", w.device},
        {"points", nlohmann::json::array({{{"id", record_.id}, {"model", w.model}, {"precision", "unknown"}}})},
        {"suite",
         results::command_suite}}.dump();
  }

  void print_figures() const {
    const results::Record& done = report_.records.front();
    const results::Trial& trial = done.trials.front();
    std::string line = results::text::duration(trial.window_s);
    for (const auto& [scope, joules] : done.summary.energy_j)
      if (joules)
        line += fmt::format(" · {} {} ± {} ({} mean)", scope, results::text::si(joules->value, "J"),
                            results::text::si(results::uncertainty_of(trial, scope), "J"),
                            results::text::si(joules->value / trial.window_s, "W"));
    for (const results::EnergyRow& row : trial.energy)
      if (row.method == results::Method::estimate && row.energy_j)
        line += fmt::format(" · {} about {}, estimated by {}, not measured", row.scope,
                            results::text::si(*row.energy_j, "J"), row.domain);
    if (!done.summary.energy_reason.empty()) line += " · " + done.summary.energy_reason;
    if (done.summary.samples_per_s)
      line += fmt::format(" · {} samples/s", results::text::si(done.summary.samples_per_s->value));
    for (const auto& [scope, efficiency] : done.summary.samples_per_j)
      if (efficiency) line += fmt::format(" · {} samples/J ({})", results::text::si(efficiency->value), scope);
    say(host_name() + ": " + line);
    for (const results::EnergyRow& row : trial.energy)
      if (row.detail && row.why() != results::Reason::duplicate) say(row.domain + ": " + *row.detail);
  }

  const MeterCommand& options_;
  const Place& place_;
  std::optional<Rendezvous>& rendezvous_;
  OutputParser parser_;
  results::Report report_;
  results::Record record_;
  results::Trial trial_;
  std::vector<std::string> warnings_;  // with their codes
  Clock::time_point launched_;
};

/// Last: a full disk must not take the figures along.
void write_report(const results::Report& report, NewFolders& folders) {
  const fs::path file = folders.path() / "report.json";
  try {
    results::write_atomically(file, results::to_json(report));
  } catch (const std::system_error& error) {
    throw EnvironmentError(
        "not-written", fmt::format("{}: cannot be written, and only the figures above remain of {}: {}", file.string(),
                                   report.records.front().id, why_not_written(folders.path(), error, "--out")));
  }
  folders.keep();
  say("report: " + file.string());
}

/// Runs a command and writes its joules to a report. Under mpirun or srun one process of each node reads.
int meter_command(const MeterCommand& options) {
  const Place place = find_place();
  // What one process says may be the whole job's; the joules are this node's.
  const bool all_here = place.ranks > 0 && place.ranks <= std::max(1, place.local_ranks);
  const power::MeterOptions meters = meter_options(options.energy_csv, options.estimate_watts, host_name(), all_here);
  check_meters(meters);
  const power::Sight sight = power::look();
  const Gpus visible{{sight.visible.begin(), sight.visible.end()}, sight.unclear};
  std::optional<Rendezvous> rendezvous;
  if (!place.meeting.empty()) rendezvous.emplace(place);
  bool in_place_of_first = false;
  if (rendezvous && !rendezvous->is_reader(place.local_rank)) {  // another process of this node reads
    const Rendezvous::Held held = rendezvous->hold(place.local_rank, visible);
    in_place_of_first = held == Rendezvous::Held::reads;
    if (held == Rendezvous::Held::alone)
      say_warning(
          with_code("no-reader",
                    "the task that reads this node's meters did not start within a minute: its report will lack "
                    "energy of this task"));
    if (!in_place_of_first) return run_command(options.command(), nullptr);
  }
  NewFolders folders = new_out_folder(out_folder(options.out, place), options.out.empty());
  Metering metering(options, place, rendezvous);
  if (in_place_of_first)
    metering.warn(
        "first-task-missing",
        fmt::format("the first task of this node does not run under trainwatt meter: {} reads the meters, and "
                    "only its output is parsed",
                    place.local_rank ? fmt::format("local rank {}", *place.local_rank) : "another task"));
  std::vector<Gpus> others;
  if (rendezvous) others = rendezvous->gather(in_place_of_first ? 0 : place.local_ranks);  // they had their time
  const Ended ended = metering.run(meters, choose_gpus(place, sight.addressable, visible, others));
  metering.finish(ended, all_here);
  write_report(metering.report(), folders);
  return ended.code;
}

}  // namespace

Action add_meter(CLI::App& command, const Words& words) {
  const auto options = std::make_shared<MeterCommand>();
  options->words = words;
  command.add_option("--out", options->out, "folder for report.json; must not exist (default out/meter-<time>)");
  command
      .add_flag(
          "--parse", options->parse,
          "pass the command's output through and look for samples in it: MLLOG\nlines, or samples=N [seconds=T], of "
          "which the last line counts as the\ntotal of the command")
      ->disable_flag_override();
  command.add_option("--energy-csv", options->energy_csv, energy_csv_help);
  command.add_option("--estimate-watts", options->estimate_watts,
                     "nominal power for an energy estimate, which is not counted");
  return [options] {
    try {
      return meter_command(*options);
    } catch (const std::exception& error) {
      say_error(coded(error));
      return meter_failure;
    }
  };
}

}  // namespace tw::bench::tool
