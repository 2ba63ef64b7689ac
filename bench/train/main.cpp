// trainwatt-train: runs a plan's points on all ranks and hands their records over.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "bench/inventory/choose_device.hpp"
#include "bench/inventory/inventory.hpp"
#include "bench/plan/abilities.hpp"
#include "bench/plan/options/meter_options.hpp"
#include "bench/plan/shares.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/train/dry_run.hpp"
#include "bench/train/export_step.hpp"
#include "bench/train/job/interruption.hpp"
#include "bench/train/job/options.hpp"
#include "bench/train/job/outcome.hpp"
#include "bench/train/node/device_choice.hpp"
#include "bench/train/point/measure_point.hpp"
#include "bench/train/point/point_config.hpp"
#include "bench/train/sweep/sweep.hpp"
#include "comm/registry.hpp"
#include "models/compute/registry.hpp"
#include "power/knob/guardian.hpp"
#include "power/knob/site.hpp"
#include "results/record/report_io.hpp"
#include "results/record/version.hpp"

namespace tw {
namespace {

void say(const Job& job, const std::string& text) {
  if (job.is_root()) std::fprintf(stderr, "trainwatt-train: %s\n", text.c_str());
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
      fmt::format("{}|{}|{}|{}", program_info("").git_commit, plan.canonical_json(), plan.measurement.ceiling_seconds,
                  fingerprint(options))));
  for (std::size_t rank = 1; rank < digests.size(); ++rank)
    if (digests[rank] != digests[0])
      throw Stop(exit_usage, fmt::format("rank {} was started with other options, another config or another version of the "
                                         "program than rank 0: start all ranks alike",
                                         rank));
}

/// Whether these arguments may lead to settings, for which a guardian must stand by before MPI starts.
bool needs_guardian(int argc, char** argv) {
  const std::optional<Options> options = parse_options(argc, argv).options;
  return options && (!options->resume.empty() || may_set(*options));
}

bool sets(const RunPlan& plan, KnobKind kind) {
  return std::ranges::any_of(plan.points, [&](const Point& point) { return point.setting.count(kind) > 0; });
}

/// A command line as a launch had it.
std::optional<Options> parse_again(std::vector<std::string> command) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  return parse_options(static_cast<int>(argv.size()), argv.data()).options;
}

