#include "bench/plan/options/set_points.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/plan/options/option_value.hpp"
#include "bench/plan/options/usage_error.hpp"
#include "models/catalog/nearest.hpp"

namespace tw::bench {
namespace {

constexpr double most_values = 1000;

double number(const std::string& key, const std::string& text, const std::string& part) {
  const std::optional<double> value = number_in<double>(part);
  if (!value) throw bad_value(key, text, "must be a number, minimum:maximum:step, or found");
  if (!(*value > 0 && *value <= largest_set_point)) throw bad_value(key, text, "must be above 0 (maximum 1000000)");
  return *value;
}

}  // namespace

const std::vector<SettingAxis>& setting_axes() {
  static const std::vector<SettingAxis> axes = {
      {"gpu_clock", power::KnobKind::gpu_clock,
       "graphics clock in MHz: values, min:max:step, shares of\nthe range (60%, 40%:100%:20%), or found (unchanged)"},
      {"gpu_memory_clock", power::KnobKind::gpu_memory_clock, "memory clock in MHz"},
      {"gpu_power_limit", power::KnobKind::gpu_power_limit, "power limit of each GPU in W"},
      {"cpu_frequency", power::KnobKind::cpu_frequency, "frequency of all CPUs in MHz"},
      {"cpu_governor", power::KnobKind::cpu_governor, "frequency governor of all CPUs, such as performance"},
      {"cpu_power_limit", power::KnobKind::cpu_power_limit, "power cap of each CPU package in W"}};
  return axes;
}

std::vector<std::optional<double>> parse_set_points(power::KnobKind kind, const std::string& key,
                                                    const std::string& text) {
  if (text == "found") return {std::nullopt};
  if (const std::vector<std::string>& names = power::names_of(kind); !names.empty()) {
    if (const auto value = power::set_point_of_name(kind, text)) return {value};
    const std::string close = models::nearest(text, names);
    throw bad_value(key, text,
                    close.empty() ? fmt::format("must be one of {}, or found", fmt::join(names, ", "))
                                  : fmt::format("unknown governor: did you mean '{}'?", close));
  }
  if (text.find('%') != std::string::npos)
    throw UsageError(
        "range-unknown", key,
        fmt::format("{} {}: the range is not known here: give a value", key_ref(key), models::cut_word(text)));
  const std::vector<std::string> parts = split(text, ':');
  if (parts.size() == 1) return {number(key, text, parts[0])};
  if (parts.size() != 3) throw bad_value(key, text, "must be a number, minimum:maximum:step, or found");
  const double minimum = number(key, text, parts[0]), maximum = number(key, text, parts[1]),
               step = number(key, text, parts[2]);
  if (minimum > maximum) throw bad_value(key, text, "the minimum is above the maximum");
  if ((maximum - minimum) / step > most_values)
    throw bad_value(key, text, "too many values (maximum 1000): use a larger step");
  std::vector<std::optional<double>> values;
  for (int i = 0; minimum + i * step <= maximum * (1 + 1e-12); ++i) values.emplace_back(minimum + i * step);
  return values;
}

std::vector<double> parse_shares(const std::string& key, const std::string& text) {
  if (text.find('%') == std::string::npos) return {};
  const auto fail = [&](const char* why) { throw bad_value(key, text, why); };
  std::vector<double> parts;
  for (const std::string& part : split(text, ':')) {
    const auto percent = number_in<double>(std::string_view(part).substr(0, part.find('%')));
    if (!percent || part.find('%') + 1 != part.size())
      fail("must be a share of the range, such as 60% or 40%:100%:20%");
    if (!(*percent >= 0 && *percent <= 100)) fail("a share of the range must be from 0% to 100%");
    parts.push_back(*percent / 100);
  }
  if (parts.size() == 1) return parts;
  if (parts.size() != 3) fail("must be a share of the range, such as 60% or 40%:100%:20%");
  if (parts[0] > parts[1]) fail("the minimum is above the maximum");
  if (!(parts[2] >= 0.001)) fail("step too small (minimum 0.1%)");
  std::vector<double> shares;
  for (int i = 0; parts[0] + i * parts[2] <= parts[1] + 1e-9; ++i) shares.push_back(parts[0] + i * parts[2]);
  return shares;
}

}  // namespace tw::bench
