#include "bench/train/sweep/sweep.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

#include "bench/inventory/inventory.hpp"
#include "bench/plan/batch.hpp"
#include "bench/plan/forecast.hpp"
#include "bench/plan/options/meter_options.hpp"
#include "bench/plan/search.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/terminal/terminal.hpp"
#include "bench/train/job/outcome.hpp"
#include "bench/train/job/slurm.hpp"
#include "bench/train/node/busy_nodes.hpp"
#include "bench/train/node/job_settings.hpp"
#include "bench/train/point/measure_point.hpp"
#include "bench/train/point/micro_batch.hpp"
#include "bench/train/point/point_config.hpp"
#include "bench/train/point/progress.hpp"
#include "bench/train/sweep/cool_down.hpp"
#include "bench/train/sweep/in_flight.hpp"
#include "bench/train/sweep/search_run.hpp"
#include "results/analysis/conditions.hpp"
#include "results/analysis/context_warnings.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/known_texts.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"
#include "results/selection/search.hpp"
#include "results/terminal/choice.hpp"
#include "results/terminal/tables.hpp"

namespace tw::bench {
namespace {

namespace fs = std::filesystem;

std::string rfc3339_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))); }

/// A name that no other launch has.
std::string new_launch() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

/// 0 where a number of steps, or a target, was asked for.
double expected_point_seconds(const RunPlan& plan) {
  return plan.points.front().task ? 0 : window_seconds_of(plan.measurement).value_or(0);
}

/// Throws Stop on all ranks where no point of the plan can run (collective). Memory that the machine has, but not free,
/// is named first, then memory that it lacks, then what the device does not support, so that the exit code does not
/// depend on the order of the points.
void refuse_where_none_can_run(const Sweep& sweep) {
  std::string unsupported;
  std::map<int, std::string> too_large;  // by exit code; the first of each
  for (const Point& point : sweep.plan.points) {
    if (std::string why = sweep.job.agree(why_unsupported(point, sweep.device)); !why.empty()) {
      if (unsupported.empty()) unsupported = std::move(why);
      continue;
    }
    const Point sized = at_declared_size(point, sweep.plan);
    std::string why = sweep.job.agree(why_too_large(sized, sweep.plan, sweep.job, sweep.device));
    if (why.empty()) return;
    too_large.emplace(exit_code_of_too_large(point, sweep.plan, sweep.job, sweep.device), std::move(why));
  }
  if (!too_large.empty()) throw Stop(too_large.rbegin()->first, "out-of-memory", too_large.rbegin()->second);
  if (!unsupported.empty()) throw Stop(exit_environment, "unsupported", unsupported);
}

power::MeterOptions meters_of(const Sweep& sweep) {
  const Options& options = sweep.options;
  return meter_options(options.energy_csv, options.estimate_watts, sweep.job.host(), sweep.job.nodes() == 1);
}

/// As long as a trial, and a minute at most; nothing where a number of steps was asked for, to have a look.
double most_cool_down_seconds(const RunPlan& plan) {
  return plan.measurement.steps ? 0 : std::min(plan.measurement.window_seconds, 60.0);
}

class Run {
 public:
  explicit Run(const Sweep& sweep)
      : sweep_(sweep),
        job_(sweep.job),
        plan_(sweep.plan),
        out_(sweep.folder.path()),
        account_(out_),
        machines_(job_, power::name_of_gpu(sweep.device.info().uuid).whole),
        energy_(job_, machines_, meters_of(sweep)),
        teams_(job_, machines_, meters_of(sweep), energy_) {}

