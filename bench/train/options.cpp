#include "bench/train/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench/train/set_points.hpp"
#include "models/catalog/nearest.hpp"
#include "models/compute/registry.hpp"
#include "results/version.hpp"

namespace tw {
namespace {

/// CLI11's message for an unknown option, with the nearest known one.
std::string unknown_option(const CLI::App& app, const CLI::ExtrasError& error) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& word : app.remaining()) {
    const std::string close = nearest(word.substr(0, word.find('=')), known);
    if (!close.empty()) return fmt::format("unknown option {}: did you mean {}?", word, close);
    return fmt::format("unknown {} {}: see --help", word.starts_with("-") ? "option" : "argument", word);
  }
  return error.what();
}

bool has_settings(const Axes& axes) {
  return std::ranges::any_of(axes.setting, [](const auto& axis) { return !axis.second.empty(); });
}

bool names_no_workload(const Axes& axes) {
  return axes.model.empty() && axes.layers.empty() && axes.precision.empty() && axes.micro_batch.empty() &&
         axes.accumulate.empty() && axes.global_batch.empty() && axes.seq_len.empty();
}

/// Far beyond what helps, and well below what brings a node down.
std::int64_t most_threads() { return std::max<std::int64_t>(64, 4 * sysconf(_SC_NPROCESSORS_CONF)); }

}  // namespace

ParseResult parse_options(int argc, char** argv) {
  Options options;
  Axes& axes = options.axes;

  CLI::App app(
      "trainwatt-train: measured training steps of a network, on this machine's ranks.\n"
      "Launch with mpirun or srun, or alone for one rank.");
  app.set_version_flag("--version", [] {
    const Program program = program_info("trainwatt-train");
    return fmt::format("{} {} ({})", program.name, program.version, program.git_commit);
  }());
  app.get_formatter()->column_width(30);
  app.footer(
      "Lists (--accumulate 1,4) make axes; all combinations are run. Exit codes: 0 good, 2 usage, 3 environment or "
      "permission,\n4 no valid measurement, 5 interrupted with what was finished in the report.");
  const auto list = [](CLI::Option* option) { return option->delimiter(',')->allow_extra_args(false); };
  list(app.add_option("--model", axes.model, "network(s); `trainwatt models` lists them"))->group("What");
  list(app.add_option("--layers", axes.layers, "keep only the first N layers"))->group("What");
  list(app.add_option("--precision", axes.precision, "float32 (default), bf16, …; beside points that can run, what the\n"
                                                     "device lacks is recorded as unsupported"))
      ->group("What");
  list(app.add_option("--micro-batch", axes.micro_batch, "samples a rank computes at once"))->group("What");
  list(app.add_option("--accumulate", axes.accumulate, "micro-batches for each optimizer step (default 1)"))
      ->group("What");
  list(app.add_option("--global-batch", axes.global_batch, "samples of an optimizer step over all ranks, instead of\n"
                                                           "one of the two"))
      ->group("What");
  list(app.add_option("--seq-len", axes.seq_len, "tokens of a sample"))->group("What");
  for (const SettingAxis& axis : setting_axes())
    list(app.add_option(axis.option, axes.setting[axis.kind], axis.help))->group("Settings (restored at the end)");
  app.add_option("--site", options.site, "JSON of a site's own commands for knobs")->group("Settings (restored at the end)");
  app.add_flag("--force", options.force, "set clocks also where somebody else seems to have locked them;\n"
                                         "resume also where program or machine have changed")
      ->group("Settings (restored at the end)");
  app.add_option("--energy-csv", options.energy_csv, "this node's power by the site's own meter: time,watts")
      ->group("Energy");
  app.add_option("--estimate-watts", options.estimate_watts, "nominal power for an estimate, never counted")
      ->group("Energy");
  app.add_option("--suite", options.suite, "a built-in plan: quick, convergence")->group("What");
  app.add_option("--config", options.config, "a plan as JSON; keys as the options, with underscores")->group("What");
  app.add_option("--seed", options.seed, "of weights and data (default 1)")->group("What");
  app.add_flag("--recompute", options.recompute, "keep layer inputs only and recompute the rest in backward")
      ->group("What");
  app.add_option("--window", options.window_seconds, "seconds of a trial (default 60)")->group("How long");
  app.add_option("--trials", options.trials, "trials of a point (default 3; 1 with --steps)")->group("How long");
  app.add_option("--steps", options.steps, "steps of a trial instead of a window; energy is then marked\nshort")
      ->group("How long");
  app.add_option("--warmup", options.warmup_steps, "steps before the first trial, at least (default 3)")
      ->group("How long");
  app.add_option("--target", options.target,
                 "train until the network's task reaches its target:\n'default', or nats over the floor (tokens), or\n"
                 "held-out error (images)")
      ->group("How long");
  list(app.add_option("--seeds", options.seeds, "runs of each point to its target (default 5), or a list\n"
                                                "of seeds, one for each run"))
      ->group("How long");
  app.add_option("--device", options.device, "auto (default), cpu, cuda, reference")->group("Where");
  app.add_option("--threads", options.threads, "compute threads of a rank (default: OMP_NUM_THREADS, else\n"
                                               "the CPUs it may use)")
      ->group("Where");
  app.add_option("--bucket-mib", options.bucket_mib, "gradient bucket (default 25)")->group("Where");
  app.add_option("--out", options.out, "folder for report.json; must not exist\n(default out/<what>-<time>)")
      ->group("Result");
  app.add_option("--resume", options.resume,
                 "go on in the folder of a run that was cut short; alone,\nor with the options of that run. With these, and where\n"
                 "there is no such folder yet, the run starts in it: one\nline then serves a job and its repetition")
      ->group("Result");
  app.add_option("--export-step", options.export_step,
                 "write weights, batch, loss, gradients and updated\nweights of one step as safetensors into this new\n"
                 "folder, and end")
      ->group("Result");
  app.allow_extras(false);

  try {
    app.parse(argc, argv);
    if (app.count("--threads") > 0) check_range("--threads", options.threads, 1, most_threads());
    if (!(options.bucket_mib >= 4.0 / 1024 && options.bucket_mib <= 65536))
      throw UsageError(fmt::format("--bucket-mib {}: must be from 0.00390625 (4 KiB) to 65536", options.bucket_mib));
    std::vector<std::string> devices = {"auto"};
    for (const Backend& backend : backends()) devices.emplace_back(backend.name);
    if (std::ranges::find(devices, options.device) == devices.end()) {
      const std::string close = nearest(options.device, devices);
      throw UsageError(fmt::format("unknown --device '{}': {}", options.device,
                                   close.empty() ? fmt::format("known: {}", fmt::join(devices, ", "))
                                                 : fmt::format("did you mean '{}'?", close)));
    }
    if (!options.suite.empty() && !options.config.empty())
      throw UsageError("--suite and --config exclude each other: give one");
    const bool planned = !options.suite.empty() || !options.config.empty();
    if (planned && !names_no_workload(axes))
      throw UsageError("a suite or config is frozen: leave out --model, --precision and the like");
    if (!options.config.empty() && has_settings(axes))
      throw UsageError("a config is frozen: leave out --gpu-clock and the like, or write gpu_clock into the file");
    if (!options.target.empty()) {
      parse_target("--target", options.target);
      if (!options.config.empty()) throw UsageError("a config is frozen: leave out --target, or write target into the file");
      if (!options.export_step.empty()) throw UsageError("--export-step and --target exclude each other: give one");
    }
    if (options.steps && options.window_seconds)
      throw UsageError("--steps and --window exclude each other: give one");
    if (app.count("--resume") > 0) {
      if (options.resume.empty()) throw UsageError("--resume: give the folder of a run");
      if (!options.out.empty()) throw UsageError("--out and --resume exclude each other: give one");
      if (!options.export_step.empty()) throw UsageError("--export-step has no run to resume: leave out --resume");
      options.resumes_alone = std::ranges::all_of(app.get_options(), [](const CLI::Option* option) {
        return option->count() == 0 || option->check_lname("resume") || option->check_lname("force");
      });
      if (!options.resumes_alone && !planned && axes.model.empty())
        throw UsageError("--resume goes alone, or with all the options of the run: add --model, --suite or --config");
    }
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, 0, app.help()};
  } catch (const CLI::CallForVersion& call) {
    return {std::nullopt, 0, std::string(call.what()) + "\n"};
  } catch (const CLI::ExtrasError& error) {
    return {std::nullopt, 2, unknown_option(app, error)};
  } catch (const CLI::ConversionError& error) {
    return {std::nullopt, 2, fmt::format("{}: give a whole number, or a list of them", error.what())};
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, 2, error.what()};
  } catch (const UsageError& error) {
    return {std::nullopt, 2, error.what()};
  }
  return {std::move(options), 0, ""};
}

