// trainwatt-train: runs a plan's points on all ranks and hands their records over.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "bench/inventory/choose_device.hpp"
#include "bench/inventory/inventory.hpp"
#include "bench/plan/abilities.hpp"
#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/meter_options.hpp"
#include "bench/plan/shares.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/terminal/terminal.hpp"
#include "bench/train/dry_run.hpp"
#include "bench/train/export_step.hpp"
#include "bench/train/job/crash.hpp"
#include "bench/train/job/interruption.hpp"
#include "bench/train/job/options.hpp"
#include "bench/train/job/outcome.hpp"
#include "bench/train/node/device_choice.hpp"
#include "bench/train/point/measure_point.hpp"
#include "bench/train/point/point_config.hpp"
#include "bench/train/sweep/sweep.hpp"
#include "comm/launch.hpp"
#include "comm/registry.hpp"
#include "models/compute/registry.hpp"
#include "power/knob/guardian.hpp"
#include "power/knob/site.hpp"
#include "results/record/repeat_program.hpp"
#include "results/record/report_io.hpp"
#include "results/record/version.hpp"

namespace tw::bench {
namespace {

void say(const comm::Job& job, const std::string& text) {
  if (job.is_root()) say_on_stderr("trainwatt-train: " + text);
}

/// Understands arguments and config on all ranks alike, or throws Stop on all of them (collective). nullopt: text was
/// asked for, and is printed.
std::optional<Options> agree_on_options(comm::Job& job, int argc, char** argv) {
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
void agree_on_plan(comm::Job& job, const RunPlan& plan, const Options& options) {
  const std::vector<std::string> digests = job.gather(
      results::sha256_hex(fmt::format("{}|{}|{}|{}", results::program_info("").git_commit, plan.canonical_json(),
                                      plan.measurement.ceiling_seconds, fingerprint(options))));
  for (std::size_t rank = 1; rank < digests.size(); ++rank)
    if (digests[rank] != digests[0])
      throw Stop(exit_usage, "ranks-differ",
                 fmt::format("rank {} has other options, another config or another program version "
                             "than rank 0: start all ranks with the same command",
                             rank));
}

/// Whether these arguments may lead to settings, for which a guardian must stand by before MPI starts.
bool needs_guardian(int argc, char** argv) {
  const std::optional<Options> options = parse_options(argc, argv).options;
  return options && (!options->resume.empty() || may_set(*options));
}

bool sets(const RunPlan& plan, power::KnobKind kind) {
  return std::ranges::any_of(plan.points, [&](const Point& point) { return point.setting.count(kind) > 0; });
}

/// A command line as a launch had it.
std::optional<Options> parse_again(std::vector<std::string> command) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  return parse_options(static_cast<int>(argv.size()), argv.data()).options;
}

/// What a launch was asked for, by its options and those of the run that it resumes.
struct Asked {
  Options options;
  std::vector<std::string> command;       ///< of the run's first launch
  std::string config;                     ///< the text of the file --config names
  std::vector<LaunchDifference> changed;  ///< to the launch before
};

/// The run that --resume names, if it is there (collective).
Asked take_up(comm::Job& job, const RunFolder& folder, const Options& given, int argc, char** argv) {
  Asked asked{given, {argv, argv + argc}, "", {}};
  together(job, [&] {
    if (!folder.earlier()) {
      if (given.resumes_alone)
        throw UsageError("no-run",
                         fmt::format("--resume {}: no run in this folder: check the path, or add the options of a run "
                                     "to start one there",
                                     given.resume));
      return;
    }
    const results::RunStart& start = folder.earlier()->start;
    const std::optional<Options> before = parse_again(start.command);
    if (!given.resumes_alone) {
      if (before) asked.changed = differences(*before, given);
      return;
    }
    if (!before)
      throw UsageError(
          "bad-run",
          fmt::format("--resume {}: this version does not know the options of the run: give them again", given.resume));
    Options& options = asked.options;
    options = *before;
    if (given.run_index) options.run_index = given.run_index;
    asked.changed = differences(*before, options);
    options.out.clear();
    options.resume = given.resume;
    options.force = options.force || given.force;
    options.force_resume = given.force_resume;
    asked.command = start.command;
    asked.config = start.config;
  });
  // Read once, for all: a file on one node's disk or standard input is enough.
  on_root(job, [&] {
    if (!asked.options.config.empty() && !given.resumes_alone) asked.config = read_config_text(asked.options.config);
  });
  asked.config = job.broadcast(asked.config);
  std::string layers;
  on_root(job, [&] {
    read_files(asked.options);
    if (asked.options.given.contains("layers_file"))
      layers = std::get<JsonObject>(asked.options.given.at("layers_file")).text;
  });
  layers = job.broadcast(layers);
  if (!layers.empty()) asked.options.given["layers_file"] = JsonObject{layers};
  return asked;
}

/// The plan for the job's ranks on a device; shares of ranges are of the first rank's devices (collective).
RunPlan plan_for(comm::Job& job, const Asked& asked, const std::string& device) {
  Request request;
  together(job, [&] {
    // A file that one rank lacks is named after options in which ranks differ (check_site).
    if (std::filesystem::exists(asked.options.site)) check_kind("--site", asked.options.site, {InputKind::site});
    request = request_of(asked.options, asked.config);
  });
  std::string ranges;
  on_root(job, [&] {
    if (has_shares(request)) ranges = pack_ranges(abilities_here({}, power::find_knobs({asked.options.site})).knobs);
  });
  ranges = job.broadcast(ranges);
  RunPlan plan;
  together(job, [&] {
    check_class(request, device);
    resolve_shares(request, device, unpack_ranges(ranges));
    plan = make_plan(request, job.size(), device);
  });
  return plan;
}

/// What no point should have to find out (collective).
void check_site(comm::Job& job, const RunPlan& plan, const Options& options) {
  together(job, [&] {
    if (!options.site.empty()) {
      check_kind("--site", options.site, {InputKind::site});
      for (const power::KnobFinding& knob : power::site::find_knobs(options.site))
        if (!knob.reason.empty() && sets(plan, knob.kind)) throw power::site::SiteError(knob.detail);
    }
    const power::MeterOptions meters =
        meter_options(options.energy_csv, options.estimate_watts, job.host(), job.nodes() == 1);
    if (job.is_node_leader()) check_meters(meters);
  });
}

int export_step(comm::Job& job, models::Device& device, const RunPlan& plan, const Options& options) {
  if (plan.points.front().task)
    throw Stop(exit_usage, "options-conflict",
               "--export-step: the point trains to a target: choose a plan without one");
  const std::string left_out = export_one_step(job, device, plan, plan.comm, options.export_step);
  if (!job.is_root()) return exit_good;
  std::printf("trainwatt-train: one step of %s is in %s\n", plan.points.front().id.c_str(),
              options.export_step.c_str());
  if (!left_out.empty()) say_on_stderr(warning_line("trainwatt-train", with_code("export-incomplete", left_out)));
  return exit_good;
}

int run(comm::Job& job, std::optional<power::Guardian>& guardian, int argc, char** argv) {
  const std::optional<Options> given = agree_on_options(job, argc, argv);
  if (!given) return exit_good;
  RunFolder folder(job, given->resume);
  const Asked asked = take_up(job, folder, *given, argc, argv);
  const Options& options = asked.options;
  DeviceChoice choice;
  together(job, [&] { choice = choose_device(options.device); });
  const RunPlan plan = plan_for(job, asked, choice.name);
  int requested_threads = 0;
  together(job, [&] { requested_threads = threads_requested(options); });
  agree_on_plan(job, plan, options);
  const int threads = choose_threads(requested_threads, job);
  const int index = gpu_index(job, choice.visible);
  std::unique_ptr<models::Device> device;
  together(job, [&] { device = models::create_device(choice.name, device_options(plan, index, threads)); });
  check_site(job, plan, options);
  if (const std::string why = comm::why_no_communicator(plan.comm, job, *device); !why.empty())
    throw Stop(
        exit_environment, "communicator-unusable",
        fmt::format("--comm {}: {}: choose another --comm, or leave it out for the one that fits", plan.comm, why));
  if (!choice.note.empty()) say(job, choice.note);
  if (plan.runs() > 1 && !options.run_index && !options.dry_run)
    say(job, fmt::format("the plan asks for {} runs; this launch is one of them: {} -- COMMAND starts all of them",
                         plan.runs(), results::repeat_program));
  if (options.dry_run) {
    dry_run(job, *device, plan, options);
    return exit_good;
  }
  if (!options.export_step.empty()) return export_step(job, *device, plan, options);
  return run_sweep({.job = job,
                    .device = *device,
                    .plan = plan,
                    .options = options,
                    .threads_requested = requested_threads,
                    .note = choice.note,
                    .argv = {argv, argv + argc},
                    .folder = folder,
                    .command = asked.command,
                    .config = asked.config,
                    .differences = asked.changed},
                   guardian);
}

}  // namespace
}  // namespace tw::bench