  int operator()(std::optional<power::Guardian>& guardian) {
    report_.program = results::program_info("trainwatt-train");
    report_.plan.suite = plan_.suite;
    report_.plan.canonical_json = plan_.canonical_json();
    report_.plan.kit = plan_.kit;
    gather_context();
    const results::Scope searched =
        plan_.search ? scope_to_search(plan_, report_.context.meters) : results::Scope::none;
    take_over();
    on_root(job_, [&] { keep_start(); });
    progress_ = Progress(job_.is_root(), points_to_measure(), expected_point_seconds(plan_),
                         static_cast<int>(finished_.size()));
    say_what_runs();
    if (plan_.search) progress_.line(fmt::format("search: by {} energy", results::to_string(searched)));
    RunContext context{.job = job_,
                       .device = sweep_.device,
                       .plan = plan_,
                       .energy = energy_,
                       .progress = progress_,
                       .bucket_mib = sweep_.options.bucket_mib,
                       .energy_reason = why_no_energy(report_.context.meters),
                       .flags = flags_,
                       .found = found_settings(report_.context.hosts),
                       .gpus = machines_.visible_anywhere(),
                       .teams = &teams_,
                       .started = started_,
                       .micro_batches = &micro_batches_};
    micro_batches_ = recalled_micro_batches(plan_, report_.records);
    check_gpus();
    // Also where the plan sets nothing: it must not be measured under what a dead run has left.
    JobSettingsOptions wanted;
    wanted.site = sweep_.options.site;
    wanted.force = sweep_.options.force;
    wanted.kinds = kinds_of(plan_);
    wanted.sets = !wanted.kinds.empty();
    if (!wanted.sets || !machines_.has_part()) guardian.reset();  // it will hold no settings
    settings_.emplace(job_, machines_, wanted);
    if (wanted.sets) context.settings = &*settings_;
    context.looks_after = &*settings_;
    guardian_ = guardian ? &*guardian : nullptr;
    tell_settings();
    report_.context.idle_power = energy_.idle(results::IdleTime::before);
    const std::optional<Stop> ended = run_points(context);
    const bool as_found = settings_->restore();
    settings_->look_beside();
    tell_settings();
    if (!ended)
      std::ranges::move(energy_.idle(results::IdleTime::after), std::back_inserter(report_.context.idle_power));
    report_.context.finished_at = rfc3339_now();
    std::optional<Stop> unwritten;  // after what is lost already was named
    try {
      hand_over(ended && ended->code() == exit_interrupted);
    } catch (const Stop& stop) {
      if (!ended) throw;
      unwritten = stop;
    }
    if (ended) return say_end(*ended, unwritten, as_found);
    if (const std::string refused = job_.is_root() ? why_refused(report_) : ""; !refused.empty())
      say_on_stderr(error_line("trainwatt-train", refused));
    const int code = std::stoi(job_.broadcast(std::to_string(exit_code_of(report_))));  // root has all the records
    return as_found ? code : exit_environment;
  }

 private:
  /// Settings of GPUs need to be those of the job's GPUs.
  void check_gpus() {
    const std::string& unclear = machines_.unclear_anywhere();
    if (unclear.empty()) return;
    for (const power::KnobKind kind : kinds_of(plan_))
      if (std::string_view(power::to_string(kind)).starts_with("gpu_")) throw Stop(exit_usage, "gpus-unclear", unclear);
    report_.context.warnings.push_back("GPU energy is not measured: " + unclear);
    progress_.warn("gpu-energy-missing", report_.context.warnings.back());
  }

  /// What ended the run early, and what to do; its exit code.
  int say_end(const Stop& ended, const std::optional<Stop>& unwritten, bool as_found) const {
    if (!job_.is_root()) return as_found ? ended.code() : exit_environment;
    const auto say = [](const std::string& text) { say_on_stderr(error_line("trainwatt-train", text)); };
    say(interrupted_);
    if (unwritten) say(unwritten->what());
    if (!report_.records.empty() || ended.code() == exit_interrupted)
      say_on_stderr("trainwatt-train: continue with " + resume_command(report_.context, out_));
    if (!as_found)
      say(with_code("not-restored", "some settings could not be restored (see above): run trainwatt restore"));
    return as_found ? ended.code() : exit_environment;
  }

