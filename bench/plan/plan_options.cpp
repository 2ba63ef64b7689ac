#include "bench/plan/plan_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "bench/plan/set_points.hpp"
#include "models/catalog/nearest.hpp"
#include "results/selection/search.hpp"

namespace tw {
namespace {

/// Before what is to stand right behind the option's name: CLI11 puts a colon there.
constexpr const char* out_of_range_mark = "\x01";

/// CLI11's message for an unknown option, with the nearest known one.
std::string unknown_option(const CLI::App& app, const CLI::ExtrasError& error) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& word : app.remaining()) {
    const std::string close = nearest(word.substr(0, word.find('=')), known);
    if (!close.empty()) return fmt::format("unknown option {}: did you mean {}?", cut_word(word), close);
    return fmt::format("unknown {} {}: see --help", word.starts_with("-") ? "option" : "argument", cut_word(word));
  }
  return error.what();
}

/// What an option's value has to be, for one that was none.
std::string wanted_value(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = app.get_option_no_throw(name);
  const std::string type = option == nullptr ? "" : option->get_type_name();
  const bool is_list = option != nullptr && option->get_delimiter() != '\0';
  return fmt::format("must be a {}number{}", type.find("FLOAT") == std::string::npos ? "whole " : "",
                     is_list ? ", or a list of them" : "");
}

bool has_settings(const Axes& axes) {
  return std::ranges::any_of(axes.setting, [](const auto& axis) { return !axis.second.empty(); });
}

bool names_no_workload(const Axes& axes) {
  return axes.model.empty() && axes.layers.empty() && axes.precision.empty() && axes.micro_batch.empty() &&
         axes.accumulate.empty() && axes.global_batch.empty() && axes.seq_len.empty();
}

/// A list of which an item is missing, as "1,,4": CLI11 would drop it without a word. `next` is its value where `word`
/// has none.
void check_list(std::string_view word, std::string_view next) {
  static constexpr std::string_view lists[] = {"--model",       "--layers",     "--precision",
                                               "--micro-batch", "--accumulate", "--global-batch",
                                               "--seq-len",     "--ranks",      "--seeds"};
  const std::string_view name = word.substr(0, word.find('='));
  const bool is_list =
      std::ranges::find(lists, name) != std::end(lists) ||
      std::ranges::any_of(setting_axes(), [&](const SettingAxis& axis) { return name == axis.option; });
  if (!is_list) return;
  const std::string_view value = name.size() < word.size() ? word.substr(name.size() + 1) : next;
  if (value.starts_with(',') || value.ends_with(',') || value.find(",,") != value.npos)
    throw UsageError(
        fmt::format("{} {}: an item of the list is empty: take the comma away, or write what is missing", name, value));
}

/// A whole number that no computer number holds: CLI11 would take the largest that is one.
std::string too_large_for_an_integer(const std::string& text) {
  std::int64_t value = 0;
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  if (error != std::errc::result_out_of_range || end != text.data() + text.size()) return {};
  return fmt::format("{}{}: is no number that anything here takes: must be a smaller one", out_of_range_mark,
                     cut_word(text));
}

/// "5%" or "0.05".
double parse_share(const std::string& name, std::string text) {
  const bool is_percent = text.ends_with('%');
  const std::string_view digits(text.data(), text.size() - (is_percent ? 1 : 0));
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  value /= is_percent ? 100 : 1;
  if (error != std::errc() || end != digits.data() + digits.size() || !(value >= 0 && value < 1))
    throw UsageError(fmt::format("{} {}: must be a share below 1, as 5% or 0.05", name, cut_word(text)));
  return value;
}

/// Nobody who is handed a kit is to run something else under its name.
void refuse_changes(const PlanOptions& options) {
  std::vector<std::string> given;
  const auto look = [&](const char* name, bool is_given) {
    if (is_given) given.emplace_back(name);
  };
  look("--window", options.window_seconds.has_value()), look("--steps", options.steps.has_value());
  look("--trials", options.trials.has_value()), look("--warmup", options.warmup_steps.has_value());
  look("--seed", options.seed.has_value()), look("--seeds", !options.seeds.empty());
  look("--target", !options.target.empty()), look("--recompute", !options.recompute.empty());
  look("--eager", options.eager), look("--comm", !options.comm.empty());
  look("--deterministic", !options.deterministic.empty()), look("--repeat", options.repeat.has_value());
  if (!given.empty())
    throw UsageError(fmt::format("{}: is a kit, which is run as it was frozen: leave out {}", options.config,
                                 fmt::join(given, ", ")));
}

}  // namespace

