#include "bench/train/job/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "bench/terminal/describe.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/terminal/option_checks.hpp"
#include "bench/terminal/terminal.hpp"
#include "models/compute/registry.hpp"
#include "results/record/repeat_program.hpp"
#include "results/record/version.hpp"

namespace tw::bench {

std::int64_t most_threads() { return std::max<std::int64_t>(64, 4 * sysconf(_SC_NPROCESSORS_CONF)); }

const std::vector<LaunchOption>& launch_options() {
  constexpr const char *energy = "Energy", *where = "Execution", *result = "Output";
  static const std::vector<LaunchOption> list = {
      {"--site", settings_group, "JSON file with the site's commands that change clocks and power\nlimits",
       &Options::site, true},
      {"--force", settings_group, "set clocks even if someone else seems to have locked them", &Options::force, false,
       true},
      {"--energy-csv", energy, "CSV file of the site's power meter for this node: time,watts", &Options::energy_csv,
       true},
      {"--estimate-watts", energy, "nominal power for an energy estimate, which is not counted",
       &Options::estimate_watts, true},
      {"--device", where, "auto (default), cpu, cuda, reference", &Options::device},
      {"--threads", where,
       "compute threads per rank (default: OMP_NUM_THREADS, else\n"
       "the CPUs that the rank may use)",
       &Options::threads},
      {"--bucket-mib", where, "size of gradient buckets in MiB (default 25)", &Options::bucket_mib, true},
      {"--dry-run", result,
       "print the points, which of them cannot run here and why, and\nthe time and energy they take; run nothing",
       &Options::dry_run},
      {"--out", result, "folder for report.json; must not exist\n(default out/<what>-<time>)", &Options::out},
      {"--resume", result,
       "continue the run in this folder: alone, or with the options\n"
       "of that run. With the options, a missing folder starts a\n"
       "new run, so that a requeued job needs no other command",
       &Options::resume, false, true},
      {"--force-resume", result,
       "continue even if the plan, program or machine has changed;\nthe report then lists the changes",
       &Options::force_resume, false, true},
      {"--run-index", result,
       "number of this run in a series, from 1; it sets the order of\n"
       "the points (trainwatt-repeat sets it)",
       &Options::run_index, true, true},
      {"--export-step", result,
       "write weights, batch, loss, gradients and updated weights of\n"
       "one step as safetensors to this new folder; run nothing else",
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

/// From 1 to `most`, also of a number that no integer type holds. What is no whole number at all, CLI11 refuses.
OptionCheck whole_in(std::int64_t most) {
  return [most](const std::string& text) {
    const bool is_whole = text.find_first_not_of("0123456789", text.find_first_of("+-") == 0 ? 1 : 0) == text.npos;
    return is_whole ? number_in(1, static_cast<double>(most))(text) : std::string();
  };
}

void add_launch_option(CLI::App& app, const LaunchOption& option, Options& options) {
  std::visit(
      [&](const auto field) {
        using T = std::decay_t<decltype(options.*field)>;
        if constexpr (std::is_same_v<T, bool>) {
          app.add_flag(option.name, options.*field, option.help)->group(option.group);
        } else {
          CLI::Option* added = app.add_option(option.name, options.*field, option.help)->group(option.group);
          if constexpr (std::is_same_v<T, std::optional<std::int64_t>>) added->check(whole_in(most_runs));
          if constexpr (std::is_same_v<T, int>) added->check(whole_in(most_threads()));
        }
      },
      option.field);
}

std::vector<std::string> known_devices() {
  std::vector<std::string> devices = {"auto"};
  for (const models::Backend& backend : models::backends()) devices.emplace_back(backend.name);
  return devices;
}

void check_values(const Options& options) {
  if (!(options.bucket_mib >= 4.0 / 1024 && options.bucket_mib <= 65536))
    throw UsageError("bad-value",
                     fmt::format("--bucket-mib {}: must be from 0.00390625 (4 KiB) to 65536", options.bucket_mib));
  if (const std::vector<std::string> devices = known_devices();
      std::ranges::find(devices, options.device) == devices.end())
    throw_unknown("device", options.device, devices);
  check_plan_options(options);
  if (const auto repeat = options.given.find("repeat"); repeat != options.given.end())
    throw UsageError(
        "repeat-by-script",
        fmt::format("--repeat {0}: one launch of trainwatt-train is one run: use {1} {0} -- COMMAND, where COMMAND is "
                    "this command without --repeat; in a Slurm job, give --repeat {0} to sweep.sbatch or train.sbatch",
                    plain_text(repeat->second), results::repeat_program));
}

/// Refuses what does not go with `option`, all of it.
void refuse_with(const std::string& option, std::initializer_list<std::pair<const char*, bool>> others) {
  std::vector<std::string> given;
  for (const auto& [name, is_given] : others)
    if (is_given) given.emplace_back(name);
  if (!given.empty())
    throw UsageError("options-conflict", fmt::format("{0} and {1} exclude each other: leave out {0} or {1}", option,
                                                     fmt::join(given, ", ")));
}

void check_resume(const CLI::App& app, Options& options) {
  if (options.force_resume && app.count("--resume") == 0)
    throw UsageError("option-needs", "--force-resume: add --resume DIR");
  if (app.count("--resume") == 0) return;
  refuse_with("--resume", {{"--out", !options.out.empty()},
                           {"--export-step", !options.export_step.empty()},
                           {"--dry-run", options.dry_run}});
  options.resumes_alone = std::ranges::all_of(app.get_options(), [](const CLI::Option* option) {
    return option->count() == 0 || std::ranges::any_of(launch_options(), [&](const LaunchOption& known) {
             return known.may_resume_alone && option->check_name(known.name);
           });
  });
  if (!options.resumes_alone && options.suite.empty() && options.config.empty() && options.axes.model.empty())
    throw UsageError("option-needs",
                     "--resume: give it alone, or with all options of the run: add --model, --suite or --config");
}

KnownWords words_of_options() {
  KnownWords words = plan_words();
  words["--device"] = known_devices();
  return words;
}

}  // namespace

ParseResult parse_options(int argc, char** argv) {
  Options options;

  CLI::App app(
      "Measures training steps of a network: speed, energy and time to target.\n"
      "Start it with mpirun or srun, or alone for one rank. It runs all combinations of lists (--accumulate 1,4).",
      "trainwatt-train");
  app.set_version_flag("--version", [] {
    const results::Program program = results::program_info("trainwatt-train");
    return fmt::format("{} {} ({})", program.name, program.version, program.git_commit);
  }());
  app.get_formatter()->column_width(30);
  app.footer(
      "Exit codes: 0 success, 1 a target was missed, 2 usage, or sizes that do not fit into memory, 3 environment or\n"
      "permission, 4 no valid measurement, 5 interrupted; the report has the finished points.");
  add_plan_options(app, options);
  for (const LaunchOption& option : launch_options()) add_launch_option(app, option, options);
  std::string format;
  add_describe_option(app, format);
  app.allow_extras(false);
  read_decimal(app);

  try {
    check_words(argc, argv);
    app.parse(argc, argv);
    if (!format.empty())
      return {std::nullopt, 0, describe(app, format, results::program_info("").version, words_of_options())};
    check_values(options);
    if (!options.export_step.empty())
      refuse_with("--export-step", {{"--target", options.given.contains("target")}, {"--dry-run", options.dry_run}});
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

}  // namespace tw::bench