  /// What each rank is and where it sits, from all ranks, into the report's context (collective).
  void gather_context() {
    results::Context& context = report_.context;
    context.launch = job_.broadcast(job_.is_root() ? new_launch() : "");
    if (sweep_.options.run_index) context.run_index = static_cast<int>(*sweep_.options.run_index);
    context.started_at = rfc3339_now();
    started_ = std::chrono::steady_clock::now();
    context.argv = sweep_.argv;
    context.environment = relevant_environment();
    context.versions = library_versions();
    context.versions["mpi"] = job_.library();
    for (const std::string& library : sweep_.device.info().libraries)
      context.versions[results::text::library_name(library)] = library;
    context.launcher = job_.launcher();
    for (const std::string& host : job_.gather(job_.is_node_leader() ? to_json_line(inspect_node()) : std::string()))
      if (!host.empty()) context.hosts.push_back(results::host_from_json(host));
    for (const std::string& entry : job_.gather(to_json_line(inspect_device(sweep_.device, job_.rank()))))
      context.devices.push_back(results::device_from_json(entry));
    context.meters = energy_.entries();
    std::vector<results::Warning> warnings = results::context_warnings(context, sweep_.threads_requested);
    constexpr std::uint64_t needed_bytes = std::uint64_t{64} << 20;
    std::ranges::move(results::warn_disk_space(disk_available_bytes(out_), needed_bytes, out_.string()),
                      std::back_inserter(warnings));
    for (std::string& line : shared_devices(context.meters))
      warnings.push_back({results::Flag::shared_device, std::move(line)});
    if (const std::string warning = job_.broadcast(sweep_.folder.warning()); !warning.empty()) warn(warning);
    for (const results::Warning& warning : warnings) {
      if (std::ranges::count(flags_, results::FlagName(warning.flag)) == 0) flags_.push_back(warning.flag);
      std::string code = results::FlagName(warning.flag).name;
      std::ranges::replace(code, '_', '-');
      warn(with_code(code, warning.text));
    }
    for (const std::string& line : busy_nodes(job_, sweep_.device.info().threads)) warn(with_code("busy-node", line));
    for (const std::string& why : plan_.left_out) warn(with_code("left-out", "left out: " + why));
    if (sweep_.note.empty()) return;
    warn(with_code("device-choice", sweep_.note));
    if (plan_.device == "cpu") flags_.emplace_back(results::Flag::gpu_unused);
  }

  /// For people before the first point, and in the report. `text` carries its code.
  void warn(const std::string& text) {
    report_.context.warnings.emplace_back(without_code(text));
    warnings_.push_back(text);
  }

  /// The finished points of the launches before. Throws Stop if these were not the same run.
  void take_over() {
    const std::optional<Earlier>& earlier = sweep_.folder.earlier();
    if (!earlier) return;
    // The first rank alone compares: what stands in the folder is of its machine, and another's may differ from the
    // start.
    std::vector<std::string> found;
    std::string others;
    parts_ = parts_of(*earlier);
    on_root(job_, [&] {
      bool is_usage = false;
      std::vector<LaunchDifference> all = differences(earlier->start, report_);
      all.insert(all.end(), sweep_.differences.begin(), sweep_.differences.end());
      for (const LaunchDifference& one : all) {
        found.push_back(one.text);
        is_usage = is_usage || one.is_usage;
      }
      others = other_hosts(earlier->start, report_.context);
      if (found.empty() || sweep_.options.force_resume) return;
      forced_over_ = found;  // as --force-resume would have it
      report_.records = earlier->records, report_.parts = parts_so_far();
      const bool may_force = unfit_records(report_, true).empty();
      throw Stop(is_usage ? exit_usage : exit_environment, "not-same-run",
                 fmt::format("--resume {}: not the same run: {}: {}, or {}", out_.string(), fmt::join(found, "; "),
                             is_usage ? "start it with its original ranks and options: " +
                                            resume_command(earlier->start.context, out_)
                                      : "start it where it ran before",
                             may_force ? "continue with --force-resume: the report then lists the changes"
                                       : "start a new run in another folder: its finished points do not fit this run"));
    });
    std::istringstream differing(job_.broadcast(fmt::format("{}", fmt::join(found, "\n"))));
    for (std::string line; std::getline(differing, line);) forced_over_.push_back(line);
    if (others = job_.broadcast(others); !others.empty()) {
      flags_.emplace_back(results::Flag::other_hosts);
      warn(with_code("other-hosts", "resumed on " + others));
    }
    std::string ids;
    on_root(job_, [&] {
      report_.records = earlier->records;
      report_.parts = parts_so_far();
      if (const std::string why = unfit_records(report_, !forced_over_.empty()); !why.empty())
        throw Stop(exit_environment, "bad-run", fmt::format("{}: {}", (out_ / results::records_file).string(), why));
      for (const results::Record& record : report_.records) ids += record.id + "\n";
    });
    std::istringstream lines(job_.broadcast(ids));
    for (std::string id; std::getline(lines, id);) finished_.insert(id);
    // Absolute zero: nothing was measured before, or had no sensor.
    constexpr double none = -273;
    const bool known = job_.is_root() && !report_.records.empty() && report_.records.front().start;
    const double first = job_.maximum({known ? report_.records.front().start->temperature_c : none}).front();
    if (first > none) reference_c_ = first;
  }

  /// The launches before, and this one with what it has measured until now.
  std::vector<results::RunPart> parts_so_far() const {
    std::vector<results::RunPart> parts = parts_;
    results::RunPart& mine = parts.emplace_back(results::RunPart{report_.program, {}, forced_over_, std::nullopt});
    std::set<std::string> known;
    for (const results::RunPart& part : parts_) known.insert(part.points.begin(), part.points.end());
    for (const results::Record& record : report_.records)
      if (known.count(record.id) == 0) mine.points.push_back(record.id);
    return parts;
  }

