// trainwatt-train: runs a plan's points on all ranks and hands their records over.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "bench/inventory/inventory.hpp"
#include "bench/inventory/preflight.hpp"
#include "bench/train/options.hpp"
#include "bench/train/outcome.hpp"
#include "bench/train/run_point.hpp"
#include "bench/train/set_points.hpp"
#include "bench/train/settings.hpp"
#include "comm/bucketer.hpp"
#include "models/compute/registry.hpp"
#include "power/guardian.hpp"
#include "results/conditions.hpp"
#include "results/report_io.hpp"
#include "results/tables.hpp"
#include "results/verdict.hpp"
#include "results/version.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;

constexpr double idle_seconds = 1;

std::string utc_now(const char* format) { return fmt::format(fmt::runtime(format), fmt::gmtime(std::time(nullptr))); }
std::string rfc3339_now() { return utc_now("{:%Y-%m-%dT%H:%M:%SZ}"); }

struct DeviceChoice {
  std::string name, note;  ///< a line to say about it; may be empty
};
/// `auto` takes CUDA where a GPU is visible and the cuda device has the operators to train, and says which way it went; a
/// visible GPU that cannot be used is an error, never a silent CPU run.
DeviceChoice choose_device(const std::string& wanted) {
  if (wanted != "auto") return {wanted, ""};
  for (const Backend& backend : backends()) {
    if (backend.kind != DeviceKind::cuda || backend.count() == 0) continue;
    if (backend.create({})->supports(Op::linear_forward, DType::float32)) return {"cuda", "device auto: a GPU is visible, so cuda is used"};
    return {"cpu", "device auto: a GPU is visible, but the cuda device cannot train yet, so the CPU is used"};
  }
  return {"cpu", ""};
}

/// Threads asked for: --threads, else OMP_NUM_THREADS (its first number, where it is a list), else 0.
int threads_requested(const Options& options) {
  if (options.threads > 0) return options.threads;
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text == nullptr || *text == '\0') return 0;
  const char* end = text + std::strcspn(text, ",");
  int threads = 0;
  const auto [last, error] = std::from_chars(text, end, threads);
  if (error != std::errc() || last != end || threads < 1)
    throw UsageError(fmt::format("OMP_NUM_THREADS={}: must be a number from 1, or unset", text));
  return threads;
}

/// Threads of this rank: as asked for, else the CPUs of the affinity mask shared out among the ranks on
/// this node that have the same mask (collective).
int choose_threads(int requested, Job& job) {
  const std::vector<int> affinity = affinity_list();
  const std::vector<std::string> masks = job.gather(fmt::format("{}:{}", job.node(), fmt::join(affinity, ",")));
  if (requested > 0) return requested;
  const auto sharers = std::count(masks.begin(), masks.end(), masks[static_cast<std::size_t>(job.rank())]);
  return std::max<int>(1, static_cast<int>(affinity.size()) / static_cast<int>(std::max<std::ptrdiff_t>(1, sharers)));
}

/// Root makes the folder before anything is measured; all ranks learn whether it could.
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

/// Removes folders that root made, where they are still empty at the end: a corrected command then finds them free.
class RemovedIfEmpty {
 public:
  RemovedIfEmpty(const Job& job, fs::path folder) : folder_(job.is_root() ? std::move(folder) : fs::path()) {}
  RemovedIfEmpty(const RemovedIfEmpty&) = delete;
  RemovedIfEmpty& operator=(const RemovedIfEmpty&) = delete;
  ~RemovedIfEmpty() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove(folder_, ignored);
  }

 private:
  fs::path folder_;
};

