#include "bench/plan/grids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/plan/options/set_points.hpp"

namespace tw::bench {
namespace {

/// How many combinations a grid has, however many these are.
double combinations_of(const Axes& axes, bool with_found) {
  double settings = 1, others = 1;
  for (const Axis& axis : axes_list()) {
    const auto* kind = std::get_if<power::KnobKind>(&axis.values);
    if (kind == nullptr) others *= static_cast<double>(std::max<std::size_t>(1, count_values(axis, axes)));
    if (kind == nullptr || count_values(axis, axes) == 0) continue;
    double values = 0;
    for (const std::string& text : axes.setting.at(*kind))
      values += static_cast<double>(parse_set_points(*kind, axis.key, text).size());
    settings *= values;
  }
  return (settings + (with_found ? 1 : 0)) * others;
}

}  // namespace

void check_grids(const Request& request) {
  constexpr double most_points = 100'000;
  double all = 0;
  for (const Axes& axes : request.axes)
    if (axes.clock.empty()) all += combinations_of(axes, request.search.has_value());
  if (all > most_points)
    throw UsageError(
        "too-many-points", "",
        fmt::format("too many points: the axes make {} (maximum 100,000): use larger steps or shorter lists",
                    all < 1e9 ? fmt::format("{:.0f}", all) : fmt::format("about 10^{:.0f}", std::log10(all))));
}

std::string listed_twice(const Axes& axes) {
  std::string found;
  const auto look = [&](const char* key, auto values) {
    std::ranges::sort(values);
    const auto twice = std::ranges::adjacent_find(values);
    if (found.empty() && twice != values.end()) found = fmt::format("{} lists {} twice", key_ref(key), *twice);
  };
  for (const Axis& axis : axes_list()) {
    const auto* kind = std::get_if<power::KnobKind>(&axis.values);
    if (kind == nullptr) {
      with_values(axis, axes, [&](const auto& values) { look(axis.key, values); });
      continue;
    }
    std::vector<std::string> values;
    if (const auto written = axes.setting.find(*kind); written != axes.setting.end())
      for (const std::string& text : written->second)
        for (const auto& value : parse_set_points(*kind, axis.key, text))
          values.push_back(value ? power::set_point_text(*kind, *value) : "found");
    look(axis.key, values);
  }
  return found;
}

}  // namespace tw::bench
