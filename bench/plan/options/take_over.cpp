// Takes options over into the settings of a run, and checks what they are to each other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "bench/plan/options/run_options.hpp"

namespace tw::bench {
namespace {

bool is_given(const GivenOptions& given, const char* key) { return given.contains(key); }

std::optional<results::JobPrices> prices_of(const GivenOptions& given) {
  const auto of = [&](const char* key) { return is_given(given, key) ? number_of(given.at(key)) : 0; };
  const results::JobPrices prices{of("hour_price"), of("kwh_price")};
  return prices == results::JobPrices{} ? std::nullopt : std::optional(prices);
}

/// A search for costs needs prices, no other one goes by them.
void check_prices(const GivenOptions& given) {
  const std::string hour = key_ref("hour_price"), kwh = key_ref("kwh_price"), search = key_ref("search");
  const auto merit = given.find("search");
  if (merit == given.end()) return;
  const bool is_cost = merit->second == OptionValue("cost");
  if (is_cost && !prices_of(given))
    throw UsageError("option-needs", "search", fmt::format("{} cost: add {}, {} or both", search, hour, kwh));
  std::vector<std::string> prices;
  for (const char* key : {"hour_price", "kwh_price"})
    if (is_given(given, key)) prices.emplace_back(key);
  if (!is_cost && !prices.empty())
    throw UsageError("options-conflict", prices.front(),
                     fmt::format("{0} {1}: leave out {2}: prices are for {0} cost", search, plain_text(merit->second),
                                 key_refs(prices)));
}

}  // namespace

std::string key_refs(const std::vector<std::string>& keys) {
  std::vector<std::string> refs;
  for (const std::string& key : keys) refs.push_back(key_ref(key));
  return fmt::format("{}", fmt::join(refs, ", "));
}

const RunOption* find_run_option(const std::string& key) {
  const auto found = std::ranges::find(run_options(), key, &RunOption::key);
  return found == run_options().end() ? nullptr : &*found;
}

std::string option_name(const std::string& key) {
  const RunOption* option = find_run_option(key);
  if (option != nullptr && option->name != nullptr) return option->name;
  std::string name = "--" + key;
  std::ranges::replace(name, '_', '-');
  return name;
}

void check_together(const GivenOptions& given, const RunSettings& settings) {
  for (const RunOption& option : run_options()) {
    if (!is_given(given, option.key)) continue;
    std::vector<std::string> others;
    std::ranges::copy_if(option.excludes, std::back_inserter(others),
                         [&](const char* other) { return is_given(given, other); });
    if (!others.empty())
      throw UsageError("options-conflict", option.key,
                       fmt::format("{} and {} exclude each other: leave out {}", key_ref(option.key), key_refs(others),
                                   others.size() == 1 ? "one" : key_ref(option.key) + " or the others"));
    const RunOption* needed = option.needs == nullptr ? nullptr : find_run_option(option.needs);
    if (needed != nullptr && !is_given(given, option.needs) && needed->value(settings) == OptionValue())
      throw UsageError(
          "option-needs", option.key,
          fmt::format("{0} needs {1}: add {1}, or leave out {0}", key_ref(option.key), key_ref(option.needs)));
  }
  check_prices(given);
}

void take_over(const GivenOptions& given, RunSettings& settings) {
  check_together(given, settings);
  for (const RunOption& option : run_options())
    if (const auto found = given.find(option.key); found != given.end()) {
      check_value(option.key, option.type, found->second);
      option.set(settings, found->second);
    }
  Measurement& measurement = settings.measurement;
  if (is_given(given, "steps") && !is_given(given, "trials")) measurement.trials = 1;
  if (is_given(given, "window_s")) measurement.steps.reset();
  if (!is_given(given, "ceiling_s") && (is_given(given, "window_s") || is_given(given, "steps"))) {
    const double look = measurement.steps ? 1.0 : std::max(measurement.window_seconds, 1.0);  // a short look is short
    measurement.ceiling_seconds = std::min(look, measurement.ceiling_seconds);
  }
  if (const std::optional<results::JobPrices> prices = prices_of(given)) {
    settings.prices = prices;
    if (is_given(given, "search")) {
      settings.search->hour_price = prices->hour_price;
      settings.search->kwh_price = prices->kwh_price;
    }
  }
}

}  // namespace tw::bench