/// A sibling of the folder that is asked for, into which everything is written before it gets its name; gone with what it
/// holds where that did not happen.
class Partial {
 public:
  Partial(Job& job, const fs::path& folder) : root_(job.is_root()), folder_(folder), partial_(folder) {
    partial_ += ".partial";
    make_folder(job, partial_, "--export-step");
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;
  ~Partial() {
    std::error_code ignored;
    if (root_) fs::remove_all(partial_, ignored);
  }
  const fs::path& path() const { return partial_; }
  void commit() const {
    if (root_) fs::rename(partial_, folder_);  // over the empty folder of that name
  }

 private:
  bool root_;
  fs::path folder_, partial_;
};

/// out/<what>-<UTC time>, the same on all ranks; with a number behind it where that is taken.
fs::path default_folder(Job& job, const RunPlan& plan) {
  const std::string suite = plan.suite.substr(0, plan.suite.find(changed_suite));
  const std::string what = suite == "command-line" ? plan.points.front().network.name : fs::path(suite).stem().string();
  const std::string base = fmt::format("out/{}-{}", what, utc_now("{:%Y%m%dT%H%M%SZ}"));
  std::string folder = base;
  std::error_code ignored;
  for (int i = 2; job.is_root() && fs::exists(folder, ignored); ++i) folder = fmt::format("{}-{}", base, i);
  return job.broadcast(folder);
}

/// Where the table's lines may be in colour: Open MPI gives ranks a terminal of its own, and what it copies goes to a log.
bool is_colourful(const Job& job) {
  const char* no_color = std::getenv("NO_COLOR");
  return job.launcher() == "none" && isatty(STDOUT_FILENO) != 0 && (no_color == nullptr || *no_color == '\0');
}

double expected_seconds(const RunPlan& plan) {
  const Measurement& m = plan.measurement;
  if (m.steps) return 0;
  return static_cast<double>(plan.points.size()) * (m.window_seconds * (m.trials + 0.15) + m.ceiling_seconds + 1);
}

std::string short_result(const Record& record) {
  if (record.verdict.status == "unsupported" || record.verdict.status == "failed")
    return record.verdict.status + ": " + (record.verdict.reasons.empty() ? "" : record.verdict.reasons.front());
  const Summary& s = record.summary;
  std::string text = record.verdict.status;
  const auto& rate = s.tokens_per_s ? s.tokens_per_s : s.samples_per_s;
  if (rate) text += fmt::format(" · {:.4g} {}", rate->value, s.tokens_per_s ? "tokens/s" : "samples/s");
  if (s.of_ceiling) text += fmt::format(" · {:.2f} of ceiling", *s.of_ceiling);
  if (s.loss_first && s.loss_last) text += fmt::format(" · loss {:.3f} → {:.3f}", *s.loss_first, *s.loss_last);
  return text;
}

/// "rapl: no_driver": each source's reason once; empty where any meter answers.
std::string why_no_energy(const std::vector<MeterEntry>& meters) {
  std::string reasons;
  for (const MeterEntry& meter : meters) {
    if (meter.available) return {};
    const std::string reason = meter.domain + ": " + meter.reason;
    if (reasons.find(reason) == std::string::npos) reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  return reasons;
}

void say(const Job& job, const std::string& text) {
  if (job.is_root()) std::fprintf(stderr, "trainwatt-train: %s\n", text.c_str());
}

/// What this rank is and where it sits, gathered from all ranks into the report's context (collective).
Context gather_context(Job& job, const Device& device, int argc, char** argv, EnergyWindow& energy, const fs::path& out,
                       int threads_requested, std::vector<std::string>& flags) {
  Context context;
  context.started_at = rfc3339_now();
  context.argv.assign(argv, argv + argc);
  context.environment = relevant_environment();
  context.versions = library_versions();
  context.versions["mpi"] = job.library();
  for (const std::string& library : device.info().libraries) context.versions[library.substr(0, library.find(' '))] = library;
  context.launcher = job.launcher();
  const std::vector<std::string> hosts = job.gather(job.is_node_leader() ? pack(inspect_host()) : std::string());
  for (const std::string& host : hosts)
    if (!host.empty()) context.hosts.push_back(unpack_host(host));
  for (const std::string& entry : job.gather(pack(inspect_device(device, job.rank())))) context.devices.push_back(unpack_device(entry));
  context.meters = energy.entries();
  std::vector<Warning> warnings = preflight(context.devices, context.hosts, threads_requested);
  for (Warning& warning : warn_disk_space(disk_available_bytes(out), std::uint64_t{64} << 20, out.string()))
    warnings.push_back(std::move(warning));
  for (const Warning& warning : warnings) {
    if (std::ranges::find(flags, warning.flag) == flags.end()) flags.push_back(warning.flag);
    context.warnings.push_back(warning.text);
  }
  return context;
}

int export_one_step(Job& job, Device& device, const RunPlan& plan, const Options& options) {
  if (plan.points.size() != 1) throw Stop(exit_usage, "--export-step takes one point: give one model, precision and batch");
  const Point& point = plan.points.front();
  if (!point.setting.empty())
    throw Stop(exit_usage, "--export-step leaves clocks and power limits as found: leave out --gpu-clock and the like");
  if (const std::string why = job.agree(why_unsupported(point, device)); !why.empty()) throw Stop(exit_environment, why);
  if (const std::string why = job.agree(why_too_large(point, plan, job, device.info().threads)); !why.empty()) throw Stop(exit_environment, why);
  make_folder(job, options.export_step, "--export-step");
  const RemovedIfEmpty made(job, options.export_step);
  const Partial partial(job, options.export_step);
  Trainer trainer(device, trainer_config(point, plan, job.rank()));
  const std::unique_ptr<Communicator> communicator = job.communicator(device);
  Bucketer bucketer(*communicator);
  GradientSync sync;
  sync.ready = [&](Stream& stream, Tensor gradients, GradientRange range) { bucketer.ready(stream, gradients, range.begin, range.end); };
  sync.finish = [&](Stream& stream, Tensor gradients) { bucketer.finish(stream, gradients); };
  trainer.export_step(partial.path().string(), sync);
  together(job, [&] { partial.commit(); });
  if (job.is_root()) std::printf("%s: one step of %s is in %s\n", "trainwatt-train", point.id.c_str(), options.export_step.c_str());
  return exit_good;
}

int measure(Job& job, Device& device, const RunPlan& plan, const Options& options, const std::string& note,
            std::optional<Guardian>& guardian, int argc, char** argv) {
  const fs::path out = !options.out.empty() ? fs::path(options.out) : default_folder(job, plan);
  // What no point can do is the user's to know before a folder is made.
  std::string first_obstacle;
  std::size_t obstacles = 0;
  for (const Point& point : plan.points) {
    std::string why = job.agree(why_unsupported(point, device));
    if (why.empty()) why = job.agree(why_too_large(point, plan, job, device.info().threads));
    if (!why.empty() && obstacles++ == 0) first_obstacle = why;
  }
  if (obstacles == plan.points.size()) throw Stop(exit_environment, first_obstacle);
  make_folder(job, out, "--out");
  const RemovedIfEmpty made(job, out);

  Report report;
  MeterOptions meters;
  if (!options.energy_csv.empty()) {
    // One series read by several nodes would be counted by each.
    const std::string place = "{host}";
    std::string path = options.energy_csv;
    if (const std::size_t at = path.find(place); at != std::string::npos)
      path.replace(at, place.size(), job.host());
    else if (job.nodes() > 1)
      throw Stop(exit_usage, "--energy-csv " + path + ": has to hold {host}, since each of several nodes has a meter of its own");
    meters.external_csv = path;
  }
  meters.estimate_watts = options.estimate_watts;
  const Machines machines(job);
  EnergyWindow energy(job, machines, meters);
  std::vector<std::string> flags;
  report.program = program_info("trainwatt-train");
  report.plan.suite = plan.suite;
  report.plan.canonical_json = plan.canonical_json();
  report.context = gather_context(job, device, argc, argv, energy, out, threads_requested(options), flags);
  if (!note.empty()) {
    report.context.warnings.push_back(note);
    if (plan.device == "cpu") flags.emplace_back("gpu_unused");
  }
  Progress progress(job.is_root(), static_cast<int>(plan.points.size()), expected_seconds(plan));
  progress.line(fmt::format("trainwatt-train: {} · {} {} on {} · device {} ({}), {} a rank", plan.suite,
                            plan.points.size() == 1 ? "1 point," : fmt::format("{} points,", plan.points.size()),
                            job.size() == 1 ? "1 rank" : fmt::format("{} ranks", job.size()),
                            job.nodes() == 1 ? job.host() : fmt::format("{} nodes", job.nodes()), plan.device,
                            device.info().name,
                            device.info().threads == 1 ? "1 thread" : fmt::format("{} threads", device.info().threads)));
  for (const std::string& warning : report.context.warnings) progress.line("warning: " + warning);

  RunContext context{job, device, plan, energy, progress, options.bucket_mib, why_no_energy(report.context.meters), flags};
  context.found = found_settings(report.context.hosts);
  context.gpus = machines.visible_anywhere();
  if (const std::string& unclear = machines.unclear_anywhere(); !unclear.empty()) {
    for (const Point& point : plan.points)
      for (const auto& [kind, value] : point.setting)
        if (std::string_view(to_string(kind)).starts_with("gpu_")) throw Stop(exit_usage, unclear);
    report.context.warnings.push_back("no joules of GPUs: " + unclear);
    progress.line("warning: " + report.context.warnings.back());
  }
  std::optional<JobSettings> settings;
  if (std::ranges::any_of(plan.points, [](const Point& point) { return !point.setting.empty(); })) {
    JobSettingsOptions wanted;
    wanted.site = options.site;
    wanted.force = options.force;
    for (const Point& point : plan.points)
      for (const auto& [kind, value] : point.setting) wanted.kinds.insert(kind);
    if (!machines.has_part()) guardian.reset();  // it will hold no settings
    settings.emplace(job, machines, wanted);
    context.settings = &*settings;
    for (const std::string& line : settings->recovered()) progress.line("put back: " + line);
  } else {
    guardian.reset();
  }
  report.context.idle_power = energy.idle("before", idle_seconds);
  // What ended the run before its last point: what was finished until then is reported all the same.
  std::optional<Stop> ended;
  for (std::size_t i = 0; i < plan.points.size() && !ended; ++i) {
    progress.begin_point(static_cast<int>(i), plan.points[i].id);
    try {
      report.records.push_back(run_point(context, plan.points[i]));
      const Record& record = report.records.back();
      progress.end_point(short_result(record));
      const bool earlier_changed = flag_unstable(report);
      // On disk before the next point starts: a kill loses at most the point in flight.
      together(job, [&] {
        if (job.is_root()) keep_last_record(out / "records.jsonl", report.records, earlier_changed);
      });
    } catch (const Stop& stop) {
      ended = stop;
      report.context.warnings.push_back(
          fmt::format("interrupted {} in {}: {} of {} points are complete",
                      stop.code() == exit_interrupted ? "by a signal" : fmt::format("({})", stop.what()), plan.points[i].id,
                      report.records.size(), plan.points.size()));
    }
  }
  if (settings)
    for (const std::string& line : settings->restore()) {
      report.context.warnings.push_back("not put back: " + line);
      progress.line("warning: " + report.context.warnings.back());
    }
  if (!ended)
    for (IdleRow& row : energy.idle("after", idle_seconds)) report.context.idle_power.push_back(std::move(row));
  report.context.finished_at = rfc3339_now();
  const fs::path path = out / "report.json";
  if (job.is_root() && !report.records.empty())  // first: a full disk must not take the figures along
    std::printf("\n%s\n", summary_table(report, {is_colourful(job), 100}).c_str());
  together(job, [&] {
    if (!job.is_root()) return;
    if (!report.records.empty()) {
      write_atomically(path, to_json(report));
      std::printf("report: %s\n", path.c_str());
    }
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
  });
  if (ended) {
    say(job, report.context.warnings.back());
    return ended->code();
  }
  const bool any_valid = std::ranges::any_of(report.records, [](const Record& r) { return r.verdict.status == "valid"; });
  if (!any_valid && std::ranges::any_of(report.records, has_refused_setting)) return exit_environment;
  return exit_code(report);
}

/// Understands arguments and config on all ranks alike, or throws Stop on all of them (collective). nullopt: text was
/// asked for, and is printed.
std::optional<Options> agree_on_options(Job& job, int argc, char** argv) {
  const ParseResult parsed = parse_options(argc, argv);
  const std::vector<std::string> codes = job.gather(parsed.options ? "" : std::to_string(parsed.exit_code));
  const std::vector<std::string> texts = job.gather(parsed.options ? "" : parsed.text);
  for (std::size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank].empty()) continue;
    if (codes[rank] != "0") throw Stop(std::stoi(codes[rank]), texts[rank]);
    if (job.is_root()) std::fputs(texts[rank].c_str(), stdout);
    return std::nullopt;
  }
  return parsed.options;
}

