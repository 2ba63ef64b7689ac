#include "bench/train/dry_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <map>

#include "bench/inventory/inventory.hpp"
#include "bench/node_power/node_power.hpp"
#include "bench/plan/abilities.hpp"
#include "bench/plan/forecast.hpp"
#include "bench/plan/options/meter_options.hpp"
#include "bench/terminal/terminal.hpp"
#include "bench/train/job/outcome.hpp"
#include "bench/train/point/point_config.hpp"
#include "bench/train/point/step_loop.hpp"

namespace tw::bench {
namespace {

/// Of one step; nullopt if the point does not come so far.
std::optional<double> time_a_step(RunContext& context, const Point& point, Measurement& measurement) {
  constexpr int timed_steps = 4;
  try {
    return fastest_step(context, point, measurement, [](double) { return timed_steps; });
  } catch (const Stop& stop) {
    if (stop.code() == exit_interrupted) throw;
    return std::nullopt;
  }
}

}  // namespace

void dry_run(comm::Job& job, models::Device& device, const RunPlan& plan, const Options& options) {
  const Machines machines(job, power::name_of_gpu(device.info().uuid).whole);
  EnergyWindow energy(job, machines);
  Progress progress(false, 0, 0);
  RunPlan few_steps = plan;
  few_steps.measurement.steps = 1;
  RunContext context{.job = job,
                     .device = device,
                     .plan = few_steps,
                     .energy = energy,
                     .progress = progress,
                     .bucket_mib = options.bucket_mib};

  Abilities node;
  on_root(job, [&] {
    GpuChoice gpus;
    gpus.visible = machines.visible();
    const power::MeterOptions meters =
        meter_options(options.energy_csv, options.estimate_watts, job.host(), job.nodes() == 1);
    node = abilities_here(power::find_meters(meters, choosing(std::move(gpus))), power::find_knobs({options.site}));
  });
  const auto why_not = [&](const Point& point) {
    std::string why = job.agree(why_unsupported(point, device));
    if (why.empty()) why = job.agree(why_too_large(point, plan, job, device));
    return why.empty() ? job.broadcast(setting_obstacle(point, node)) : why;
  };
  std::map<std::string, std::optional<double>> known;  // of a workload, at the found settings
  const auto step_seconds = [&](const Point& point) -> std::optional<double> {
    if (point.ranks != job.size()) return std::nullopt;
    const std::string workload = fmt::format("{} {} {} {} {} {} {}", point.network.name, point.layers.value_or(0),
                                             point.table_rows_at_most.value_or(0), point.precision, point.micro_batch,
                                             point.accumulate, point.seq_len);
    const auto found = known.find(workload);
    return found != known.end()
               ? found->second
               : known.emplace(workload, time_a_step(context, point, few_steps.measurement)).first->second;
  };
  // A launcher binds each rank to some of the cores, and each has a GPU of its own: the node's are those of all its
  // ranks.
  node.cores = usable_cores(device.info().threads * job.local_size());
  if (device.info().kind == models::DeviceKind::cuda)
    node.gpus.assign(static_cast<std::size_t>(job.local_size()), device.info().name);
  const std::optional<DevicePace> pace = DevicePace::of(node, plan.device, job.nodes(), job.size());
  const auto memory = [&](const Point& point) { return memory_of_rank(point, plan, device); };
  Forecast made = forecast(plan, job.nodes(), why_not, step_seconds, memory, pace ? &*pace : nullptr);
  if (device.info().kind != models::DeviceKind::cuda && node.memory_bytes)
    made.node_memory_bytes = static_cast<double>(*node.memory_bytes);
  if (!job.is_root()) return;
  made.maximum_power_w = node.maximum_power_w;
  made.power_unknown = node.power_unknown;
  made.power_reason = node.host + " has no readable energy meter; trainwatt probe shows why";
  made.time_reason =
      "none of their steps were timed: they take fewer ranks than this launch (launch --dry-run with as many), or "
      "their first steps failed";
  made.search_obstacle = search_obstacle(plan, made);
  const auto width = static_cast<std::size_t>(terminal_width(STDOUT_FILENO).value_or(100));
  std::printf("%s", forecast_text(plan, made, width).c_str());
}

}  // namespace tw::bench