  /// On disk for a launch that resumes this one: its start, and once more its end.
  void keep_start() {
    sweep_.folder.keep(
        {report_.program, report_.context, report_.plan, sweep_.command, sweep_.config, parts_, forced_over_});
  }

  /// Of a search as many as are likely.
  int points_to_measure() const {
    if (!plan_.search) return static_cast<int>(plan_.points.size());
    std::size_t looks = 0;
    for (const SearchSpace& space : search_spaces(plan_)) looks += likely_looks(space);
    return static_cast<int>(looks);
  }

  void say_what_runs() {
    const models::DeviceInfo& device = sweep_.device.info();
    const auto count = [](auto n, const char* one) {
      return n == 1 ? fmt::format("1 {}", one) : fmt::format("{} {}s", n, one);
    };
    progress_.line(fmt::format("trainwatt-train: {} · {}, {} on {} · device {} ({}), {} per rank", plan_.title(),
                               count(plan_.points.size(), "point"), count(job_.size(), "rank"),
                               job_.nodes() == 1 ? job_.host() : fmt::format("{} nodes", job_.nodes()), plan_.device,
                               device.name, count(device.threads, "thread")));
    if (!parts_.empty())
      progress_.line(
          fmt::format("resumed: {} of {} points are already measured{}", finished_.size(), plan_.points.size(),
                      forced_over_.empty()
                          ? ""
                          : fmt::format("; changes ignored by --force-resume: {}", fmt::join(forced_over_, "; "))));
    for (const std::string& warning : warnings_) progress_.warn(code_of(warning), std::string(without_code(warning)));
  }

  /// What ended the run before its last point, if anything: what was finished until then is reported all the same.
  std::optional<Stop> run_points(RunContext& context) {
    CoolDown cool_down(job_, energy_, progress_, most_cool_down_seconds(plan_), reference_c_);
    try {
      if (plan_.search) {
        const auto measure = [&](const Point& point) -> const auto& { return measured(context, cool_down, point); };
        report_.search = run_search(job_, plan_, measure);
        for (results::SearchOutcome& outcome : *report_.search) results::conclude(outcome, report_.records);
      } else {
        const auto run = static_cast<int>(sweep_.options.run_index.value_or(1));
        for (const std::size_t i : run_order(plan_, run)) measured(context, cool_down, plan_.points[i]);
      }
    } catch (const Stop& stop) {
      account_.leave();
      const bool by_signal = stop.code() == exit_interrupted;
      const std::string what(without_code(stop.what()));
      interrupted_ = fmt::format("{} in {}: {} of {}{} points are complete{}",
                                 by_signal ? what : results::interrupted.text() + " (" + what + ")", in_flight_,
                                 report_.records.size(), plan_.search ? "about " : "", points_to_measure(),
                                 by_signal ? ", this one will be measured again from its start" : "");
      report_.context.warnings.push_back(interrupted_);
      interrupted_ = with_code(by_signal ? "interrupted" : code_of(stop.what()), interrupted_);
      return stop;
    }
    return std::nullopt;
  }

  /// The point's record, of this launch or of an earlier one; on other ranks than root of an earlier one an empty one.
  const results::Record& measured(RunContext& context, CoolDown& cool_down, const Point& point) {
    if (finished_.count(point.id) > 0) {
      const auto known = std::ranges::find(report_.records, point.id, &results::Record::id);
      return known == report_.records.end() ? elsewhere_ : *known;
    }
    in_flight_ = point.id;
    if (guardian_ != nullptr) settings_->look_after(*guardian_);
    tell_settings();
    progress_.begin_point(point.id);
    const std::optional<results::StartTemperature> start = cool_down.before(point);
    report_.records.push_back(run_or_leave(context, point));
    // The point that it was lost in has its record; those behind it would fail of the same, and not by their fault.
    const std::string lost = job_.agree(why_lost(sweep_.device));
    tell_settings();
    report_.records.back().start = start;
    report_.records.back().launch = report_.context.launch;
    results::summarise_devices(report_.records.back(), report_.context.devices);  // root's: the record that is kept
    progress_.end_point(short_result(report_.records.back()), !report_.records.back().trials.empty());
    const bool earlier_changed = results::flag_unstable(report_);
    // On disk before the next point starts: a kill loses at most the point in flight.
    try {
      on_root(job_, [&] {
        try {
          results::keep_last_record(out_ / results::records_file, report_.records, earlier_changed);
        } catch (const std::system_error& error) {
          throw sweep_.folder.not_written(results::records_file, error, "only the figures above remain of " + point.id);
        }
      });
    } catch (const Stop&) {  // what is not on disk is in no report and in no table
      report_.records.pop_back();
      throw;
    }
    on_root(job_, [&] { account_.end(); });
    if (!lost.empty())
      throw Stop(exit_environment, "device-lost",
                 "the device no longer responds: " + lost + "; continue in a new process");
    return report_.records.back();
  }