void add_plan_options(CLI::App& app, PlanOptions& options) {
  Axes& axes = options.axes;
  const auto axis = [&](const char* group, const char* name, auto& values, const std::string& help) {
    CLI::Option* option = app.add_option(name, values, help)->delimiter(',')->allow_extra_args(false)->group(group);
    if constexpr (std::is_integral_v<typename std::decay_t<decltype(values)>::value_type>)
      option->check(too_large_for_an_integer);
  };
  const auto one = [&](const char* group, const char* name, auto& value, const std::string& help) {
    CLI::Option* option = app.add_option(name, value, help)->group(group);
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::optional<std::int64_t>>)
      option->check(too_large_for_an_integer);
  };
  constexpr const char *what = "What", *how_long = "How long";
  axis(what, "--model", axes.model, "network(s); `trainwatt models` lists them");
  axis(what, "--layers", axes.layers, "keep only the first N layers");
  axis(what, "--precision", axes.precision,
       "float32 (default), bf16, …; beside points that can run, what the\ndevice lacks is recorded as unsupported");
  axis(what, "--micro-batch", axes.micro_batch, "samples a rank computes at once");
  axis(what, "--accumulate", axes.accumulate, "micro-batches for each optimizer step (default 1)");
  axis(what, "--global-batch", axes.global_batch,
       "samples of an optimizer step over all ranks, instead of\none of the two");
  axis(what, "--seq-len", axes.seq_len, "tokens of a sample");
  axis(what, "--ranks", axes.ranks, "how many of the job's ranks train (default: all); the\nothers sleep meanwhile");
  for (const SettingAxis& setting : setting_axes())
    axis(settings_group, setting.option, axes.setting[setting.kind], setting.help);
  one(what, "--suite", options.suite, fmt::format("a built-in plan: {}", fmt::join(suite_names(), ", ")));
  one(what, "--config", options.config,
      "a plan as JSON; keys as the options, with underscores; or\na kit that `trainwatt freeze` made");
  one(what, "--seed", options.seed, "of weights and data (default 1)");
  app.add_option("--recompute", options.recompute,
                 "of all layers, or the first N or P% of them, keep inputs only and\nrecompute the rest in backward")
      ->expected(0, 1)
      ->default_str("all")
      ->type_name("[N|P%]")
      ->group(what);
  app.add_option(
         "--comm", options.comm,
         fmt::format("what sums gradients over ranks: auto (default), {}", fmt::join(communicator_names(), ", ")))
      ->group("Where");
  app.add_flag("--eager", options.eager, "call by call, also where the device records steps as graphs")->group("Where");
  app.add_option("--deterministic", options.deterministic,
                 "yes or no. On a GPU yes is the default; no: attention and\n"
                 "convolutions may add in any order, for speed and memory.\n"
                 "On the CPU no is the default: implementations are chosen by\n"
                 "timing; yes: fixed ones, two runs have the same bits")
      ->group("Where");
  constexpr const char* search = "Search";
  one(search, "--search", options.search,
      fmt::format("look for the best setting with few of the grid's points: the least\n{} a sample",
                  fmt::join(merit_names(), ", ")));
  one(search, "--max-slowdown", options.max_slowdown, "against the found settings (default 5%)");
  one(search, "--hour-price", options.hour_price, "of an hour of the job's nodes, for what a run costs");
  one(search, "--kwh-price", options.kwh_price, "of a kWh of their joules");
  one(how_long, "--window", options.window_seconds, "seconds of a trial (default 60)");
  one(how_long, "--trials", options.trials, "trials of a point (default 3; 1 with --steps)");
  one(how_long, "--steps", options.steps, "steps of a trial instead of a window; energy is then marked\nshort");
  one(how_long, "--warmup", options.warmup_steps, "steps before the first trial, at least (default 3)");
  one(how_long, "--repeat", options.repeat,
      "runs of the plan, each launched anew (scripts/repeat); a kit\nand a config keep the number (default 1)");
  one(how_long, "--target", options.target,
      "train until the network's task reaches its target:\n'default', or nats over the floor (tokens), or\nheld-out "
      "error (images)");
  axis(how_long, "--seeds", options.seeds,
       "runs of each point to its target (default 5), or a list\nof seeds, one for each run");
}

