// `trainwatt`: everything that needs no training run, on any machine.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include "bench/plan/options/plan_options.hpp"
#include "bench/terminal/describe.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/terminal/option_checks.hpp"
#include "bench/terminal/terminal.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/errors.hpp"
#include "bench/tool/inputs/options.hpp"
#include "models/catalog/nearest.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"

namespace {

using namespace tw;

constexpr const char* reads = "Exit codes: 0 success; 2 usage, or a file cannot be read; 3 output cannot be written.";

struct Command {
  const char* name;
  const char* help;  ///< one line
  bench::tool::Action (*add)(CLI::App& command, const bench::tool::Words& words);
  const char* exit_codes = reads;  ///< printed below its options
  /// The words behind -- are another program's, whose exit code is passed through.
  bool needs_program = false;
};

constexpr Command commands[] = {
    {"validate", "Check reports and bundles: schema, figures against their samples, run rules",
     bench::tool::add_validate,
     "Exit codes: 0 no fault; 1 a report has faults, or a bundle is damaged, altered or breaks a run rule; 2 usage,\n"
     "or a file cannot be read or is no report; 3 output cannot be written, or ssh-keygen is missing."},
    {"show", "Print a report", bench::tool::add_show},
    {"export", "Write a report in other formats, each to its own file", bench::tool::add_export},
    {"compare", "Compare reports: comparability, ratios with intervals, ranking, costs", bench::tool::add_compare,
     "Exit codes: 0 success; 1 a rule of --baseline is violated; 2 usage, or a file cannot be read; 3 output cannot\n"
     "be written; 4 nothing could be compared, a rule is undecided, or a tender has no award."},
    {"html", "Write a report, or a comparison, as one offline page", bench::tool::add_html,
     "Exit codes: 0 success; 2 usage, or a file cannot be read; 3 output cannot be written; 4 nothing could be\n"
     "compared, or a tender has no award (the page is written and says so)."},
    {"cost", "Print the cost per hour, EFLOP, million samples and trained model of a report", bench::tool::add_cost,
     "Exit codes: 0 success; 2 usage, or a file cannot be read; 3 output cannot be written; 4 no point has a cost."},
    {"models", "List the networks, or print the operations of one network's training step", bench::tool::add_models},
    {"plan", "Print the points of a run, what this node cannot run, and the time and energy it takes",
     bench::tool::add_plan},
    {"freeze", "Write a plan as a kit that others run unchanged: trainwatt-train --config kit.json",
     bench::tool::add_freeze},
    {"bundle", "Pack a run into one file with checksums: trainwatt bundle DIR -o offer.tar.zst",
     bench::tool::add_bundle,
     "Exit codes: 0 success; 1 the report has faults, so it is not packed; 2 usage, or a file cannot be read;\n"
     "3 output cannot be written, or ssh-keygen is missing."},
    {"probe", "List this node's energy meters and settings, and how to make more available", bench::tool::add_probe},
    {"meter", "Run a command and measure its energy: trainwatt meter -- CMD...", bench::tool::add_meter,
     "CMD is the command with its arguments. trainwatt meter exits with the command's exit code, or with 125 if\n"
     "trainwatt meter itself fails.",
     true},
    {"restore", "Restore clocks and power limits that a killed run left changed", bench::tool::add_restore,
     "Exit codes: 0 success, or nothing to restore; 2 usage; 3 a setting could not be restored."},
};

constexpr const char* exit_codes =
    "Exit codes: 0 success; 1 validate found a fault, a baseline rule is violated, or a bundle is damaged or altered;\n"
    "2 usage, or a file cannot be read; 3 output cannot be written, restore is incomplete, or ssh-keygen is missing;\n"
    "4 compare, html or cost has nothing to compare. meter exits with its command's code, or 125 for its own failure.";

std::string help_of(const CLI::App& called, const CLI::App& program) {
  return &called == &program ? "trainwatt --help" : "trainwatt " + called.get_name() + " --help";
}

/// CLI11 says "The following argument was not expected: …"; the nearest known word helps more.
std::string unknown_word(const CLI::App& called, const CLI::App& program, const std::string& word) {
  std::vector<std::string> known;
  const bool is_option = word.starts_with("-"), is_command = !is_option && &called == &program;
  if (is_option)
    for (const CLI::Option* option : called.get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  if (is_command)
    for (const Command& command : commands) known.emplace_back(command.name);
  const std::string close = models::nearest(word.substr(0, word.find('=')), known);
  const std::string what = fmt::format("unknown {} {}{} See {}",
                                       is_option    ? "option"
                                       : is_command ? "command"
                                                    : "argument",
                                       models::cut_word(word), close.empty() ? "." : ": did you mean " + close + "?",
                                       help_of(called, program));
  return is_command ? bench::with_code("unknown-command", what) : bench::with_code("unknown-option", what);
}

int fail(const std::string& what, int code) {
  std::fflush(stdout);  // keeps the order of output and error in a log file
  bench::say_on_stderr(bench::error_line("trainwatt", what));
  return code;
}

/// What was printed counts once it has arrived.
int finish(int code) {
  const std::string fault = bench::stdout_fault();
  return fault.empty() ? code : fail(fault, bench::tool::exit_environment);
}
/// fmt::print throws where standard output is full: finish() says so.
int finish_with(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return finish(0);
}

int run(int argc, char** argv) {
  const auto is_called = [&](const Command& one) { return argc > 1 && std::string_view(argv[1]) == one.name; };
  const auto entry = std::ranges::find_if(commands, is_called);
  const bool has_program = entry != std::end(commands) && entry->needs_program;
  const int usage = has_program ? bench::tool::meter_failure : bench::tool::exit_usage;
  // The words behind the -- of `meter` are another program's, whatever they look like.
  const int own =
      has_program ? static_cast<int>(std::find(argv + 2, argv + argc, std::string_view("--")) - argv) : argc;
  bench::tool::Words words{{argv, argv + argc}, {}};
  if (own < argc) words.behind_dashes.assign(argv + own + 1, argv + argc);

  const results::Program program = results::program_info("trainwatt");
  CLI::App app("Reads training reports, lists networks, and shows this node's energy meters and settings.",
               "trainwatt");
  app.set_version_flag("--version", program.name + " " + program.version + " (" + program.git_commit + ")");
  app.require_subcommand(0, 1);
  app.footer(exit_codes);
  app.allow_extras();  // told apart below, with a suggestion
  const CLI::App* called = &app;
  bench::tool::Action action;
  std::string format;
  bench::add_describe_option(app, format);
  const bool describes = argc > 1 && std::string_view(argv[1]).starts_with("--describe");
  for (const Command& command : commands) {
    CLI::App* const added = app.add_subcommand(command.name, command.help);
    added->allow_extras();
    added->footer(command.exit_codes);
    if (describes) command.add(*added, words);
    if (!is_called(command)) continue;
    called = added;
    action = command.add(*added, words);
    bench::read_decimal(*added);
  }
  try {
    bench::check_words(own, argv);
    app.parse(own, argv);
  } catch (const bench::UsageError& error) {
    return fail(error.what(), usage);
  } catch (const CLI::CallForHelp&) {
    return finish_with(bench::help_within_terminal(app.help()));
  } catch (const CLI::Success& success) {  // --version
    return finish(app.exit(success));
  } catch (const CLI::ParseError& error) {
    return fail(bench::parse_problem(*called, error) + "; see " + help_of(*called, app), usage);
  }
  if (!format.empty()) return finish_with(bench::describe(app, format, program.version, bench::tool::known_words()));
  const std::vector<std::string> extras = app.remaining(true);
  if (has_program && !extras.empty() && !extras.front().starts_with("-"))
    return fail(bench::with_code("no-command", fmt::format("put -- before the command: trainwatt {} [options] -- {}",
                                                           entry->name, fmt::join(extras, " "))),
                usage);
  if (!extras.empty()) return fail(unknown_word(*called, app, extras.front()), usage);
  if (!action) return fail(bench::with_code("no-command", "no command given; see trainwatt --help"), usage);
  if (has_program && words.behind_dashes.empty())
    return fail(bench::with_code(
                    "no-command",
                    fmt::format("no command given: trainwatt {0} -- CMD...; see trainwatt {0} --help", entry->name)),
                usage);
  try {
    const int code = action();
    return has_program ? code : finish(code);
  } catch (const bench::tool::EnvironmentError& error) {
    return fail(error.what(), bench::tool::exit_environment);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return finish(bench::tool::exit_environment);
    return fail(bench::coded(error), bench::tool::exit_usage);
  }
}

}  // namespace

int main(int argc, char** argv) {
  tw::bench::write_stderr_by_lines();
  return run(argc, argv);
}