Request request_of(const Options& options, const std::string& config_text) {
  Request request;
  if (!options.suite.empty())
    request = suite_request(options.suite);
  else if (!options.config.empty())
    request = read_config(options.config, config_text);
  else
    request.axes.push_back(options.axes);
  const bool planned = !options.suite.empty() || !options.config.empty();
  Measurement& measurement = request.measurement;
  bool changed = options.recompute;
  // Around a built-in suite settings are axes of their own; it is then no longer what others have run under its name.
  if (!options.suite.empty())
    for (const auto& [kind, values] : options.axes.setting) {
      for (Axes& grid : request.axes) grid.setting[kind] = values;
      changed = changed || std::ranges::any_of(values, [](const std::string& value) { return value != "found"; });
    }
  if (options.seed) request.seed = static_cast<std::uint64_t>(check_range("--seed", *options.seed, 0, largest_seed));
  if (options.recompute) request.recompute = true;
  if (options.steps) {
    measurement.steps = *options.steps;
    measurement.trials = 1;
  }
  if (options.window_seconds) {
    measurement.window_seconds = *options.window_seconds;
    measurement.steps.reset();
  }
  if (options.trials) measurement.trials = static_cast<int>(check_range("--trials", *options.trials, 1, most_trials));
  if (options.warmup_steps)
    measurement.warmup_steps = static_cast<int>(check_range("--warmup", *options.warmup_steps, 0, most_steps));
  if (request.target || !options.target.empty()) {
    if (options.steps || options.window_seconds || options.trials || options.warmup_steps)
      throw UsageError("a run to a target ends at the target: leave out --steps, --window, --trials and --warmup");
    if (planned && !request.target) throw UsageError("this suite trains for a time: leave out --target");
    if (!request.target) request.target.emplace();
    if (!options.target.empty()) request.target->value = parse_target("--target", options.target);
    if (!options.seeds.empty()) set_seeds(*request.target, "--seeds", options.seeds, options.seeds.size() > 1);
    changed = changed || !options.target.empty() || !options.seeds.empty();
  } else if (!options.seeds.empty()) {
    throw UsageError("--seeds is for runs to a target: give --target, or --seed for the one seed of all points");
  }
  changed = changed || options.seed || options.steps || options.window_seconds || options.trials || options.warmup_steps;
  if (planned && changed) request.suite += changed_suite;
  return request;
}

}  // namespace tw