int main(int argc, char** argv) {
  tw::bench::write_stderr_by_lines();
  tw::bench::install_signal_handlers();
  std::optional<tw::power::Guardian> guardian;
  std::unique_ptr<tw::comm::Job> job;
  const auto say = [](const std::string& text) {
    tw::bench::say_on_stderr(tw::bench::error_line("trainwatt-train", text));
  };
  /// The exit code, or that of a standard output that is full.
  const auto arrived = [&](int code) -> int {
    const std::string fault = tw::bench::stdout_fault();
    if (fault.empty()) return code;
    say(fault);
    return tw::bench::exit_environment;
  };
  // A process that no launcher has started prints --help, --version and a wrong option without MPI, whose start and end
  // take a second. So does each with --describe, while a package is built where MPI cannot start.
  if (tw::comm::read_launch().marker.empty() || (argc > 1 && std::string_view(argv[1]).starts_with("--describe"))) {
    const tw::bench::ParseResult parsed = tw::bench::parse_options(argc, argv);
    if (!parsed.options) {
      if (parsed.exit_code != tw::bench::exit_good) return say(parsed.text), parsed.exit_code;
      std::fputs(parsed.text.c_str(), stdout);
      return arrived(tw::bench::exit_good);
    }
  }
  try {
    if (tw::bench::needs_guardian(argc, argv)) guardian.emplace();
    job = std::make_unique<tw::comm::Job>(&argc, &argv);
    tw::bench::bound_crash_handlers();
  } catch (const tw::comm::LauncherMismatch& error) {
    say(tw::bench::with_code("launcher-mismatch", error.what()));
    return tw::bench::exit_environment;
  } catch (const std::exception& error) {
    say(tw::bench::with_code("cannot-start", error.what()));
    return tw::bench::exit_environment;
  }
  try {
    return arrived(tw::bench::run(*job, guardian, argc, argv));
  } catch (const tw::bench::Stop& stop) {  // agreed upon: every rank is here
    if (job->is_root()) say(tw::bench::coded(stop));
    return stop.code();
  } catch (const std::exception& error) {  // this rank alone: the others may wait in a collective
    const std::string text = tw::bench::coded(error);
    say(tw::bench::with_code(tw::bench::code_of(text), fmt::format("rank {} on {}: {}", job->rank(), job->host(),
                                                                   tw::bench::without_code(text))));
    if (job->size() == 1) return tw::bench::exit_code_of(error);
    job->abort(tw::bench::exit_code_of(error));
  }
}
