#include "bench/plan/options/run_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bench/plan/options/axes.hpp"
#include "results/selection/search.hpp"

namespace tw::bench {
namespace {

using Kind = ValueType::Kind;
using Over = RunOption::Over;
using Renames = RunOption::Renames;
using InPlan = RunOption::InPlan;
using MaybeValue = std::optional<OptionValue>;

template <class T>
T taken_as(const OptionValue& value) {
  if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>)
    return std::get<T>(value);
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(std::get<std::int64_t>(value));
  else
    return number_of(value);
}
template <class T>
OptionValue said(const T& value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else if constexpr (std::is_same_v<T, bool>)
    return value ? OptionValue(true) : OptionValue();
  else if constexpr (std::is_same_v<T, std::string>)
    return value.empty() ? OptionValue() : OptionValue(value);
  else {
    static_assert(std::is_integral_v<T>);
    return static_cast<std::int64_t>(value);
  }
}
OptionValue said(const std::optional<bool>& value) { return value ? OptionValue(*value) : OptionValue(); }
template <class T>
OptionValue said(const std::optional<T>& value) {
  return value ? said(*value) : OptionValue();
}

template <class T>
struct Bare {
  using type = T;
};
template <class T>
struct Bare<std::optional<T>> {
  using type = T;
};

/// As the command line and --help have it.
RunOption described(const char* key, const char* name, const char* group, std::string help, ValueType type) {
  RunOption option{.key = key, .name = name, .group = group};
  option.help = std::move(help), option.type = std::move(type);
  return option;
}

auto& field_of(auto& settings, auto RunSettings::*field) { return settings.*field; }
auto& field_of(auto& settings, auto Measurement::*field) { return settings.measurement.*field; }

/// `option` with a field of the settings as its value: said where it is neither absent, nor false, nor empty.
template <class T, class Settings>
RunOption of_field(T Settings::*field, RunOption option) {
  option.set = [field](RunSettings& to, const OptionValue& value) {
    field_of(to, field) = taken_as<typename Bare<T>::type>(value);
  };
  option.value = [field](const RunSettings& settings) { return said(field_of(settings, field)); };
  return option;
}

bool is_to_target(const RunSettings& settings) { return settings.target.has_value(); }

/// Of a run that is measured for a time: not said of one to a target.
template <class T>
RunOption of_time(T Measurement::*field, const char* key, const char* name, const char* help, ValueType type) {
  RunOption option = of_field(field, described(key, name, "Duration", help, std::move(type)));
  option.renames = Renames::if_given;
  option.value = [field](const RunSettings& settings) {
    return is_to_target(settings) ? OptionValue() : said(settings.measurement.*field);
  };
  return option;
}

/// "5%" or "0.05".
double parse_share(const OptionValue& value) {
  std::optional<double> share;
  if (const auto* text = std::get_if<std::string>(&value)) {
    const bool is_percent = text->ends_with('%');
    share = number_in<double>(std::string_view(*text).substr(0, text->size() - (is_percent ? 1 : 0)));
    if (share) *share /= is_percent ? 100 : 1;
  } else {
    share = number_of(value);
  }
  if (share >= 0.0 && share < 1.0) return *share;
  throw bad_value("max_slowdown", plain_text(value), "must be from 0% to below 100%, such as 5% or 0.05");
}

/// "default" (nullopt: the task's own) or a number above 0.
std::optional<double> parse_target(const OptionValue& value) {
  const std::string text = plain_text(value);
  if (text == "default") return std::nullopt;
  const std::optional<double> target = number_in<double>(text);
  if (!target || !(*target > 0) || !std::isfinite(*target))
    throw bad_value("target", text, "must be a number above 0, or 'default' for the task's own target");
  return target;
}

/// A count, or a list of seeds that differ, in place of what was there.
void set_seeds(TargetRequest& target, const OptionValue& value) {
  target.seeds.clear();
  if (const auto* count = std::get_if<std::int64_t>(&value)) {
    check_value("seeds", whole_number(1, most_trials), value);
    target.seed_count = static_cast<int>(*count);
    return;
  }
  std::set<std::int64_t> seen;
  for (const std::int64_t seed : std::get<std::vector<std::int64_t>>(value)) {
    check_value("seeds", whole_number(0), seed);
    if (!seen.insert(seed).second)
      throw UsageError("duplicate-value", "seeds",
                       fmt::format("{}: duplicate seed {}; seeds must be unique", key_ref("seeds"), seed));
    target.seeds.push_back(static_cast<std::uint64_t>(seed));
  }
  if (target.seeds.empty())
    throw UsageError("bad-value", "seeds", key_ref("seeds") + ": the list is empty: give seeds, or a count");
}

std::vector<std::string> with_auto(std::vector<std::string> names) {
  names.insert(names.begin(), "auto");
  return names;
}

RunOption seed() {
  RunOption option = of_field(
      &RunSettings::seed,
      described("seed", "--seed", "Workload", "seed of weights and data (default 1)", whole_number(0, largest_seed)));
  option.renames = Renames::if_given;
  return option;
}

RunOption layers_file() {
  RunOption option =
      described("layers_file", "--layers-file", "Workload", "JSON file with the layers of --model custom",
                value_like("the path of a file of layers, or its content as an object",
                           R"([{"type": "string", "minLength": 1}, {"type": "object"}])"));
  option.shown = "FILE";
  option.set = [](RunSettings& to, const OptionValue& value) {
    const auto* object = std::get_if<JsonObject>(&value);
    to.layers = object == nullptr ? "" : object->text;
    to.layers_path = object == nullptr ? std::get<std::string>(value) : "";
  };
  option.value = [](const RunSettings& of) -> OptionValue {
    if (!of.layers.empty()) return JsonObject{of.layers};
    return said(of.layers_path);
  };
  return option;
}

RunOption recompute() {
  RunOption option =
      described("recompute", "--recompute", "Workload",
                "recompute activations of all layers, or of the first N or P%, in\nthe backward pass",
                value_like("true, false, a number of layers, or a share of them such as \"50%\"",
                           R"([{"type": "boolean"}, {"type": "integer", "minimum": 0, "maximum": 2147483647},
                               {"type": "string", "pattern": "^[0-9.]+%$"}])"));
  option.implied = "all", option.shown = "[N|P%]";
  option.set = [](RunSettings& to, const OptionValue& value) {
    const auto* all = std::get_if<bool>(&value);
    to.recompute = parse_recompute(all == nullptr ? plain_text(value) : *all ? "all" : "none");
  };
  option.value = [](const RunSettings& settings) -> OptionValue {
    const Recompute& recompute = settings.recompute;
    if (recompute.layers) return std::int64_t{*recompute.layers};
    if (recompute.share == 0 || recompute.share == 1) return recompute.share == 1;
    return fmt::format("{}%", recompute.share * 100);
  };
  return option;
}

/// `option` with a field of words as its value, which is empty for the word `usual`.
RunOption of_words(std::string RunSettings::*field, const char* usual, RunOption option) {
  option = of_field(field, std::move(option));
  option.set = [field, usual](RunSettings& to, const OptionValue& value) {
    to.*field = value == OptionValue(usual) ? "" : std::get<std::string>(value);
  };
  return option;
}

RunOption device_class() {
  RunOption option =
      of_field(&RunSettings::device_class,
               described("device_class", "--device-class", "Workload",
                         "class of device that the sizes of a suite are for (default:\nthat of --device)",
                         one_of({"cpu", "gpu"})));
  option.over = Over::suite, option.renames = Renames::never;
  return option;
}

RunOption eager() {
  return of_field(&RunSettings::eager, described("eager", "--eager", "Execution",
                                                 "launch every operator; do not record steps as CUDA graphs", flag()));
}

RunOption deterministic() {
  RunOption option =
      of_field(&RunSettings::deterministic, described("deterministic", "--deterministic", "Execution",
                                                      "yes: two runs give the same bits (default on GPUs); no: the\n"
                                                      "fastest implementations, in any order of sums (default on CPUs)",
                                                      yes_or_no()));
  option.unsaid = true;
  // Left out where the device does so anyway: plans keep the hash from before "yes" meant anything on the CPU.
  option.in_hash = [](const RunSettings& plan, const std::string& device) -> MaybeValue {
    const bool is_usual = plan.deterministic == true && is_deterministic_by_default(device);
    if (!plan.deterministic || is_usual) return std::nullopt;
    return *plan.deterministic;
  };
  return option;
}

/// Of a search; in the plan together with the others.
RunOption of_search(const char* key, const char* name, std::string help, ValueType type) {
  RunOption option = described(key, name, "Search", std::move(help), std::move(type));
  option.over = Over::suite, option.renames = Renames::never, option.in_plan = InPlan::in_object;
  return option;
}

RunOption search() {
  const std::vector<std::string> merits(results::name_list<results::SearchMerit>.begin(),
                                        results::name_list<results::SearchMerit>.end());
  RunOption option =
      of_search("search", "--search",
                fmt::format("find the best setting by measuring few of the grid's points;\nminimises {} per sample",
                            fmt::join(merits, ", ")),
                one_of(merits));
  option.renames = Renames::if_given, option.excludes = {"target"};
  option.set = [](RunSettings& to, const OptionValue& v) {
    to.search = {.merit = *results::named<results::SearchMerit>(std::get<std::string>(v))};
  };
  option.value = [](const RunSettings& of) {
    return of.search ? OptionValue(std::string(to_string(of.search->merit))) : OptionValue();
  };
  return option;
}

RunOption max_slowdown() {
  RunOption option =
      of_search("max_slowdown", "--max-slowdown", "largest slowdown against the found settings (default 5%)",
                value_like("a share from 0 to below 1, such as 0.05 or \"5%\"",
                           R"([{"type": "number", "minimum": 0, "exclusiveMaximum": 1},
                  {"type": "string", "pattern": "^(0+\\.?|0*\\.[0-9]+|0*[0-9]{1,2}(\\.[0-9]*)?%|\\.[0-9]+%)$"}])"));
  option.needs = "search";
  option.set = [](RunSettings& to, const OptionValue& value) { to.search->max_slowdown = parse_share(value); };
  option.value = [](const RunSettings& of) { return of.search ? said(of.search->max_slowdown) : OptionValue(); };
  return option;
}

/// Both prices are taken over together, by take_over(); a kit has those that a search goes by.
RunOption price(const char* key, const char* name, const char* help, double SearchRequest::*price) {
  RunOption option = of_search(key, name, help, number_from_0());
  option.over = Over::kit;
  option.set = [](RunSettings&, const OptionValue&) {};
  option.value = [price](const RunSettings& of) {
    return of.search && (*of.search).*price > 0 ? said((*of.search).*price) : OptionValue();
  };
  return option;
}

RunOption window() {
  RunOption option = of_time(&Measurement::window_seconds, "window_s", "--window", "seconds per trial (default 60)",
                             number_above_0(longest_window_seconds));
  option.value = [value = option.value](const RunSettings& of) {
    return of.measurement.steps ? OptionValue() : value(of);
  };
  option.in_hash = [](const RunSettings& plan, const std::string&) -> MaybeValue {
    if (is_to_target(plan)) return OptionValue();
    return plan.measurement.window_seconds;
  };
  return option;
}

RunOption trials() {
  RunOption option = of_time(&Measurement::trials, "trials", "--trials", "trials per point (default 3; 1 with --steps)",
                             whole_number(1, most_trials));
  option.in_hash = [](const RunSettings& plan, const std::string&) -> MaybeValue {
    return std::int64_t{plan.measurement.trials};
  };
  return option;
}

RunOption steps() {
  RunOption option = of_time(&Measurement::steps, "steps", "--steps",
                             "steps per trial in place of --window, for a quick look", whole_number(1, most_steps));
  option.excludes = {"window_s"};
  option.in_hash = [](const RunSettings& plan, const std::string&) -> MaybeValue {
    return said(plan.measurement.steps);
  };
  return option;
}

RunOption warmup() {
  RunOption option = of_time(&Measurement::warmup_steps, "warmup_steps", "--warmup",
                             "minimum number of warm-up steps (default 3)", whole_number(0, most_steps));
  option.in_hash = [](const RunSettings& plan, const std::string&) -> MaybeValue {
    return std::int64_t{is_to_target(plan) ? 0 : plan.measurement.warmup_steps};
  };
  return option;
}

RunOption repeat() {
  RunOption option = of_field(&RunSettings::repeat,
                              described("repeat", "--repeat", "Duration",
                                        "number of runs, each launched anew by trainwatt-repeat\n(default 1; for "
                                        "kits and configs)",
                                        whole_number(1, most_runs)));
  option.renames = Renames::never, option.in_plan = InPlan::no;
  return option;
}

RunOption target() {
  RunOption option = described(
      "target", "--target", "Duration",
      "train until the task reaches its target: 'default', excess loss\nin nats (tokens), or held-out error (images, "
      "clicks); a\nnetwork of your own has its task in the --layers-file",
      value_like("a number above 0, or \"default\" for the task's own",
                 R"([{"type": "number", "exclusiveMinimum": 0}, {"enum": ["default"]}, {"type": "string",
                  "pattern": "^(?=[0-9.]*[1-9])([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(e[-+]?[0-9]{1,2})?$"}])"));
  option.renames = Renames::if_given, option.in_plan = InPlan::in_object;
  option.excludes = {"steps", "window_s", "trials", "warmup_steps"};
  option.set = [](RunSettings& to, const OptionValue& value) {
    if (!to.target) to.target.emplace();
    to.target->value = parse_target(value);
  };
  option.value = [](const RunSettings& of) -> OptionValue {
    if (!of.target) return {};
    return of.target->value ? OptionValue(*of.target->value) : OptionValue("default");
  };
  return option;
}

