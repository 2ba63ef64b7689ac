#include "bench/train/job/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench/terminal/error_line.hpp"
#include "bench/terminal/terminal.hpp"
#include "models/catalog/nearest.hpp"
#include "models/compute/registry.hpp"
#include "results/record/version.hpp"

namespace tw {

std::int64_t most_threads() { return std::max<std::int64_t>(64, 4 * sysconf(_SC_NPROCESSORS_CONF)); }

ParseResult parse_options(int argc, char** argv) {
  Options options;

  CLI::App app(
      "trainwatt-train: measured training steps of a network, on this machine's ranks.\n"
      "Launch with mpirun or srun, or alone for one rank.");
  app.set_version_flag("--version", [] {
    const Program program = program_info("trainwatt-train");
    return fmt::format("{} {} ({})", program.name, program.version, program.git_commit);
  }());
  app.get_formatter()->column_width(30);
  app.footer(
      "Lists (--accumulate 1,4) make axes; all combinations are run. Exit codes: 0 good, 1 a target was missed, 2 "
      "usage,\n"
      "3 environment or permission, 4 no valid measurement, 5 interrupted with what was finished in the report.");
  add_plan_options(app, options);
  app.add_option("--site", options.site, "JSON of a site's own commands for knobs")->group(settings_group);
  app.add_flag("--force", options.force, "set clocks also where somebody else seems to have locked them")
      ->group(settings_group);
  app.add_option("--energy-csv", options.energy_csv, "this node's power by the site's own meter: time,watts")
      ->group("Energy");
  app.add_option("--estimate-watts", options.estimate_watts, "nominal power for an estimate, never counted")
      ->group("Energy");
  app.add_option("--device", options.device, "auto (default), cpu, cuda, reference")->group("Where");
  app.add_option("--threads", options.threads, "compute threads of a rank (default: OMP_NUM_THREADS, else\n"
                                               "the CPUs it may use)")
      ->group("Where");
  app.add_option("--bucket-mib", options.bucket_mib, "gradient bucket (default 25)")->group("Where");
  app.add_flag("--dry-run", options.dry_run, "list the points, what cannot run here and why, time and energy\nof it all; then end")
      ->group("Result");
  app.add_option("--out", options.out, "folder for report.json; must not exist\n(default out/<what>-<time>)")
      ->group("Result");
  app.add_option("--resume", options.resume,
                 "go on in the folder of a run that was cut short; alone,\nor with the options of that run. With these, and where\n"
                 "there is no such folder yet, the run starts in it: one\nline then serves a job and its repetition")
      ->group("Result");
  app.add_flag("--force-resume", options.force_resume,
               "go on also where plan, program or machine have changed,\nwhich the report then says")
      ->group("Result");
  app.add_option("--run-index", options.run_index,
                 "which of several runs of the plan this is, from 1: each has\n"
                 "its own order of points (scripts/repeat gives it)")
      ->group("Result");
  app.add_option("--export-step", options.export_step,
                 "write weights, batch, loss, gradients and updated\nweights of one step as safetensors into this new\n"
                 "folder, and end")
      ->group("Result");
  app.allow_extras(false);

  try {
    check_words(argc, argv);
    app.parse(argc, argv);
    if (app.count("--threads") > 0) check_range("--threads", options.threads, 1, most_threads());
    if (!(options.bucket_mib >= 4.0 / 1024 && options.bucket_mib <= 65536))
      throw UsageError(fmt::format("--bucket-mib {}: must be from 0.00390625 (4 KiB) to 65536", options.bucket_mib));
    std::vector<std::string> devices = {"auto"};
    for (const Backend& backend : backends()) devices.emplace_back(backend.name);
    if (std::ranges::find(devices, options.device) == devices.end()) {
      const std::string close = options.device == "gpu" ? "cuda" : nearest(options.device, devices);
      throw UsageError(fmt::format("unknown --device '{}': {}", options.device,
                                   close.empty() ? fmt::format("known: {}", fmt::join(devices, ", "))
                                                 : fmt::format("did you mean '{}'?", close)));
    }
    if (app.count("--out") > 0 && options.out.empty())
      throw UsageError("--out: give a folder, or leave it out for one under out/");
    check_plan_options(options);
    if (options.repeat)
      throw UsageError(with_code(
          "repeat-by-script",
          fmt::format(
              "--repeat {0}: a launch of trainwatt-train is one run; `scripts/repeat {0} -- COMMAND` starts all "
              "of them, where COMMAND is this one without --repeat, with its mpirun or srun; in a Slurm job "
              "give --repeat {0} to sweep.sbatch or train.sbatch",
              *options.repeat)));
    if (options.run_index) check_range("--run-index", *options.run_index, 1, most_runs);
    const bool planned = !options.suite.empty() || !options.config.empty();
    if (!options.target.empty() && !options.export_step.empty())
      throw UsageError("--export-step and --target exclude each other: give one");
    if (options.dry_run && !options.export_step.empty())
      throw UsageError("--export-step and --dry-run exclude each other: give one");
    if (options.force_resume && app.count("--resume") == 0)
      throw UsageError("--force-resume says how a run is resumed: add --resume DIR");
    if (app.count("--resume") > 0) {
      if (options.resume.empty()) throw UsageError("--resume: give the folder of a run");
      if (!options.out.empty()) throw UsageError("--out and --resume exclude each other: give one");
      if (!options.export_step.empty()) throw UsageError("--export-step has no run to resume: leave out --resume");
      if (options.dry_run) throw UsageError("--dry-run writes and resumes nothing: leave out --resume");
      options.resumes_alone = std::ranges::all_of(app.get_options(), [](const CLI::Option* option) {
        return option->count() == 0 || option->check_lname("resume") || option->check_lname("force") ||
               option->check_lname("force-resume") || option->check_lname("run-index");
      });
      if (!options.resumes_alone && !planned && options.axes.model.empty())
        throw UsageError("--resume goes alone, or with all the options of the run: add --model, --suite or --config");
    }
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, 0, help_within_terminal(app.help())};
  } catch (const CLI::CallForVersion& call) {
    return {std::nullopt, 0, std::string(call.what()) + "\n"};
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, 2, parse_problem(app, error)};
  } catch (const UsageError& error) {
    return {std::nullopt, 2, error.what()};
  }
  return {std::move(options), 0, ""};
}

std::string fingerprint(const Options& o) {
  return fmt::format("{}", fmt::join({o.site, std::to_string(o.force), std::to_string(o.force_resume), o.energy_csv,
                                      fmt::format("{}", o.estimate_watts.value_or(-1)), o.out, o.resume, o.export_step,
                                      std::to_string(o.dry_run), std::to_string(o.threads),
                                      std::to_string(o.run_index.value_or(0)), fmt::format("{}", o.bucket_mib)},
                                     "|"));
}

}  // namespace tw
