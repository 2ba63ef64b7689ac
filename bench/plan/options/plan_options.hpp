// The part of a command line that makes a plan, shared by the programs that run and that predict one.
#pragma once

#include <string>

#include "bench/plan/options/option_value.hpp"
#include "bench/plan/options/request.hpp"
#include "bench/terminal/describe.hpp"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tw::bench {

struct PlanOptions {
  Axes axes;                  ///< from the options; empty with a suite or config, but for settings and ranks
  std::string suite, config;  ///< at most one is given
  GivenOptions given;         ///< of bench/plan/options/run_options.cpp, by key: they go over a suite's or config's own
};

/// Adds the options to a program or one of its commands; `options` has to outlive its parsing.
void add_plan_options(CLI::App& app, PlanOptions& options);
/// The words that they take, for completion in shells.
KnownWords plan_words();
/// Throws UsageError if options exclude each other.
void check_plan_options(const PlanOptions& options);
/// Whether they may lead to settings.
bool may_set(const PlanOptions& options);
/// Throws UsageError for `--option=` with nothing behind it, in whose place CLI11 may take the next word, and for empty
/// words: an option that is given one would pass for one that is not given.
void check_words(int argc, const char* const* argv);
/// What was wrong with a command line, with the nearest known option.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error);

/// Reads the files that options name and puts their content in place of the path; one rank does so for all.
/// Throws UsageError.
void read_files(PlanOptions& options);

/// What the options ask for; files that they still name are read. `config_text`: of the file --config names. Throws
/// UsageError.
Request request_of(const PlanOptions& options, const std::string& config_text);

}  // namespace tw::bench
