#include "bench/plan/options/plan_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>

#include "bench/plan/options/axes.hpp"
#include "bench/plan/options/layers_file.hpp"
#include "bench/plan/options/run_options.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/terminal/option_checks.hpp"
#include "models/catalog/described.hpp"
#include "models/catalog/nearest.hpp"

namespace tw::bench {
namespace {

using Kind = ValueType::Kind;

/// CLI11's message for an unknown option, with the nearest known one.
std::string unknown_option(const CLI::App& app, const CLI::ExtrasError& error) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& word : app.remaining()) {
    const std::string close = models::nearest(word.substr(0, word.find('=')), known);
    if (!close.empty()) return fmt::format("unknown option {}: did you mean {}?", models::cut_word(word), close);
    return fmt::format("unknown {} {}: see --help", word.starts_with("-") ? "option" : "argument",
                       models::cut_word(word));
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

/// Refuses a list with an empty item ("1,,4"), which CLI11 would drop. `next` is its value where `word` has none.
void check_list(std::string_view word, std::string_view next) {
  const std::string name(word.substr(0, word.find('=')));
  const auto is_named = [&](const auto& option) { return option_name(option.key) == name; };
  const auto option = std::ranges::find_if(run_options(), is_named);
  const bool is_list = name == "--to" || std::ranges::any_of(axes_list(), is_named) ||
                       (option != run_options().end() && option->type.kind == Kind::integers);
  const std::string_view value = name.size() < word.size() ? word.substr(name.size() + 1) : next;
  if (is_list && (value.starts_with(',') || value.ends_with(',') || value.find(",,") != value.npos))
    throw UsageError("bad-value",
                     fmt::format("{} {}: an item of the list is empty: remove the extra comma", name, value));
}

/// Refuses a whole number that no computer number holds: CLI11 would take the largest that is one.
CLI::Validator holding(const ValueType& type) {
  const std::string too_large = type.kind == Kind::integers ? "value too large: must be " + type.wanted
                                                            : fmt::format("value too large (maximum {})", type.most);
  return {[too_large](const std::string& text) -> std::string {
            std::int64_t value = 0;
            const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
            const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
            if (error != std::errc::result_out_of_range || end != text.data() + text.size()) return {};
            return value_fault(text, text.starts_with('-') ? "value too small" : too_large);
          },
          ""};
}

/// Reads the word for 0, and refuses the number 0.
CLI::Validator worded(const ValueType& type) {
  return {[word = type.zero_word](std::string& text) -> std::string {
            std::int64_t value = 1;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (value == 0 && error == std::errc() && end == text.data() + text.size())
              return value_fault(text, "value too small (minimum 1)");
            if (text == word) text = "0";
            return {};
          },
          ""};
}

void add_axis(CLI::App& app, const Axis& axis, Axes& axes) {
  with_values(axis, axes, [&](auto& values) {
    CLI::Option* option = app.add_option(option_name(axis.key), values, axis.help)
                              ->delimiter(',')
                              ->allow_extra_args(false)
                              ->group(axis.group);
    if constexpr (std::is_integral_v<typename std::decay_t<decltype(values)>::value_type>)
      option->check(holding(axis.type));
    if (!axis.type.zero_word.empty()) option->transform(worded(axis.type));
  });
}

CLI::Option* add_typed(CLI::App& app, const RunOption& option, GivenOptions& given) {
  const auto take = [&given, &option](const auto& value) { given[option.key] = value; };
  switch (option.type.kind) {
    case Kind::flag:
      return app.add_flag_callback(
          option.name, [take] { take(true); }, option.help);
    case Kind::integer:
      return app.add_option_function<std::int64_t>(option.name, take, option.help)->check(holding(option.type));
    case Kind::number:
      return app.add_option_function<double>(option.name, take, option.help);
    case Kind::integers: {
      const auto one_or_more = [take](const std::vector<std::int64_t>& list) {
        if (list.size() == 1) return take(list.front());
        take(list);
      };
      return app.add_option_function<std::vector<std::int64_t>>(option.name, one_or_more, option.help)
          ->delimiter(',')
          ->allow_extra_args(false)
          ->check(holding(option.type));
    }
    case Kind::yes_no:
    case Kind::text: {
      const bool is_bool = option.type.kind == Kind::yes_no;
      const auto take_word = [take, is_bool, name = option.name](const std::string& word) {
        if (!is_bool) return take(word);
        if (word != "yes" && word != "no")
          throw UsageError("bad-value", fmt::format("{} {}: must be yes or no", name, models::cut_word(word)));
        take(word == "yes");
      };
      return app.add_option_function<std::string>(option.name, take_word, option.help);
    }
  }
  return nullptr;
}

void add_run_option(CLI::App& app, const RunOption& option, GivenOptions& given) {
  CLI::Option* added = add_typed(app, option, given)->group(option.group);
  if (option.implied != nullptr) added->expected(0, 1)->default_str(option.implied);
  if (option.shown != nullptr) added->type_name(option.shown);
}

/// Whether a suite can be run at other values of an axis: then it is another suite.
bool goes_around(const Axis& axis) {
  return std::holds_alternative<power::KnobKind>(axis.values) || axis.values == Axis::Values(&Axes::ranks);
}

/// What a suite or config does not leave open. A config that is no kit can be edited instead.
void check_frozen(const PlanOptions& options, const Request& request) {
  const bool has_config = !options.config.empty(), is_kit = request.kit.has_value();
  std::vector<std::string> given;
  for (const Axis& axis : axes_list()) {
    if (axis.values == Axis::Values(&Axes::micro_batch) && leaves_micro_batch(request)) continue;
    if (count_values(axis, options.axes) > 0 && (has_config || !goes_around(axis))) given.emplace_back(axis.key);
  }
  for (const RunOption& option : run_options())
    if (has_config && options.given.contains(option.key) &&
        (option.over == RunOption::Over::suite || (is_kit && option.over != RunOption::Over::kit)))
      given.emplace_back(option.key);
  if (given.empty()) return;
  const std::string which =
      has_config ? options.config + (is_kit ? ": a kit" : ": a config") : "--suite " + options.suite;
  throw UsageError(
      "frozen-plan", given.size() == 1 ? given.front() : "",
      fmt::format("{} fixes this part of the plan: leave out {}{}", which, key_refs(given),
                  has_config && !is_kit ? fmt::format(", or write {} into the file", fmt::join(given, ", ")) : ""));
}

/// Around a built-in suite settings and ranks are axes of their own; it is then no longer what others have run under
/// its name. Returns what it was changed by.
std::vector<std::string> set_around(std::vector<Axes>& grids, const Axes& axes) {
  std::vector<std::string> changed;
  if (has_settings(axes) && std::erase_if(grids, [](const Axes& grid) { return !grid.clock.empty(); }) > 0)
    changed.emplace_back("clocks");
  for (const auto& [kind, values] : axes.setting) {
    for (Axes& grid : grids) grid.setting[kind] = values;
    const char* key = std::ranges::find(setting_axes(), kind, &SettingAxis::kind)->key;
    if (std::ranges::any_of(values, [](const std::string& value) { return value != "found"; }))
      changed.push_back(option_name(key).substr(2));
  }
  if (axes.ranks.empty()) return changed;
  for (Axes& grid : grids) grid.ranks = axes.ranks;
  changed.emplace_back("ranks");
  return changed;
}

/// The one size that is given for grids which leave it to the run.
void declare_micro_batch(const std::vector<std::int64_t>& given, Request& request) {
  if (given.empty()) return;
  if (given.size() > 1)
    throw UsageError(
        "bad-value", "micro_batch",
        fmt::format("{}: this plan takes one size, or auto: leave out the others", key_ref("micro_batch")));
  const Axis& axis = *find_axis("micro_batch");
  check_value(axis.key, axis.type, given.front());
  if (given.front() != automatic) request.declared_micro_batch = given.front();
}

/// The options by which a suite or config is another one than `before`.
std::vector<std::string> changes_of(const GivenOptions& given, const RunSettings& before, const RunSettings& now) {
  std::vector<std::string> changed;
  for (const RunOption& option : run_options()) {
    if (!given.contains(option.key) || option.renames == RunOption::Renames::never) continue;
    const OptionValue was = option.value(before);
    const bool is_other = (was == OptionValue() ? option.unsaid : was) != option.value(now);
    if (option.renames == RunOption::Renames::if_given || is_other) changed.emplace_back(option.name + 2);
  }
  return changed;
}

/// The name of a changed suite is in its hash, so that this order stays as it is. Others come last.
void sort_changes(std::vector<std::string>& changed) {
  std::vector<std::string> order = {"recompute", "eager", "comm", "deterministic", "clocks"};
  for (const SettingAxis& axis : setting_axes()) order.push_back(option_name(axis.key).substr(2));
  for (const char* name : {"ranks", "search", "target", "seeds", "seed", "steps", "window", "trials", "warmup"})
    order.emplace_back(name);
  std::ranges::stable_sort(changed, {},
                           [&](const std::string& name) { return std::ranges::find(order, name) - order.begin(); });
}

/// What a run to a target and a plan for a time have against each other's options.
void check_target(const PlanOptions& options, const RunSettings& settings) {
  std::vector<std::string> given;
  const auto add = [&](const char* key) {
    if (options.given.contains(key)) given.emplace_back(key);
  };
  if (settings.target) {
    std::ranges::for_each(find_run_option("target")->excludes, add);
    if (!given.empty())
      throw UsageError("options-conflict", given.size() == 1 ? given.front() : "",
                       fmt::format("this plan trains to a target: leave out {}", key_refs(given)));
    return;
  }
  for (const char* key : {"target", "seeds"}) add(key);
  if (!given.empty())
    throw UsageError("frozen-plan", given.size() == 1 ? given.front() : "",
                     fmt::format("this {} trains for a fixed time: leave out {}",
                                 options.suite.empty() ? "config" : "suite", key_refs(given)));
}

}  // namespace

void add_plan_options(CLI::App& app, PlanOptions& options) {
  for (const Axis& axis : axes_list())
    if (axis.group != nullptr) add_axis(app, axis, options.axes);
  app.add_option("--suite", options.suite, fmt::format("a built-in plan: {}", fmt::join(suite_names(), ", ")))
      ->group("Workload");
  app.add_option(
         "--config", options.config,
         "a plan as JSON, with the options as keys (underscores), or a\nkit (trainwatt freeze). A plan that leaves the "
         "micro-batch\nopen (\"auto\") takes --micro-batch N")
      ->group("Workload");
  for (const RunOption& option : run_options())
    if (option.name != nullptr) add_run_option(app, option, options.given);
}

KnownWords plan_words() {
  KnownWords words = {{"--suite", suite_names()}};
  for (const models::NetworkDescription& network : models::catalog()) words["--model"].push_back(network.name);
  for (const std::string& name : models::described_models()) words["--model"].push_back(name);
  for (const Axis& axis : axes_list())
    if (!axis.type.words.empty()) words[option_name(axis.key)] = axis.type.words;
  for (const RunOption& option : run_options())
    if (option.name != nullptr && !option.type.words.empty()) words[option.name] = option.type.words;
  return words;
}

void check_plan_options(const PlanOptions& options) {
  if (!options.config.empty() && !options.suite.empty())
    throw UsageError("options-conflict", "suite", "--suite and --config exclude each other: leave out one");
  RunSettings settings;
  if (!options.suite.empty()) {
    settings = suite_request(options.suite);
    check_frozen(options, suite_request(options.suite));
    check_target(options, settings);
  }
  // A config is not read here: seeds may be of its runs to a target, a slowdown of its search.
  if (!options.config.empty()) settings.target.emplace(), settings.search = SearchRequest{};
  take_over(options.given, settings);
}

bool may_set(const PlanOptions& options) {
  if (!options.config.empty() || has_settings(options.axes)) return true;
  const std::vector<std::string>& suites = suite_names();
  if (std::ranges::find(suites, options.suite) == suites.end()) return false;
  return std::ranges::any_of(suite_request(options.suite).axes,
                             [](const Axes& axes) { return !axes.clock.empty() || has_settings(axes); });
}

void check_words(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return;  // a command's own words
    if (word.starts_with("--") && word.ends_with('='))
      throw UsageError("bad-value", fmt::format("{}: needs a value", word.substr(0, word.size() - 1)));
    if (word.empty()) {  // of a shell variable that is not set: no file, no folder, no number
      const std::string_view before = argv[i - 1];
      throw UsageError("bad-value", before.starts_with('-') ? fmt::format("{} is empty: give a value", before)
                                                            : "an argument is empty: give it a value, or leave it out");
    }
    check_list(word, i + 1 < argc ? argv[i + 1] : "");
  }
}

