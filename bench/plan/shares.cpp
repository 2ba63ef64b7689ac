#include "bench/plan/shares.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "bench/plan/options/axes.hpp"
#include "models/catalog/nearest.hpp"

namespace tw::bench {
namespace {

/// What every device of the kind takes; nullopt if none reports it.
std::optional<KnobAbility> range_of(power::KnobKind kind, const std::vector<KnobAbility>& knobs) {
  std::optional<KnobAbility> common;
  for (const KnobAbility& knob : knobs) {
    if (knob.kind != kind || !(knob.maximum > knob.minimum)) continue;
    if (!common) {
      common = knob;
      continue;
    }
    common->minimum = std::max(common->minimum, knob.minimum);
    common->maximum = std::min(common->maximum, knob.maximum);
    std::erase_if(common->values, [&](double value) {
      return !knob.values.empty() && std::ranges::find(knob.values, value) == knob.values.end();
    });
  }
  if (common && !(common->maximum > common->minimum)) common.reset();
  return common;
}

std::string value_of(double share, power::KnobKind kind, const KnobAbility& range) {
  const double wanted = range.minimum + share * (range.maximum - range.minimum);
  const auto farther = [&](double a, double b) { return std::abs(a - wanted) < std::abs(b - wanted); };
  const double value = range.values.empty() ? std::clamp(std::round(wanted), range.minimum, range.maximum)
                                            : *std::ranges::min_element(range.values, farther);
  return power::set_point_text(kind, value);
}

std::vector<std::string> values_of(const std::vector<double>& shares, power::KnobKind kind, const KnobAbility& range) {
  std::vector<std::string> values;
  for (const double share : shares)
    if (std::string value = value_of(share, kind, range); std::ranges::find(values, value) == values.end())
      values.push_back(std::move(value));
  return values;
}

}  // namespace

bool has_shares(const Request& request) {
  return std::ranges::any_of(request.axes, [](const Axes& axes) {
    return !axes.clock.empty() || std::ranges::any_of(axes.setting, [](const auto& axis) {
      return std::ranges::any_of(axis.second,
                                 [](const std::string& text) { return text.find('%') != std::string::npos; });
    });
  });
}

void resolve_shares(Request& request, const std::string& device, const std::vector<KnobAbility>& knobs) {
  for (Axes& axes : request.axes) {
    for (auto& [kind, texts] : axes.setting) {
      const auto axis = std::ranges::find(setting_axes(), kind, &SettingAxis::kind);
      std::vector<std::string> values;
      for (const std::string& text : texts) {
        const std::vector<double> shares =
            power::names_of(kind).empty() ? parse_shares(axis->key, text) : std::vector<double>{};
        if (shares.empty()) {
          values.push_back(text);
          continue;
        }
        const std::optional<KnobAbility> range = range_of(kind, knobs);
        if (!range)
          throw UsageError("range-unknown", axis->key,
                           fmt::format("{} {}: this node does not report the range (see trainwatt probe): give a value",
                                       key_ref(axis->key), models::cut_word(text)))
              .seen_in(request, &axes);
        for (std::string& value : values_of(shares, kind, *range))
          if (std::ranges::find(values, value) == values.end()) values.push_back(std::move(value));
      }
      texts = std::move(values);
    }
    const power::KnobKind kind = device == "cuda" ? power::KnobKind::gpu_clock : power::KnobKind::cpu_frequency;
    const std::optional<KnobAbility> range = axes.clock.empty() ? std::nullopt : range_of(kind, knobs);
    if (!range) continue;
    for (const std::string& text : axes.clock)
      std::ranges::copy(values_of(parse_shares("clock", text), kind, *range), std::back_inserter(axes.setting[kind]));
    axes.clock.clear();
  }
}

std::string pack_ranges(const std::vector<KnobAbility>& knobs) {
  std::string text;
  for (const KnobAbility& knob : knobs)
    text += fmt::format("{} {} {} {}\n", power::to_string(knob.kind), knob.minimum, knob.maximum,
                        fmt::join(knob.values, " "));
  return text;
}

std::vector<KnobAbility> unpack_ranges(const std::string& text) {
  std::vector<KnobAbility> knobs;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    KnobAbility& knob = knobs.emplace_back();
    words >> kind >> knob.minimum >> knob.maximum;
    knob.kind = power::knob_kind_from_string(kind).value();
    for (double value; words >> value;) knob.values.push_back(value);
  }
  return knobs;
}

}  // namespace tw::bench