std::optional<JobPrices> prices_of(const PlanOptions& options) {
  const auto price = [](const char* name, const std::optional<double>& value) {
    if (value && !(*value >= 0 && std::isfinite(*value)))
      throw UsageError(fmt::format("{} {}: must not be below 0", name, *value));
    return value.value_or(0);
  };
  const JobPrices prices{price("--hour-price", options.hour_price), price("--kwh-price", options.kwh_price)};
  if (prices == JobPrices{}) return std::nullopt;
  return prices;
}

SearchRequest search_of(const PlanOptions& options) {
  SearchRequest search;
  search.merit = options.search;
  if (!merit_from_string(search.merit)) {
    const std::string close = nearest(search.merit, merit_names());
    throw UsageError(fmt::format("unknown --search '{}': {}", cut_word(search.merit),
                                 close.empty() ? fmt::format("known: {}", fmt::join(merit_names(), ", "))
                                               : fmt::format("did you mean '{}'?", close)));
  }
  if (!options.max_slowdown.empty()) search.max_slowdown = parse_share("--max-slowdown", options.max_slowdown);
  const std::optional<JobPrices> prices = prices_of(options);
  const bool is_cost = search.merit == "cost";
  if (is_cost && !prices)
    throw UsageError("--search cost: give --hour-price of the job's nodes, --kwh-price of their energy, or both");
  if (is_cost) search.hour_price = prices->hour_price, search.kwh_price = prices->kwh_price;
  if (!is_cost && (options.hour_price || options.kwh_price))
    throw UsageError(
        fmt::format("--hour-price and --kwh-price are for --search cost: leave them out with {}", search.merit));
  return search;
}

void check_plan_options(const PlanOptions& options) {
  if (!options.suite.empty() && !options.config.empty())
    throw UsageError("--suite and --config exclude each other: give one");
  const bool planned = !options.suite.empty() || !options.config.empty();
  if (planned && !names_no_workload(options.axes))
    throw UsageError("a suite or config is frozen: leave out --model, --precision and the like");
  if (!options.config.empty() && has_settings(options.axes))
    throw UsageError("a config is frozen: leave out --gpu-clock and the like, or write gpu_clock into the file");
  if (!options.config.empty() && !options.axes.ranks.empty())
    throw UsageError("a config is frozen: leave out --ranks, or write ranks into the file");
  if (!options.target.empty()) parse_target("--target", options.target);
  if (!options.recompute.empty()) parse_recompute("--recompute", options.recompute);
  if (!options.deterministic.empty() && options.deterministic != "yes" && options.deterministic != "no")
    throw UsageError(fmt::format("--deterministic {}: must be yes or no", options.deterministic));
  if (!options.comm.empty()) check_communicator("--comm", options.comm);
  if (!options.search.empty()) {
    search_of(options);
    if (!options.config.empty())
      throw UsageError("a config is frozen: leave out --search, or write search into the file");
  } else if (!options.max_slowdown.empty()) {
    throw UsageError("--max-slowdown is for --search: add it, or leave it out");
  }
  prices_of(options);
  if (options.steps && options.window_seconds) throw UsageError("--steps and --window exclude each other: give one");
}

void check_words(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return;  // a command's own words
    if (word.starts_with("--") && word.ends_with('='))
      throw UsageError(fmt::format("{}: needs a value", word.substr(0, word.size() - 1)));
    check_list(word, i + 1 < argc ? argv[i + 1] : "");
  }
}

std::string parse_problem(const CLI::App& app, const CLI::ParseError& error) {
  if (const auto* extras = dynamic_cast<const CLI::ExtrasError*>(&error)) return unknown_option(app, *extras);
  std::string what = error.what();
  const std::string mark = std::string(": ") + out_of_range_mark;
  if (const std::size_t at = what.find(mark); at != std::string::npos) return what.replace(at, mark.size(), " ");
  const std::string_view not_converted = "Could not convert: ", between = " = ";
  if (const std::size_t at = what.find(between); what.starts_with(not_converted) && at != std::string::npos) {
    const std::string name = what.substr(not_converted.size(), at - not_converted.size());
    return fmt::format("{} {}: {}", name, cut_word(what.substr(at + between.size())), wanted_value(app, name));
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr && what.ends_with(" missing"))
    return what.substr(0, what.find(':')) + ": needs a value";
  if (what.ends_with(" was given a disallowed flag override")) {
    const std::string name = what.substr(0, what.find(' '));
    return (name.starts_with("-") ? name : "--" + name) + " takes no value";
  }
  return what;
}

