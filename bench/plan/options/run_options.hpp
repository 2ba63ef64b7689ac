// The options of a run that are no axes, each said once: the command line, a config, its schema, a kit, the plan's hash
// and --help walk this list. How to add one: CONTRIBUTING.md.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/options/option_value.hpp"
#include "bench/plan/options/request.hpp"

namespace tw::bench {

struct RunOption {
  /// What the command line's value goes over at most; each includes those before it.
  enum class Over { suite, config, kit };
  /// When a suite or config is another one by it: never, where it was given, or where it then has another value.
  enum class Renames { never, if_given, if_changed };
  /// Whether it enters the plan's hash: no, with its key, or in an object with others (bench/plan/canonical.cpp).
  enum class InPlan { no, yes, in_object };

  const char* key;             ///< of a config, a kit, and the plan
  const char* name = nullptr;  ///< of the command line: "--window"; null: none
  const char* group = nullptr;
  std::string help = {};
  ValueType type = {};
  const char* implied = nullptr;  ///< the value if the option is given without one
  const char* shown = nullptr;    ///< in --help for the value; null: its type
  Over over = Over::config;
  Renames renames = Renames::if_changed;
  InPlan in_plan = InPlan::yes;
  std::vector<const char*> excludes = {};  ///< options that must not be given beside it
  const char* needs = nullptr;             ///< option without which it means nothing
  OptionValue unsaid = {};                 ///< with which a value is compared where there was none

  /// Takes a value over, which fits the type. Throws UsageError if it is a wrong one all the same.
  std::function<void(RunSettings&, const OptionValue&)> set = nullptr;
  /// As a kit says it, and the plan; monostate: not at all.
  std::function<OptionValue(const RunSettings&)> value = nullptr;
  /// As the plan for a device says it where that differs; monostate: null; nullopt: not at all.
  std::function<std::optional<OptionValue>(const RunSettings&, const std::string& device)> in_hash = nullptr;
};

/// In the order of --help, in which values are also taken over.
const std::vector<RunOption>& run_options();
/// Null: no option has this key.
const RunOption* find_run_option(const std::string& key);
/// Of an integer or a number.
double number_of(const OptionValue& value);
/// "--window" of "window_s", of axes too.
std::string option_name(const std::string& key);
/// Some of them in the text of a UsageError.
std::string key_refs(const std::vector<std::string>& keys);

/// Takes all values over. Throws UsageError if one is wrong, or what they and `settings` are to each other.
void take_over(const GivenOptions& given, RunSettings& settings);
/// What options are to each other. `settings`: what they go over.
void check_together(const GivenOptions& given, const RunSettings& settings);

}  // namespace tw::bench