/// The ranks may have been given different arguments, or programs: a point measured by different rules on each is none.
void agree_on_plan(Job& job, const RunPlan& plan, const Options& options) {
  const std::vector<std::string> digests = job.gather(sha256_hex(
      fmt::format("{}|{}|{}|{}|{}|{}", program_info("").git_commit, plan.canonical_json(), options.bucket_mib,
                  plan.measurement.ceiling_seconds, options.out, options.export_step)));
  for (std::size_t rank = 1; rank < digests.size(); ++rank)
    if (digests[rank] != digests[0])
      throw Stop(exit_usage, fmt::format("rank {} was started with other options, another config or another version of the "
                                         "program than rank 0: start all ranks alike",
                                         rank));
}

/// Whether these arguments may lead to settings, for which a guardian must stand by before MPI starts.
bool may_set(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--config")) return true;
    for (const SettingAxis& axis : setting_axes())
      if (word.starts_with(axis.option)) return true;
  }
  return false;
}

int run(Job& job, std::optional<Guardian>& guardian, int argc, char** argv) {
  const std::optional<Options> parsed = agree_on_options(job, argc, argv);
  if (!parsed) return exit_good;
  const Options& options = *parsed;
  // Read once, for all: a file on one node's disk or standard input is enough.
  std::string config_text;
  together(job, [&] {
    if (job.is_root() && !options.config.empty()) config_text = read_config_text(options.config);
  });
  config_text = job.broadcast(config_text);
  DeviceChoice choice;
  RunPlan plan;
  int requested_threads = 0;
  together(job, [&] {
    choice = choose_device(options.device);
    plan = make_plan(request_of(options, config_text), job.size(), choice.name);
    requested_threads = threads_requested(options);
  });
  agree_on_plan(job, plan, options);
  const int threads = choose_threads(requested_threads, job);
  std::unique_ptr<Device> device;
  together(job, [&] { device = create_device(choice.name, DeviceOptions{job.local_rank(), threads}); });
  if (!choice.note.empty()) say(job, choice.note);
  if (!options.export_step.empty()) return export_one_step(job, *device, plan, options);
  return measure(job, *device, plan, options, choice.note, guardian, argc, argv);
}

}  // namespace
}  // namespace tw

int main(int argc, char** argv) {
  tw::install_signal_handlers();
  std::optional<tw::Guardian> guardian;
  std::unique_ptr<tw::Job> job;
  try {
    if (tw::may_set(argc, argv)) guardian.emplace();
    job = std::make_unique<tw::Job>(&argc, &argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trainwatt-train: error: cannot start: %s\n", error.what());
    return tw::exit_environment;
  }
  try {
    return tw::run(*job, guardian, argc, argv);
  } catch (const tw::Stop& stop) {  // agreed upon: every rank is here
    if (job->is_root()) std::fprintf(stderr, "trainwatt-train: error: %s\n", stop.what());
    return stop.code();
  } catch (const std::exception& error) {  // this rank alone: the others may wait in a collective
    std::fprintf(stderr, "trainwatt-train: error: rank %d on %s: %s\n", job->rank(), job->host().c_str(), error.what());
    if (job->size() == 1) return tw::exit_code_of(error);
    job->abort(tw::exit_code_of(error));
  }
}