Request request_of(const PlanOptions& options, const std::string& config_text) {
  Request request;
  if (!options.suite.empty())
    request = suite_request(options.suite);
  else if (!options.config.empty())
    request = read_config(options.config, config_text);
  else
    request.axes.push_back(options.axes);
  if (request.kit) refuse_changes(options);
  const bool planned = !options.suite.empty() || !options.config.empty();
  Measurement& measurement = request.measurement;
  std::vector<std::string> changed;
  const auto change = [&](const char* option, bool is_changed) {
    if (is_changed) changed.emplace_back(option);
  };
  if (!options.recompute.empty()) {
    const Recompute recompute = parse_recompute("--recompute", options.recompute);
    change("recompute", recompute != request.recompute);
    request.recompute = recompute;
  }
  change("eager", options.eager && !request.eager);
  if (options.eager) request.eager = true;
  if (!options.comm.empty()) {
    const std::string comm = options.comm == "auto" ? "" : options.comm;
    change("comm", comm != request.comm);
    request.comm = comm;
  }
  if (!options.deterministic.empty()) {
    const bool wanted = options.deterministic == "yes";
    change("deterministic", wanted != request.deterministic.value_or(true));
    request.adds_deterministic = planned && wanted && !request.deterministic;
    request.deterministic = wanted;
  }
  // Around a built-in suite settings and ranks are axes of their own; it is then no longer what others have run under
  // its name.
  if (!options.suite.empty()) {
    if (has_settings(options.axes))
      change("clocks", std::erase_if(request.axes, [](const Axes& grid) { return !grid.clock.empty(); }) > 0);
    for (const auto& [kind, values] : options.axes.setting) {
      for (Axes& grid : request.axes) grid.setting[kind] = values;
      const auto axis = std::ranges::find(setting_axes(), kind, &SettingAxis::kind);
      change(axis->option + 2, std::ranges::any_of(values, [](const std::string& value) { return value != "found"; }));
    }
    for (Axes& grid : request.axes) grid.ranks = options.axes.ranks;
    change("ranks", !options.axes.ranks.empty());
  }
  if (options.seed) request.seed = static_cast<std::uint64_t>(check_range("--seed", *options.seed, 0, largest_seed));
  if (!options.search.empty()) {
    request.search = search_of(options);
    change("search", true);
  }
  if (const std::optional<JobPrices> prices = prices_of(options)) request.prices = prices;
  if (options.repeat) request.repeat = static_cast<int>(check_range("--repeat", *options.repeat, 1, most_runs));
  if (options.steps) {
    measurement.steps = *options.steps;
    measurement.trials = 1;
  }
  if (options.window_seconds) {
    measurement.window_seconds = *options.window_seconds;
    measurement.ceiling_seconds =
        std::clamp(measurement.window_seconds, 1.0, measurement.ceiling_seconds);  // a short look is short
    measurement.steps.reset();
  }
  if (options.trials) measurement.trials = static_cast<int>(check_range("--trials", *options.trials, 1, most_trials));
  if (options.warmup_steps)
    measurement.warmup_steps = static_cast<int>(check_range("--warmup", *options.warmup_steps, 0, most_steps));
  if (request.target || !options.target.empty()) {
    if (options.steps || options.window_seconds || options.trials || options.warmup_steps)
      throw UsageError("a run to a target ends at the target: leave out --steps, --window, --trials and --warmup");
    if (planned && !request.target)
      throw UsageError(
          fmt::format("this {} trains for a time: leave out --target", options.suite.empty() ? "config" : "suite"));
    if (!request.target) request.target.emplace();
    if (!options.target.empty()) request.target->value = parse_target("--target", options.target);
    if (!options.seeds.empty()) set_seeds(*request.target, "--seeds", options.seeds, options.seeds.size() > 1);
    change("target", !options.target.empty());
    change("seeds", !options.seeds.empty());
  } else if (!options.seeds.empty()) {
    throw UsageError("--seeds is for runs to a target: give --target, or --seed for the one seed of all points");
  }
  change("seed", options.seed.has_value());
  change("steps", options.steps.has_value());
  change("window", options.window_seconds.has_value());
  change("trials", options.trials.has_value());
  change("warmup", options.warmup_steps.has_value());
  for (const std::string& option : changed) request.given.insert("--" + option);
  if (planned && !changed.empty()) request.suite += fmt::format("{}{})", changed_suite, fmt::join(changed, ", "));
  return request;
}

}  // namespace tw