  /// The point's new record; of a point that has ended jobs before, one that says so.
  results::Record run_or_leave(RunContext& context, const Point& point) {
    const std::string why = job_.broadcast(job_.is_root() ? account_.why_not(point.id) : "");
    if (!why.empty()) return failed_point(context, point, why);
    on_root(job_, [&] {
      try {
        account_.begin(point.id);
      } catch (const std::system_error& error) {
        throw Stop(exit_environment, "not-written", error.what() + sweep_.folder.how_to_go_on());
      }
    });
    try {
      return run_point(context, point);
    } catch (const Stop&) {
      throw;
    } catch (const std::exception& error) {  // this rank alone, and so the job
      InFlight::tell(out_, point.id, fmt::format("rank {} on {}: {}", job_.rank(), job_.host(), error.what()));
      throw;
    }
  }

  /// What has happened to settings beside what the points asked for.
  void tell_settings() {
    for (std::string& line : settings_->news()) {
      progress_.warn("settings", line);
      report_.context.warnings.push_back(std::move(line));
    }
  }

  /// `resumable`: a report without any record says at least that, and where the run was.
  void hand_over(bool resumable) {
    if (!parts_.empty()) report_.parts = parts_so_far();
    const fs::path path = out_ / results::report_file;
    if (job_.is_root() && !report_.records.empty())  // first: a full disk must not take the figures along
      std::printf("\n%s\n%s", results::summary_table(report_, style_of(job_)).c_str(),
                  results::search_text(report_, style_of(job_)).c_str());
    on_root(job_, [&] {
      if (!report_.records.empty() || resumable) {
        try {
          results::write_atomically(path, results::to_json(report_)), keep_start();
        } catch (const std::system_error& error) {
          throw sweep_.folder.not_written(results::report_file, error);
        }
        std::printf("report: %s\n", path.c_str());
      }
      if (std::fflush(stdout) != 0)
        throw Stop(exit_environment, "not-written", "standard output: " + std::generic_category().message(errno));
    });
  }

  const Sweep& sweep_;
  comm::Job& job_;
  const RunPlan& plan_;
  const fs::path out_;
  InFlight account_;  // root's
  const Machines machines_;
  // Before energy_, which is so destroyed first: after a signal its sampler may read these knobs until then.
  std::optional<JobSettings> settings_;
  EnergyWindow energy_;
  Teams teams_;
  Progress progress_{false, 0, 0};
  std::chrono::steady_clock::time_point started_;                   // as the context's started_at
  power::Guardian* guardian_ = nullptr;                             // of ranks that may hold settings
  results::Report report_;                                          // root has the records of earlier launches too
  std::vector<results::FlagName> flags_;                            // of the whole run
  std::vector<results::RunPart> parts_;                             // the launches before
  std::vector<std::string> forced_over_;                            // differences to the last of them
  std::set<std::string> finished_;                                  // their points
  std::map<std::string, results::MicroBatchSearch> micro_batches_;  // of automatic points, by size_key()
  std::string in_flight_;                                           // the point that is measured
  std::string interrupted_;                                         // why the run ended in it, with its code
  std::vector<std::string> warnings_;                               // of before the first point, with their codes
  const results::Record elsewhere_;                                 // returned on ranks whose record is only on root
  std::optional<double> reference_c_;                               // at which the first of them began
};

}  // namespace

int run_sweep(const Sweep& sweep, std::optional<power::Guardian>& guardian) {
  if (const std::optional<int> code = code_of_complete(sweep)) return *code;
  // What no point can do is the user's to know before a folder is made.
  refuse_where_none_can_run(sweep);
  if (!sweep.options.resume.empty())
    sweep.folder.create(sweep.options.resume, "--resume", sweep.plan);
  else
    sweep.folder.create(sweep.options.out, "--out", sweep.plan);
  return Run(sweep)(guardian);
}

}  // namespace tw::bench
