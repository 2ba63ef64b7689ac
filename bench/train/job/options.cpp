#include "bench/train/job/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bench/terminal/error_line.hpp"
#include "bench/terminal/terminal.hpp"
#include "models/compute/registry.hpp"
#include "results/record/version.hpp"

namespace tw {

std::int64_t most_threads() { return std::max<std::int64_t>(64, 4 * sysconf(_SC_NPROCESSORS_CONF)); }

const std::vector<LaunchOption>& launch_options() {
  constexpr const char *energy = "Energy", *where = "Where", *result = "Result";
  static const std::vector<LaunchOption> list = {
      {"--site", settings_group, "JSON of a site's own commands for knobs", &Options::site, true},
      {"--force", settings_group, "set clocks also where somebody else seems to have locked them", &Options::force,
       false, true},
      {"--energy-csv", energy, "this node's power by the site's own meter: time,watts", &Options::energy_csv, true},
      {"--estimate-watts", energy, "nominal power for an estimate, never counted", &Options::estimate_watts, true},
      {"--device", where, "auto (default), cpu, cuda, reference", &Options::device},
      {"--threads", where,
       "compute threads of a rank (default: OMP_NUM_THREADS, else\n"
       "the CPUs it may use)",
       &Options::threads},
      {"--bucket-mib", where, "gradient bucket (default 25)", &Options::bucket_mib, true},
      {"--dry-run", result, "list the points, what cannot run here and why, time and energy\nof it all; then end",
       &Options::dry_run},
      {"--out", result, "folder for report.json; must not exist\n(default out/<what>-<time>)", &Options::out},
      {"--resume", result,
       "go on in the folder of a run that was cut short; alone,\nor with the options of that run. With these, and where\n"
       "there is no such folder yet, the run starts in it: one\nline then serves a job and its repetition",
       &Options::resume, false, true},
      {"--force-resume", result, "go on also where plan, program or machine have changed,\nwhich the report then says",
       &Options::force_resume, false, true},
      {"--run-index", result,
       "which of several runs of the plan this is, from 1: each has\n"
       "its own order of points (scripts/repeat gives it)",
       &Options::run_index, true, true},
      {"--export-step", result,
       "write weights, batch, loss, gradients and updated\nweights of one step as safetensors into this new\n"
       "folder, and end",
       &Options::export_step}};
  return list;
}

std::string text_of(const LaunchOption& option, const Options& options) {
  return std::visit(
      [&](const auto field) -> std::string {
        using T = std::decay_t<decltype(options.*field)>;
        if constexpr (std::is_same_v<T, std::optional<double>> || std::is_same_v<T, std::optional<std::int64_t>>)
          return options.*field ? fmt::format("{}", *(options.*field)) : "";
        else
          return fmt::format("{}", options.*field);
      },
      option.field);
}

std::string fingerprint(const Options& options) {
  std::vector<std::string> all;
  for (const LaunchOption& option : launch_options())
    if (std::string_view(option.name) != "--device") all.push_back(text_of(option, options));
  return fmt::format("{}", fmt::join(all, "|"));
}

namespace {

void add_launch_option(CLI::App& app, const LaunchOption& option, Options& options) {
  std::visit(
      [&](const auto field) {
        if constexpr (std::is_same_v<std::decay_t<decltype(options.*field)>, bool>)
          app.add_flag(option.name, options.*field, option.help)->group(option.group);
        else
          app.add_option(option.name, options.*field, option.help)->group(option.group);
      },
      option.field);
}

void check_whole(const char* name, std::int64_t value, std::int64_t most) {
  if (value < 1 || value > most)
    throw UsageError(
        with_code("bad-value", fmt::format("{} {}: must be a whole number from 1 to {}", name, value, most)));
}

void check_values(const CLI::App& app, const Options& options) {
  if (app.count("--threads") > 0) check_whole("--threads", options.threads, most_threads());
  if (!(options.bucket_mib >= 4.0 / 1024 && options.bucket_mib <= 65536))
    throw UsageError(with_code(
        "bad-value", fmt::format("--bucket-mib {}: must be from 0.00390625 (4 KiB) to 65536", options.bucket_mib)));
  if (options.run_index) check_whole("--run-index", *options.run_index, most_runs);
  std::vector<std::string> devices = {"auto"};
  for (const Backend& backend : backends()) devices.emplace_back(backend.name);
  if (std::ranges::find(devices, options.device) == devices.end()) throw_unknown("device", options.device, devices);
  if (app.count("--out") > 0 && options.out.empty())
    throw UsageError(with_code("bad-value", "--out: give a folder, or leave it out for one under out/"));
  check_plan_options(options);
  if (const auto repeat = options.given.find("repeat"); repeat != options.given.end())
    throw UsageError(with_code(
        "repeat-by-script",
        fmt::format(
            "--repeat {0}: a launch of trainwatt-train is one run; `scripts/repeat {0} -- COMMAND` starts all of "
            "them, where COMMAND is this one without --repeat, with its mpirun or srun; in a Slurm job give "
            "--repeat {0} to sweep.sbatch or train.sbatch",
            plain_text(repeat->second))));
}

[[noreturn]] void refuse_both(const char* one, const char* other) {
  throw UsageError(
      with_code("options-conflict", fmt::format("{} and {} exclude each other: leave one out", one, other)));
}

void check_resume(const CLI::App& app, Options& options) {
  if (options.force_resume && app.count("--resume") == 0)
    throw UsageError(with_code("option-needs", "--force-resume says how a run is resumed: add --resume DIR"));
  if (app.count("--resume") == 0) return;
  if (options.resume.empty()) throw UsageError(with_code("bad-value", "--resume: give the folder of a run"));
  if (!options.out.empty()) refuse_both("--out", "--resume");
  if (!options.export_step.empty()) refuse_both("--export-step", "--resume");
  if (options.dry_run) refuse_both("--dry-run", "--resume");
  options.resumes_alone = std::ranges::all_of(app.get_options(), [](const CLI::Option* option) {
    return option->count() == 0 || std::ranges::any_of(launch_options(), [&](const LaunchOption& known) {
             return known.may_resume_alone && option->check_name(known.name);
           });
  });
  if (!options.resumes_alone && options.suite.empty() && options.config.empty() && options.axes.model.empty())
    throw UsageError(with_code(
        "option-needs", "--resume goes alone, or with all the options of the run: add --model, --suite or --config"));
}

}  // namespace

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
  for (const LaunchOption& option : launch_options()) add_launch_option(app, option, options);
  app.allow_extras(false);

  try {
    check_words(argc, argv);
    app.parse(argc, argv);
    check_values(app, options);
    if (options.given.contains("target") && !options.export_step.empty()) refuse_both("--export-step", "--target");
    if (options.dry_run && !options.export_step.empty()) refuse_both("--export-step", "--dry-run");
    check_resume(app, options);
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

}  // namespace tw
