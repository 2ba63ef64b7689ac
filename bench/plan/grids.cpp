#include "bench/plan/grids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/plan/set_points.hpp"

namespace tw {
namespace {

/// How many combinations a grid has, however many these are.
double combinations_of(const Axes& axes, bool with_found) {
  double settings = 1;
  for (const SettingAxis& axis : setting_axes()) {
    const auto written = axes.setting.find(axis.kind);
    if (written == axes.setting.end() || written->second.empty()) continue;
    double values = 0;
    for (const std::string& text : written->second)
      values += static_cast<double>(parse_set_points(axis.kind, axis.option, text).size());
    settings *= values;
  }
  double combinations = settings + (with_found ? 1 : 0);
  for (const std::size_t values :
       {axes.model.size(), axes.layers.size(), axes.precision.size(), axes.micro_batch.size(), axes.accumulate.size(),
        axes.global_batch.size(), axes.seq_len.size(), axes.ranks.size()})
    combinations *= static_cast<double>(std::max<std::size_t>(1, values));
  return combinations;
}

}  // namespace

void check_grids(const Request& request) {
  constexpr double most_points = 100'000;
  double all = 0;
  for (const Axes& axes : request.axes)
    if (axes.clock.empty()) all += combinations_of(axes, request.search.has_value());
  if (all > most_points)
    throw UsageError(
        fmt::format("the axes make {} points: at most 100,000 are taken; use larger steps or shorter lists",
                    all < 1e9 ? fmt::format("{:.0f}", all) : fmt::format("about 10^{:.0f}", std::log10(all))));
}

std::string listed_twice(const Axes& axes) {
  const auto twice = [](const char* name, auto values) {
    std::ranges::sort(values);
    const auto found = std::ranges::adjacent_find(values);
    return found == values.end() ? std::string() : fmt::format("{} lists {} twice", name, *found);
  };
  std::vector<std::string> all = {twice("--model", axes.model),           twice("--layers", axes.layers),
                                  twice("--precision", axes.precision),   twice("--micro-batch", axes.micro_batch),
                                  twice("--accumulate", axes.accumulate), twice("--global-batch", axes.global_batch),
                                  twice("--seq-len", axes.seq_len),       twice("--ranks", axes.ranks)};
  for (const SettingAxis& axis : setting_axes()) {
    std::vector<std::string> values;
    if (const auto written = axes.setting.find(axis.kind); written != axes.setting.end())
      for (const std::string& text : written->second)
        for (const auto& value : parse_set_points(axis.kind, axis.option, text))
          values.push_back(value ? set_point_text(axis.kind, *value) : "found");
    all.push_back(twice(axis.option, values));
  }
  const auto found = std::ranges::find_if(all, [](const std::string& one) { return !one.empty(); });
  return found == all.end() ? "" : *found;
}

}  // namespace tw
