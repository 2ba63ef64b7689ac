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

#include "bench/terminal/error_line.hpp"
#include "bench/terminal/terminal.hpp"
#include "bench/tool/commands.hpp"
#include "models/catalog/nearest.hpp"
#include "results/compare/comparison.hpp"
#include "results/export/export.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"
#include "results/selection/ranking.hpp"

namespace {

using namespace tw;

constexpr int exit_usage = 2, exit_environment = 3;

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
  return fmt::format("{}: unknown {}; {}see {}", cut_word(word),
                     word.starts_with("-") ? "option"
                     : scope == &app       ? "command"
                                           : "argument",
                     close.empty() ? "" : "did you mean " + close + "? Else ", help_of(app));
}

int fail(const std::string& what, int code = exit_usage) {
  const std::string line = line_of("trainwatt", what);
  fmt::print(stderr, "{}\n", text::printable(line));
  return code;
}

/// What was printed counts once it has arrived: a full disk shows no earlier than here.
int finish(int code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return code;
  return fail(std::string("standard output: ") + std::strerror(errno != 0 ? errno : EIO), exit_environment);
}

}  // namespace

int main(int argc, char** argv) {
  const Program program = program_info("trainwatt");
  CLI::App app("Reads training reports, knows the networks that are trained, and this node's meters and knobs.",
               "trainwatt");
  app.set_version_flag("--version", program.name + " " + program.version + " (" + program.git_commit + ")");
  app.require_subcommand(0, 1);
  app.footer(
      "Exit codes: 0 good; 1 a report breaks its schema or an invariant, a rule of compare --baseline, or a bundle is damaged,\n"
      "was altered or breaks a run rule; 2 bad usage or an unreadable file; 3 what was to be written could not be, restore has\n"
      "left something, or ssh-keygen is missing; 4 compare, html or cost had nothing to go by. meter passes its\n"
      "command's code through, and has 125 for its own failure.");

  tool::ValidateOptions validate_options;
  CLI::App* validate = app.add_subcommand(
      "validate",
      "Check reports against the schema, recompute them from their samples, and count the run rules that are "
      "broken");
  validate
      ->add_option("FILE", validate_options.paths,
                   "report.json, records.jsonl of an unfinished run, or what trainwatt bundle made")
      ->required();
  validate->add_option("--kit", validate_options.kit, "what trainwatt freeze made: the runs must be of it");
  validate->add_option("--signers", validate_options.signers,
                       "who may have signed a bundle: allowed signers, as ssh-keygen\nreads them");
  CLI::Option* verbose_rules = validate->add_flag("--verbose", validate_options.verbose,
                                                  "each run rule: kept, broken (where, and how), or why it is neither");
  validate->add_flag("--json", validate_options.json, "as JSON: faults, notes and rules by codes")
      ->excludes(verbose_rules);

  tool::ShowOptions show_options;
  CLI::App* show = app.add_subcommand("show", "Print a report");
  show->add_option("FILE", show_options.path, "report.json, or records.jsonl of an unfinished run")->required();
  const auto add_look = [](CLI::App* command, std::optional<int>& width, bool& ascii) {
    command->add_option("--width", width, "columns (the terminal's, from 40 to 200; 100 without one)")->check(CLI::Range(40, 400));
    command->add_flag("--ascii", ascii, "no Unicode in bars, curves and signs");
  };
  add_look(show, show_options.width, show_options.ascii);
  const auto add_sort = [](CLI::App* command, tool::SortOptions& sort, const char* otherwise) {
    sort.by = otherwise;
    std::string names = std::string(tool::plan_order) + " " + tool::run_order;
    for (const Merit& merit : merits()) names += " " + std::string(merit.name);
    command->add_option(
        "--sort", sort.by,
        "the table's rows: in the order of the plan's axes, of the run, or by a figure\nof merit, best first (" +
            std::string(otherwise) + "): " + names);
    command->add_option("--scope", sort.scope,
                        "of which joules (device, package, node, dram, facility); that of most points");
  };
  add_sort(show, show_options.sort, tool::plan_order);

  const auto add_prices = [](CLI::App* command, tool::PriceOptions& prices, const std::string& whose) {
    const std::string of_one = whose.empty() ? "" : " of " + whose.substr(0, whose.size() - 1);
    const auto list = [&](const char* name, std::vector<std::string>& into, const std::string& what) {
      command->add_option(name, into, what)->allow_extra_args(false)->group("Costs");
    };
    command->add_option("--prices", prices.prices, "JSON of prices (results/schema/prices.schema.json)")->group("Costs");
    list("--price-of", prices.price_of, whose + "ROW of that file; else by name or hosts");
    list("--facility-csv", prices.facility_csv, whose + "FILE of the facility's meter, time,watts: its PUE is measured" + of_one);
    list("--it-csv", prices.it_csv, whose + "FILE of the meter of the IT that this feeds");
    command->add_option("--sensitivity", prices.sensitivity_percent, "per cent that each input is turned by (20)")
        ->check(CLI::Range(0.1, 99.0))->group("Costs");
  };

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
  add_sort(export_command, export_options.sort, tool::run_order);
  add_prices(export_command, export_options.prices, "");

  tool::CompareCommand compare_command;
  CLI::App* compare = app.add_subcommand("compare", "Hold reports against each other: whether they may be, ratios with intervals, ranking, costs");
  compare
      ->add_option(
          "SYSTEM", compare_command.systems,
          "report.json of each system, or its folder of runs (run-1, run-2, ...); NAME=FILE,FILE,... names it and joins its runs")
      ->required();
  compare->add_option("--reference", compare_command.reference, "name of the system that the others are held against (the first)");
  std::string figure_names;
  for (const ComparedFigure& figure : compared_figures()) figure_names += (figure_names.empty() ? "" : ", ") + figure.name;
  compare->add_option("--figure", compare_command.figures, "a list of " + figure_names)->delimiter(',')->allow_extra_args(false);
  compare->add_option("--scope", compare_command.scope, "of which joules; the widest that tells of all");
  compare->add_option("--only", compare_command.only, "points of the reference and the others whose id has this text");
  compare->add_option("--weights", compare_command.weights, "of workloads in the overall mean: TEXT=NUMBER of their ids, a list, or a JSON file")
      ->delimiter(',')->allow_extra_args(false);
  compare->add_option("--baseline", compare_command.baseline, "JSON of rules (results/schema/baseline.schema.json); ends with 1 where one is surely violated, 4 where one is undecided");
  compare
      ->add_option(
          "--run-variance", compare_command.run_variance,
          "earlier runs that say how runs of a machine differ, for systems that were run once: FILE,FILE,... or a folder of runs; several for several machines")
      ->allow_extra_args(false);
  add_prices(compare, compare_command.prices, "NAME=");
  bool compare_json = false, compare_markdown = false, compare_csv = false;
  CLI::Option* as_json = compare->add_flag("--json", compare_json, "as JSON");
  CLI::Option* as_markdown = compare->add_flag("--markdown", compare_markdown, "as Markdown")->excludes(as_json);
  compare->add_flag("--csv", compare_csv, "as CSV")->excludes(as_json)->excludes(as_markdown);
  add_look(compare, compare_command.width, compare_command.ascii);

  tool::HtmlCommand html_command;
  CLI::App* html = app.add_subcommand("html", "Write one offline page of a report, or of a comparison");
  html->add_option("SYSTEM", html_command.systems, "report.json; of several, each as compare takes them")->required();
  html->add_option("-o,--out", html_command.out, "the page; a file that is there already is never overwritten")->required();
  html->add_option("--reference", html_command.reference, "name of the system that the others are held against (the first)");
  html->add_option("--scope", html_command.scope, "of which joules; the widest that tells of all");
  html->add_option("--only", html_command.only, "points to compare: those whose id has this text");
  html->add_option("--weights", html_command.weights, "of workloads in the overall mean, as compare takes them")
      ->delimiter(',')->allow_extra_args(false);
  html->add_option(
          "--run-variance", html_command.run_variance,
          "earlier runs that say how runs of a machine differ, for systems that were run once: FILE,FILE,... or a folder of runs; several for several machines")
      ->allow_extra_args(false);
  add_prices(html, html_command.prices, "NAME=");

  tool::CostCommand cost_command;
  CLI::App* cost = app.add_subcommand("cost", "What the points of a report cost: an hour, an EFLOP, a million samples, a trained model");
  cost->add_option("FILE", cost_command.path, "report.json")->required();
  add_prices(cost, cost_command.prices, "");
  cost->add_flag("--json", cost_command.json, "as JSON");
  add_look(cost, cost_command.width, cost_command.ascii);

  tool::ModelsOptions models_options;
  CLI::App* models = app.add_subcommand("models", "List the networks, or print what a training step of one computes");
  models->add_option("MODEL", models_options.model, "network; all of them without one");
  models->add_option("--layers", models_options.layers, "cut the network to this many layers");
  models->add_option("--precision", models_options.precision, "float32, tf32, bf16, fp16 or fp8")
      ->capture_default_str();
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
  plan->add_flag("--runs", plan_command.runs_only, "print only how many runs the plan asks for (--repeat)");

  tool::FreezeCommand freeze_command;
  CLI::App* freeze =
      app.add_subcommand("freeze", "Write a plan as a kit that others run unchanged: trainwatt-train --config kit.json");
  add_plan_options(*freeze, freeze_command.options);
  const auto add_out = [](CLI::App* command, std::string& out) {
    command->add_option("-o,--out", out, "file; one that is there already is never overwritten")->required()->group("Result");
  };
  add_out(freeze, freeze_command.out);
  freeze->add_option("--title", freeze_command.title, "of the kit; reports carry it")->group("Result");
  freeze->add_option("--contact", freeze_command.contact, "whom to ask")->group("Result");
  freeze->add_option("--notes", freeze_command.notes, "what whoever runs it should know")->group("Result");

  tool::BundleCommand bundle_command;
  CLI::App* bundle = app.add_subcommand("bundle", "Pack a run into one file with checksums: trainwatt bundle DIR -o offer.tar.zst");
  bundle->add_option("DIR", bundle_command.folder, "folder of a run (trainwatt-train --out)")->required();
  add_out(bundle, bundle_command.out);
  bundle->add_option("--sign", bundle_command.sign, "key that ssh-keygen signs the checksums with");
  bundle->add_flag("--force", bundle_command.force, "also where the report is not good, which the bundle then says");

  tool::ProbeOptions probe_options;
  CLI::App* probe = app.add_subcommand("probe", "List this node's energy meters and knobs, and what would make more available");
  probe->add_flag("--json", probe_options.json, "as JSON");
  probe->add_option("--site", probe_options.site, "JSON of a site's own commands for knobs");
  probe->add_option("--energy-csv", probe_options.energy_csv, "this node's power by the site's own meter: time,watts");

  tool::MeterCommand meter_options;
  CLI::App* meter = app.add_subcommand("meter", "Run a command and report the joules it used: trainwatt meter -- CMD…");
  meter->add_option("--out", meter_options.out, "folder for report.json; must not exist (default out/meter-<time>)");
  meter
      ->add_flag("--parse", meter_options.parse,
                 "copy the command's output through and look for MLLOG lines, or\nsamples=N [seconds=T]: the last such line counts, as the total of\nthe whole command; N is a plain number")
      ->disable_flag_override();
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
  for (CLI::App* sub : {validate, show, export_command, html, compare, cost, models, plan, freeze, bundle, probe, meter, restore})
    sub->allow_extras();
  try {
    check_words(words, argv);
    app.parse(words, argv);
  } catch (const UsageError& error) {
    return fail(error.what(), argc > 1 && std::string_view(argv[1]) == "meter" ? tool::meter_failure : exit_usage);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help_within_terminal(app.help()));
    return finish(0);
  } catch (const CLI::Success& success) {  // --version
    return finish(app.exit(success));
  } catch (const CLI::ParseError& error) {
    return fail(parse_problem(called(app), error) + "; see " + help_of(app), *meter ? tool::meter_failure : exit_usage);
  }
  try {
    const std::vector<std::string> extras = app.remaining(true);
    if (*meter && !extras.empty() && !extras.front().starts_with("-")) {
      std::string command;
      for (const std::string& word : extras) command += " " + word;
      return fail("the command stands behind --: trainwatt meter [options] --" + command, tool::meter_failure);
    }
    if (!extras.empty()) return fail(unknown_word(app, extras.front()), *meter ? tool::meter_failure : exit_usage);
    if (*meter && meter_options.command.empty())
      return fail("no command to meter: it stands behind --, as in trainwatt meter -- CMD…", tool::meter_failure);
    if (*validate) return finish(tool::validate(validate_options));
    if (*show) return finish(tool::show(show_options));
    if (*export_command) return finish(tool::export_report(export_options));
    if (*html) return finish(tool::html(html_command));
    if (*compare) {
      using tool::OutputForm;
      compare_command.form = compare_json ? OutputForm::json : compare_markdown ? OutputForm::markdown : compare_csv ? OutputForm::csv : OutputForm::text;
      return finish(tool::compare_reports(compare_command));
    }
    if (*cost) return finish(tool::cost(cost_command));
    if (*models) return finish(tool::models(models_options));
    if (*plan) return finish(tool::plan(plan_command));
    if (*freeze) return finish(tool::freeze(freeze_command));
    if (*bundle) return finish(tool::bundle(bundle_command));
    if (*probe) return finish(tool::probe(probe_options));
    if (*meter) return tool::meter(meter_options);  // the command's own code
    if (*restore) return finish(tool::restore(restore_all));
    return fail("no command given; see trainwatt --help");
  } catch (const tool::EnvironmentError& error) {
    return fail(error.what(), exit_environment);
  } catch (const std::exception& error) {
    return fail(error.what(), std::ferror(stdout) != 0 ? exit_environment : exit_usage);
  }
}