RunOption seeds() {
  RunOption option = described("seeds", "--seeds", "Duration",
                               "runs per point to its target (default 5), or a list of seeds,\none per run",
                               value_like("a number of runs per point from 1 to 1000, or a list of different seeds",
                                          R"([{"type": "integer", "minimum": 1, "maximum": 1000},
                               {"type": "array", "minItems": 1, "uniqueItems": true, "items":
                                {"type": "integer", "minimum": 0, "maximum": 9223372036854775807}}])",
                                          Kind::integers));
  option.renames = Renames::if_given, option.in_plan = InPlan::in_object, option.needs = "target";
  option.set = [](RunSettings& to, const OptionValue& value) { set_seeds(*to.target, value); };
  option.value = [](const RunSettings& of) -> OptionValue {
    if (!of.target) return {};
    const std::vector<std::uint64_t>& list = of.target->seeds;
    if (list.empty()) return std::int64_t{of.target->seed_count};
    return std::vector<std::int64_t>(list.begin(), list.end());
  };
  return option;
}

RunOption ceiling() {
  RunOption option = of_field(&Measurement::ceiling_seconds,
                              described("ceiling_s", nullptr, nullptr, "", number_above_0(longest_window_seconds)));
  option.in_plan = InPlan::no;
  return option;
}

}  // namespace