std::string parse_problem(const CLI::App& app, const CLI::ParseError& error) {
  if (const auto* extras = dynamic_cast<const CLI::ExtrasError*>(&error))
    return with_code("unknown-option", unknown_option(app, *extras));
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    const std::string what = error.what();
    const CLI::Option* option = app.get_option_no_throw(what.substr(0, what.find(' ')));
    if (option != nullptr && !option->get_snames().empty())  // as the other errors name it
      return with_code("option-needs", "-" + option->get_snames().front() + " is missing: add it");
  }
  return parse_fault(error, [&](const std::string& name) { return wanted_value(app, name); });
}

void read_files(PlanOptions& options) {
  const auto found = options.given.find("layers_file");
  if (found == options.given.end()) return;
  if (const auto* path = std::get_if<std::string>(&found->second)) found->second = JsonObject{read_layers_file(*path)};
}

Request request_of(const PlanOptions& options, const std::string& config_text) {
  const bool planned = !options.suite.empty() || !options.config.empty();
  Request request;
  if (!options.suite.empty())
    request = suite_request(options.suite);
  else if (!options.config.empty())
    request = read_config(options.config, config_text);
  else
    request.axes.push_back(options.axes);
  if (planned) {
    check_frozen(options, request);
    check_target(options, request);
    declare_micro_batch(options.axes.micro_batch, request);
  }
  const RunSettings before = request;
  take_over(options.given, request);
  if (!request.layers_path.empty()) request.layers = read_layers_file(request.layers_path), request.layers_path.clear();
  if (!planned) return request;
  std::vector<std::string> changed = changes_of(options.given, before, request);
  if (!options.suite.empty()) std::ranges::move(set_around(request.axes, options.axes), std::back_inserter(changed));
  sort_changes(changed);
  request.adds_deterministic = !before.deterministic && request.deterministic == true;
  for (const auto& [key, value] : options.given) request.given.insert(key);
  if (!changed.empty()) request.suite += fmt::format("{}{})", changed_suite, fmt::join(changed, ", "));
  return request;
}

}  // namespace tw::bench
