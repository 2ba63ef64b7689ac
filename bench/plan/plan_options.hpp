// The part of a command line that makes a plan, shared by the programs that run and that predict one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace tw {

/// Under which --help lists what turns knobs.
inline constexpr const char* settings_group = "Settings (restored at the end)";

struct PlanOptions {
  Axes axes;                  ///< from the options; empty with a suite or config, but for settings and ranks
  std::string suite, config;  ///< at most one is given
  // How long, how: what was given explicitly, over a suite's or config's own.
  std::optional<double> window_seconds;
  std::optional<std::int64_t> steps, trials, warmup_steps, seed;
  std::string target;               ///< "default" or a number; empty: train for a time
  std::vector<std::int64_t> seeds;  ///< one value: how many
  std::string recompute;  ///< as parse_recompute reads it; empty: not given
  bool eager = false;
  std::string deterministic;  ///< "yes", "no", or empty: not given
  std::string comm;  ///< a communicator, "auto", or empty: not given
  std::string search, max_slowdown;  ///< merit; "5%" or "0.05"; empty: none, or the default
  std::optional<double> hour_price, kwh_price;
  std::optional<std::int64_t> repeat;  ///< runs of the plan, each launched anew
};

/// Adds the options to a program or one of its commands; `options` has to outlive its parsing.
void add_plan_options(CLI::App& app, PlanOptions& options);
/// Throws UsageError where options exclude each other.
void check_plan_options(const PlanOptions& options);
/// What --hour-price and --kwh-price say; nullopt where neither is above 0. Throws UsageError.
std::optional<JobPrices> prices_of(const PlanOptions& options);
/// Of the four options of a search. Throws UsageError.
SearchRequest search_of(const PlanOptions& options);
/// Throws UsageError for `--option=` with nothing behind it, in whose place CLI11 may take the next word.
void check_words(int argc, const char* const* argv);
/// What was wrong with a command line, with the nearest known option.
std::string parse_problem(const CLI::App& app, const CLI::ParseError& error);

/// What the options ask for. `config_text`: of the file --config names. Throws UsageError.
Request request_of(const PlanOptions& options, const std::string& config_text);

}  // namespace tw
