#include "bench/train/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

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
    return fmt::format("unknown option {}: see --help", word);
  }
  return error.what();
}

}  // namespace

ParseResult parse_options(int argc, char** argv) {
  Options options;
  Axes axes;
  std::string suite, config;
  double window = 0;
  int trials = 0, warmup = -1;
  std::int64_t steps = 0;

  CLI::App app("trainwatt-train: measured training steps of a network, on this machine's ranks.\n"
               "Launch with mpirun or srun, or alone for one rank.");
  app.set_version_flag("--version", [] {
    const Program program = program_info("trainwatt-train");
    return fmt::format("{} {} ({})", program.name, program.version, program.git_commit);
  }());
  app.get_formatter()->column_width(34);
  const auto list = [](CLI::Option* option) { return option->delimiter(',')->allow_extra_args(false); };
  list(app.add_option("--model", axes.model, "network(s); `trainwatt models` lists them"))->group("What");
  list(app.add_option("--layers", axes.layers, "keep only the first N layers"))->group("What");
  list(app.add_option("--precision", axes.precision, "float32 (default), bf16, …; what the device lacks is recorded as unsupported"))
      ->group("What");
  list(app.add_option("--micro-batch", axes.micro_batch, "samples a rank computes at once"))->group("What");
  list(app.add_option("--accumulate", axes.accumulate, "micro-batches for each optimizer step (default 1)"))->group("What");
  list(app.add_option("--global-batch", axes.global_batch, "samples of an optimizer step over all ranks, instead of one of the two"))
      ->group("What");
  list(app.add_option("--seq-len", axes.seq_len, "tokens of a sample"))->group("What");
  app.add_option("--suite", suite, "a built-in plan: quick")->group("What");
  app.add_option("--config", config, "a plan as JSON; keys as the options, with underscores")->group("What");
  app.add_option("--seed", options.request.seed, "of weights and data (default 1)")->group("What");
  app.add_flag("--recompute", options.request.recompute, "keep layer inputs only and recompute the rest in backward")->group("What");
  app.add_option("--window", window, "seconds of a trial (default 60)")->group("How long");
  app.add_option("--trials", trials, "trials of a point (default 3; 1 with --steps)")->group("How long");
  app.add_option("--steps", steps, "steps of a trial instead of a window; energy is then marked short")->group("How long");
  app.add_option("--warmup", warmup, "steps before the first trial, at least (default 3)")->group("How long");
  app.add_option("--device", options.device, "auto (default), cpu, cuda, reference")->group("Where");
  app.add_option("--threads", options.threads, "compute threads of a rank (default: OMP_NUM_THREADS, else the CPUs it may use)")
      ->group("Where")->check(CLI::NonNegativeNumber);
  app.add_option("--bucket-mib", options.bucket_mib, "gradient bucket (default 25)")->group("Where")->check(CLI::PositiveNumber);
  app.add_option("--out", options.out, "folder for report.json; must not exist (default out/<what>-<time>)")->group("Result");
  app.add_option("--export-step", options.export_step,
                 "write weights, batch, loss, gradients and updated weights of one step as safetensors into this new folder, and end")
      ->group("Result");
  app.allow_extras(false);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, 0, app.help()};
  } catch (const CLI::CallForVersion& call) {
    return {std::nullopt, 0, std::string(call.what()) + "\n"};
  } catch (const CLI::ExtrasError& error) {
    return {std::nullopt, 2, unknown_option(app, error)};
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, 2, error.what()};
  }

  const std::uint64_t seed = options.request.seed;
  const bool recompute = options.request.recompute;
  try {
    std::vector<std::string> devices = {"auto"};
    for (const Backend& backend : backends()) devices.emplace_back(backend.name);
    if (std::ranges::find(devices, options.device) == devices.end()) {
      const std::string close = nearest(options.device, devices);
      throw UsageError(fmt::format("unknown --device '{}': {}", options.device,
                                   close.empty() ? fmt::format("known: {}", fmt::join(devices, ", "))
                                                 : fmt::format("did you mean '{}'?", close)));
    }
    if (!suite.empty() && !config.empty()) throw UsageError("--suite and --config exclude each other: give one");
    const bool planned = !suite.empty() || !config.empty();
    if (planned && !(axes.model.empty() && axes.layers.empty() && axes.precision.empty() && axes.micro_batch.empty() &&
                     axes.accumulate.empty() && axes.global_batch.empty() && axes.seq_len.empty()))
      throw UsageError("a suite or config is frozen: leave out --model, --precision, --micro-batch and the like");
    if (!suite.empty()) options.request = suite_request(suite);
    else if (!config.empty()) options.request = read_config(config);
    else options.request.axes.push_back(axes);
  } catch (const UsageError& error) {
    return {std::nullopt, 2, error.what()};
  }
  if (app.count("--seed")) options.request.seed = seed;
  if (app.count("--recompute")) options.request.recompute = recompute;
  Measurement& measurement = options.request.measurement;
  if (app.count("--steps")) {
    measurement.steps = steps;
    measurement.trials = 1;
  }
  if (app.count("--window")) measurement.window_seconds = window;
  if (app.count("--steps") && app.count("--window")) return {std::nullopt, 2, "--steps and --window exclude each other: give one"};
  if (app.count("--trials")) measurement.trials = trials;
  if (app.count("--warmup")) {
    if (warmup < 0) return {std::nullopt, 2, fmt::format("--warmup {}: must not be negative", warmup)};
    measurement.warmup_steps = warmup;
  }
  return {std::move(options), 0, ""};
}

}  // namespace tw
