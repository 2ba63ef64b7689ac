// `trainwatt plan`: what a run would do, before anything runs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "bench/node_power/node_power.hpp"
#include "bench/plan/abilities.hpp"
#include "bench/plan/forecast.hpp"
#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/meter_options.hpp"
#include "bench/plan/options/option_value.hpp"
#include "bench/plan/options/plan_options.hpp"
#include "bench/plan/shares.hpp"
#include "bench/terminal/option_checks.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/options.hpp"
#include "bench/tool/terminal.hpp"
#include "models/catalog/memory.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

struct PlanCommand {
  PlanOptions options;
  std::string device = "auto";
  int nodes = 1;
  std::optional<int> job_ranks;  ///< absent: as many as some point asks for, and one for each node
  bool runs_only = false;        ///< print how many runs the plan asks for, and nothing else
  std::string on;          ///< what `trainwatt probe --json` wrote on the node that the plan is for; empty: this one
  std::string site;        ///< a site's own commands for knobs; empty: none
  std::string energy_csv;  ///< this node's power by the site's own meter; empty: none
  bool json = false;
};

int plan(const PlanCommand& command) {
  check_plan_options(command.options);
  const std::string config = command.options.config.empty() ? "" : read_config_text(command.options.config);
  Request request = request_of(command.options, config);
  if (command.runs_only) {
    fmt::print("{}\n", request.repeat.value_or(1));
    return 0;
  }
  int most_ranks = 0;
  bool takes_all_ranks = false;  // some point, of however many the job has
  for (const Axes& axes : request.axes) {
    takes_all_ranks |= axes.ranks.empty();
    for (const int some : axes.ranks) takes_all_ranks |= some == one_half_all, most_ranks = std::max(most_ranks, some);
  }
  if (command.job_ranks && *command.job_ranks < command.nodes)
    throw UsageError("options-conflict", fmt::format("--job-ranks {}: fewer than the {} nodes: give at least {}",
                                                     *command.job_ranks, command.nodes, command.nodes));
  if (!command.job_ranks && !takes_all_ranks && most_ranks < command.nodes)
    throw UsageError(
        "options-conflict",
        fmt::format("--nodes {}: no point of the plan has more than {}: give at most as many nodes as ranks",
                    command.nodes, results::text::count(most_ranks, "rank")));
  const int ranks = command.job_ranks.value_or(std::max(command.nodes, most_ranks));
  const bool is_for_gpus = command.device == "auto" && request.device_class == class_of("cuda");
  const std::string device = is_for_gpus ? "cuda" : command.device == "auto" ? "cpu" : command.device;
  check_class(request, device);
  if (!command.on.empty() && !(command.site.empty() && command.energy_csv.empty()))
    throw UsageError("options-conflict",
                     "--on: leave out --site and --energy-csv: give them to trainwatt probe on that node");
  const auto here = [&] {
    const power::MeterOptions meters = meter_options(command.energy_csv, {}, host_name(), true);
    check_meters(meters);
    if (!command.site.empty()) check_kind("--site", command.site, {InputKind::site});
    return abilities_here(power::find_meters(meters, choosing(choice_here())), power::find_knobs({command.site}));
  };
  const Abilities node =
      command.on.empty() ? here() : abilities_from_json(command.on, read_input("--on", command.on, {InputKind::probe}));
  resolve_shares(request, device, node.knobs);
  const RunPlan plan = make_plan(request, ranks, device);
  const auto why_not = [&](const Point& point) {  // fewer ranks than the job's are its first, node by node
    return obstacle(point, device, node, std::min(point.ranks, (ranks + command.nodes - 1) / command.nodes));
  };
  const auto memory = [](const Point& point) -> std::optional<RankMemory> {
    return RankMemory{models::least_memory(point.network, point.precision, point.micro_batch, point.seq_len,
                                           point.recomputed_layers, point.ranks)
                          .total()};
  };
  const std::optional<DevicePace> pace = DevicePace::of(node, device, command.nodes, ranks);
  Forecast made = forecast(
      plan, command.nodes, why_not, [](const Point&) { return std::nullopt; }, memory, pace ? &*pace : nullptr);
  if (device != "cuda" && node.memory_bytes) made.node_memory_bytes = static_cast<double>(*node.memory_bytes);
  made.maximum_power_w = node.maximum_power_w;
  made.power_unknown = node.power_unknown;
  made.power_reason = fmt::format("{} has no readable energy meter; trainwatt probe shows why", node.host);
  made.time_reason =
      "only the device shows how long a step takes, and this program does not use it; within the job, trainwatt-train "
      "--dry-run with the same options measures it";
  made.search_obstacle = search_obstacle(plan, made);
  fmt::print("{}", command.json ? forecast_json(plan, made) + "\n" : forecast_text(plan, made, terminal_style().width));
  return 0;
}

}  // namespace

Action add_plan(CLI::App& command, const Words&) {
  const auto options = std::make_shared<PlanCommand>();
  add_plan_options(command, options->options);
  command.add_option("--device", options->device, "auto (default), cpu, cuda, reference")
      ->check([](const std::string& word) {
        const std::vector<std::string> known = known_words().at("--device");
        if (std::ranges::find(known, word) == known.end()) throw_unknown("device", word, known);
        return std::string();
      })
      ->group("Execution");
  command.add_option("--nodes", options->nodes, "nodes that the ranks run on (default 1)")
      ->check(number_in(1, 1'000'000))
      ->group("Execution");
  command
      .add_option("--job-ranks", options->job_ranks,
                  "ranks of the job, as of mpirun -np N, for points that all of\nthem train (default: the most that "
                  "--ranks or the plan names,\nand at least one for each node)")
      ->check(number_in(1, 1'000'000))
      ->group("Execution");
  command
      .add_option("--on", options->on,
                  "output of trainwatt probe --json from the node that the plan\nis for (default: this node)")
      ->group("Execution");
  command.add_option("--site", options->site, site_help)->group(settings_group);
  command.add_option("--energy-csv", options->energy_csv, energy_csv_help)->group("Execution");
  command.add_flag("--json", options->json, "print JSON");
  command.add_flag("--runs", options->runs_only, "print only the number of runs that the plan asks for (--repeat)");
  return [options] { return plan(*options); };
}

}  // namespace tw::bench::tool