int run(Job& job, std::optional<Guardian>& guardian, int argc, char** argv) {
  const std::optional<Options> given = agree_on_options(job, argc, argv);
  if (!given) return exit_good;
  Options options = *given;
  std::vector<std::string> command(argv, argv + argc);
  std::string config_text;
  RunFolder folder(job, options.resume);
  std::vector<LaunchDifference> changed;
  together(job, [&] {
    if (!folder.earlier()) {
      if (options.resumes_alone)
        throw UsageError(fmt::format("--resume {}: there is no run to go on with: check the path, or add the options of a "
                                     "run to start one there",
                                     options.resume));
      return;
    }
    const RunStart& start = folder.earlier()->start;
    const std::optional<Options> before = parse_again(start.command);
    if (!options.resumes_alone) {
      if (before) changed = differences(*before, options);
      return;
    }
    if (!before) throw UsageError(fmt::format("--resume {}: this version does not know its options: give them anew", options.resume));
    options = *before;
    if (given->run_index) options.run_index = given->run_index;
    changed = differences(*before, options);
    options.out.clear();
    options.resume = given->resume;
    options.force = options.force || given->force;
    options.force_resume = given->force_resume;
    command = start.command;
    config_text = start.config;
  });
  // Read once, for all: a file on one node's disk or standard input is enough.
  together(job, [&] {
    if (job.is_root() && !options.config.empty() && !given->resumes_alone) config_text = read_config_text(options.config);
  });
  config_text = job.broadcast(config_text);
  DeviceChoice choice;
  Request request;
  together(job, [&] {
    choice = choose_device(options.device);
    request = request_of(options, config_text);
  });
  std::string ranges;  // of the first rank's devices: the plan is one for all
  together(job, [&] {
    if (job.is_root() && has_shares(request)) ranges = pack_ranges(abilities_here({}, find_knobs({options.site})).knobs);
  });
  ranges = job.broadcast(ranges);
  RunPlan plan;
  int requested_threads = 0;
  together(job, [&] {
    resolve_shares(request, choice.name, unpack_ranges(ranges));
    plan = make_plan(request, job.size(), choice.name);
    requested_threads = threads_requested(options);
  });
  agree_on_plan(job, plan, options);
  const int threads = choose_threads(requested_threads, job);
  const int index = gpu_index(job, choice.visible);
  std::unique_ptr<Device> device;
  together(job, [&] { device = create_device(choice.name, device_options(plan, index, threads)); });
  // What is wrong with them no point should have to find out.
  together(job, [&] {
    if (!options.site.empty())
      for (const KnobFinding& knob : site::find_knobs(options.site))
        if (!knob.reason.empty() && sets(plan, knob.kind)) throw site::SiteError(knob.detail);
    const MeterOptions meters = meter_options(options.energy_csv, options.estimate_watts, job.host(), job.nodes() == 1);
    if (job.is_node_leader()) check_meters(meters);
  });
  if (const std::string why = why_no_communicator(plan.comm, job, *device); !why.empty())
    throw Stop(exit_environment, fmt::format("--comm {}: {}: choose another, or leave it out", plan.comm, why));
  if (!choice.note.empty()) say(job, choice.note);
  if (plan.runs() > 1 && !options.run_index && !options.dry_run)
    say(job, fmt::format("this plan asks for {} runs, and this launch is one: `scripts/repeat -- COMMAND` starts all",
                         plan.runs()));
  if (options.dry_run) {
    dry_run(job, *device, plan, options);
    return exit_good;
  }
  if (options.export_step.empty())
    return run_sweep({.job = job,
                      .device = *device,
                      .plan = plan,
                      .options = options,
                      .threads_requested = requested_threads,
                      .note = choice.note,
                      .argv = {argv, argv + argc},
                      .folder = folder,
                      .command = command,
                      .config = config_text,
                      .differences = changed},
                     guardian);
  if (plan.points.front().task)
    throw Stop(exit_usage, "--export-step takes a point that trains for a time: choose no target");
  const std::string left_out = export_one_step(job, *device, plan, plan.comm, options.export_step);
  if (job.is_root())
    std::printf("trainwatt-train: one step of %s is in %s\n", plan.points.front().id.c_str(), options.export_step.c_str());
  if (!left_out.empty()) say(job, left_out + "; step.json says so, too");
  return exit_good;
}

}  // namespace
}  // namespace tw

int main(int argc, char** argv) {
  tw::install_signal_handlers();
  std::optional<tw::Guardian> guardian;
  std::unique_ptr<tw::Job> job;
  try {
    if (tw::needs_guardian(argc, argv)) guardian.emplace();
    job = std::make_unique<tw::Job>(&argc, &argv);
  } catch (const tw::LauncherMismatch& error) {
    const std::string text = tw::with_code("launcher-mismatch", error.what());
    std::fprintf(stderr, "%s\n", tw::error_line("trainwatt-train", text).c_str());
    return tw::exit_environment;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trainwatt-train: error: cannot start: %s\n", error.what());
    return tw::exit_environment;
  }
  try {
    return tw::run(*job, guardian, argc, argv);
  } catch (const tw::Stop& stop) {  // agreed upon: every rank is here
    if (job->is_root()) std::fprintf(stderr, "%s\n", tw::error_line("trainwatt-train", stop.what()).c_str());
    return stop.code();
  } catch (const std::exception& error) {  // this rank alone: the others may wait in a collective
    std::string text = fmt::format("rank {} on {}: {}", job->rank(), job->host(), tw::without_code(error.what()));
    if (const auto code = tw::code_of(error.what()); !code.empty()) text = tw::with_code(code, text);
    std::fprintf(stderr, "%s\n", tw::error_line("trainwatt-train", text).c_str());
    if (job->size() == 1) return tw::exit_code_of(error);
    job->abort(tw::exit_code_of(error));
  }
}
