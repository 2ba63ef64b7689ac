// `trainwatt plan`: what a run would do, before anything runs.
#include <fmt/format.h>

#include <algorithm>

#include "bench/node_power/node_power.hpp"
#include "bench/plan/abilities.hpp"
#include "bench/plan/forecast.hpp"
#include "bench/plan/options/meter_options.hpp"
#include "bench/plan/shares.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/terminal.hpp"

namespace tw::tool {

int plan(const PlanCommand& command) {
  check_plan_options(command.options);
  const std::string config = command.options.config.empty() ? "" : read_config_text(command.options.config);
  Request request = request_of(command.options, config);
  if (command.runs_only) {
    fmt::print("{}\n", request.repeat.value_or(1));
    return 0;
  }
  int ranks = command.nodes;
  for (const Axes& axes : request.axes)
    for (const int some : axes.ranks) ranks = std::max(ranks, some);
  const std::string device = command.device == "auto" ? "cpu" : command.device;
  if (!command.on.empty() && !(command.site.empty() && command.energy_csv.empty()))
    throw UsageError("--on has that node's knobs and meters: give --site and --energy-csv to trainwatt probe there");
  const auto here = [&] {
    const MeterOptions meters = meter_options(command.energy_csv, {}, host_name(), true);
    check_meters(meters);
    return abilities_here(find_meters(meters, choosing(choice_here())), find_knobs({command.site}));
  };
  const Abilities node =
      command.on.empty() ? here() : abilities_from_json(command.on, read_config_text(command.on, "--on"));
  resolve_shares(request, device, node.knobs);
  const RunPlan plan = make_plan(request, ranks, device);
  const auto why_not = [&](const Point& point) {
    return obstacle(point, device, node, (point.ranks + command.nodes - 1) / command.nodes);
  };
  Forecast made = forecast(plan, command.nodes, why_not, [](const Point&) { return std::nullopt; });
  made.maximum_power_w = node.maximum_power_w;
  made.power_unknown = node.power_unknown;
  made.power_reason = fmt::format("no energy meter answers on {}: `trainwatt probe` says why", node.host);
  made.search_obstacle = search_obstacle(plan, made);
  const auto width = static_cast<std::size_t>(terminal_style({}, false).width);
  fmt::print("{}", command.json ? forecast_json(plan, made) + "\n" : forecast_text(plan, made, width));
  return 0;
}

}  // namespace tw::tool