double number_of(const OptionValue& value) {
  const auto* whole = std::get_if<std::int64_t>(&value);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value);
}

const std::vector<RunOption>& run_options() {
  static const std::vector<RunOption> list = {
      seed(),
      layers_file(),
      recompute(),
      of_words(&RunSettings::comm, "auto",
               described("comm", "--comm", "Execution",
                         fmt::format("communicator that sums gradients over ranks: auto (default), {}",
                                     fmt::join(communicator_names(), ", ")),
                         one_of(with_auto(communicator_names())))),
      of_words(&RunSettings::reduce_precision, "float32",
               described("reduce_precision", "--reduce-precision", "Execution",
                         "precision in which gradients are summed over ranks: float32\n(default) or bf16",
                         one_of({"float32", "bf16"}))),
      device_class(),
      eager(),
      deterministic(),
      search(),
      max_slowdown(),
      price("hour_price", "--hour-price", "price of one hour of all the job's nodes, in any currency",
            &SearchRequest::hour_price),
      price("kwh_price", "--kwh-price", "price of one kWh, in the same currency", &SearchRequest::kwh_price),
      window(),
      trials(),
      steps(),
      warmup(),
      repeat(),
      target(),
      seeds(),
      ceiling()};
  return list;
}

}  // namespace tw::bench
