// `trainwatt`: everything that needs no training run, on any machine.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string_view>

#include "bench/tool/commands.hpp"
#include "models/catalog/nearest.hpp"
#include "results/export.hpp"
#include "results/ranking.hpp"
#include "results/text.hpp"
#include "results/version.hpp"

namespace {

using namespace tw;

constexpr int exit_usage = 2;

/// The subcommand that was called; the program where none was.
const CLI::App& called(const CLI::App& app) {
  const std::vector<CLI::App*> subcommands = app.get_subcommands();
  return subcommands.empty() ? app : *subcommands.back();
}
std::string help_of(const CLI::App& app) {
  return &called(app) == &app ? "trainwatt --help" : "trainwatt " + called(app).get_name() + " --help";
}

/// CLI11 says "The following argument was not expected: …"; for a person, what was probably meant matters more.
std::string unknown_word(const CLI::App& app, const std::string& word) {
  std::vector<std::string> known;
  const CLI::App* scope = &called(app);
  if (word.starts_with("-")) {
    for (const CLI::Option* option : scope->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  } else if (scope == &app) {
    for (const CLI::App* sub : app.get_subcommands({})) known.push_back(sub->get_name());
  }
  const std::string close = nearest(word.substr(0, word.find('=')), known);
  return fmt::format("{}: unknown {}; {}see {}", word,
                     word.starts_with("-") ? "option"
                     : scope == &app       ? "command"
                                           : "argument",
                     close.empty() ? "" : "did you mean " + close + "? Else ", help_of(app));
}

int fail(const std::string& what, int code = exit_usage) {
  fmt::print(stderr, "trainwatt: {}\n", text::printable(what));
  return code;
}

/// What was printed counts once it has arrived: a full disk shows no earlier than here.
int finish(int code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return code;
  return fail(std::string("standard output: ") + std::strerror(errno != 0 ? errno : EIO));
}

}  // namespace

int main(int argc, char** argv) {
  const Program program = program_info("trainwatt");
  CLI::App app("Reads training reports, knows the networks that are trained, and this node's meters and knobs.",
               "trainwatt");
  app.set_version_flag("--version", program.name + " " + program.version + " (" + program.git_commit + ")");
  app.require_subcommand(0, 1);
  app.footer(
      "Exit codes: 0 good; 1 a report breaks its schema or an invariant; 2 bad usage or an unreadable file; "
      "3 restore has left\nsomething. meter passes its command's code through, and has 125 for its own failure.");

  std::vector<std::string> reports;
  CLI::App* validate =
      app.add_subcommand("validate", "Check reports against the schema and recompute them from their samples");
  validate->add_option("FILE", reports, "report.json, or records.jsonl of an unfinished run")->required();

  tool::ShowOptions show_options;
  CLI::App* show = app.add_subcommand("show", "Print a report");
  show->add_option("FILE", show_options.path, "report.json, or records.jsonl of an unfinished run")->required();
  show->add_option("--width", show_options.width, "columns (the terminal's, from 80 to 120; 100 without one)")
      ->check(CLI::Range(60, 400));
  show->add_flag("--ascii", show_options.ascii, "no Unicode in bars and curves");
  const auto add_sort = [](CLI::App* command, tool::SortOptions& sort) {
    std::string names = tool::run_order;
    for (const Merit& merit : merits()) names += " " + std::string(merit.name);
    command->add_option("--sort", sort.by, "figure of merit of the table's rows, best first: " + names);
    command->add_option("--scope", sort.scope,
                        "of which joules (device, package, node, dram, facility); that of most points");
  };
  add_sort(show, show_options.sort);

  tool::ExportCommand export_options;
  CLI::App* export_command =
      app.add_subcommand("export", "Write a report in other formats, each into a file of its own");
  std::string formats;
  for (const ExportFormat& format : export_formats())
    formats += (formats.empty() ? "" : ", ") + std::string(format.name);
  export_command->add_option("FILE", export_options.path, "report.json, or records.jsonl of an unfinished run")
      ->required();
  export_command->add_option("--to", export_options.formats, "a list of " + formats)
      ->required()
      ->delimiter(',')
      ->allow_extra_args(false);
  export_command
      ->add_option("-o,--out", export_options.out, "folder; a file that is there already is never overwritten")
      ->required();
  add_sort(export_command, export_options.sort);

  tool::ModelsOptions models_options;
  CLI::App* models = app.add_subcommand("models", "List the networks, or print what a training step of one computes");
  models->add_option("MODEL", models_options.model, "network; all of them without one");
  models->add_option("--layers", models_options.layers, "cut the network to this many layers");
  models->add_option("--precision", models_options.precision, "float32 or bf16")->capture_default_str();
  models->add_option("--micro-batch", models_options.micro_batch, "samples per rank and pass")->check(CLI::PositiveNumber);
  models->add_option("--accumulate", models_options.accumulate, "micro-batches per optimizer step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  models->add_option("--seq-len", models_options.seq_len, "tokens of a sample")->check(CLI::PositiveNumber);
  models->add_option("--ranks", models_options.ranks, "ranks")->check(CLI::PositiveNumber)->capture_default_str();
  models->add_flag("--json", models_options.json, "as JSON");

  tool::PlanCommand plan_command;
  CLI::App* plan = app.add_subcommand(
      "plan", "List what trainwatt-train would measure, what this node cannot do, and time and energy of it all");
  add_plan_options(*plan, plan_command.options);
  plan->add_option("--device", plan_command.device, "auto (default), cpu, cuda, reference")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "reference"}))->group("Where");
  plan->add_option("--nodes", plan_command.nodes, "nodes that the ranks are spread over (default 1)")
      ->check(CLI::Range(1, 1'000'000))->group("Where");
  plan->add_option("--on", plan_command.on, "what trainwatt probe --json wrote on the node that the plan\nis for (default: this node)")
      ->group("Where");
  plan->add_option("--site", plan_command.site, "JSON of a site's own commands for knobs")->group(settings_group);
  plan->add_option("--energy-csv", plan_command.energy_csv, "this node's power by the site's own meter: time,watts")
      ->group("Where");
  plan->add_flag("--json", plan_command.json, "as JSON");

  tool::ProbeOptions probe_options;
  CLI::App* probe = app.add_subcommand("probe", "List this node's energy meters and knobs, and what would make more available");
  probe->add_flag("--json", probe_options.json, "as JSON");
  probe->add_option("--site", probe_options.site, "JSON of a site's own commands for knobs");
  probe->add_option("--energy-csv", probe_options.energy_csv, "this node's power by the site's own meter: time,watts");

  tool::MeterCommand meter_options;
  CLI::App* meter = app.add_subcommand("meter", "Run a command and report the joules it used: trainwatt meter -- CMD…");
  meter->add_option("--out", meter_options.out, "folder for report.json; must not exist (default out/meter-<time>)");
  meter->add_flag("--parse", meter_options.parse, "copy the command's output through and look for samples=N or MLLOG lines");
  meter->add_option("--energy-csv", meter_options.energy_csv, "this node's power by the site's own meter: time,watts");
  meter->add_option("--estimate-watts", meter_options.estimate_watts, "nominal power for an estimate, never counted");
  meter->footer("CMD is the command and its arguments. Its exit code passes through; 125 is trainwatt's own failure.");

  bool restore_all = false;
  CLI::App* restore = app.add_subcommand("restore", "Put back clocks and power limits that a killed run left changed");
  restore->add_flag("--all", restore_all, "also those of a run that still lives (in a job's epilog none should)");

  // What stands behind the -- of `meter` is another program's, whatever it looks like.
  int words = argc;
  if (argc > 1 && std::string_view(argv[1]) == "meter")
    words = static_cast<int>(std::find(argv + 2, argv + argc, std::string_view("--")) - argv);
  if (words < argc) meter_options.command.assign(argv + words + 1, argv + argc);
  meter_options.argv.assign(argv, argv + argc);

  app.allow_extras();  // told apart below, with a suggestion
  for (CLI::App* sub : {validate, show, export_command, models, plan, probe, meter, restore}) sub->allow_extras();
  try {
    app.parse(words, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return finish(app.exit(success));
  } catch (const CLI::ParseError& error) {
    return fail(parse_problem(called(app), error) + "; see " + help_of(app), *meter ? tool::meter_failure : exit_usage);
  }
  try {
    const std::vector<std::string> extras = app.remaining(true);
    if (!extras.empty()) return fail(unknown_word(app, extras.front()), *meter ? tool::meter_failure : exit_usage);
    if (*meter && meter_options.command.empty())
      return fail("no command to meter: it stands behind --, as in trainwatt meter -- CMD…", tool::meter_failure);
    if (*validate) return finish(tool::validate(reports));
    if (*show) return finish(tool::show(show_options));
    if (*export_command) return finish(tool::export_report(export_options));
    if (*models) return finish(tool::models(models_options));
    if (*plan) return finish(tool::plan(plan_command));
    if (*probe) return finish(tool::probe(probe_options));
    if (*meter) return tool::meter(meter_options);  // the command's own code
    if (*restore) return finish(tool::restore(restore_all));
    return fail("no command given; see trainwatt --help");
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
