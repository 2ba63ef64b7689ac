#include "bench/train/dry_run.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <map>

#include "bench/node_power/node_power.hpp"
#include "bench/plan/abilities.hpp"
#include "bench/plan/forecast.hpp"
#include "bench/plan/meter_options.hpp"
#include "bench/train/outcome.hpp"
#include "bench/train/point_config.hpp"
#include "bench/train/point_run.hpp"

namespace tw {
namespace {

constexpr std::size_t width = 100;

/// Seconds of the second of two steps, the slowest rank's (collective); nullopt where the point does not come so far.
std::optional<double> time_a_step(RunContext& context, const Point& point) {
  try {
    PointRun run(context, point);
    together(context.job, [&] { run.set_up(context.plan.seed); });
    run.connect();
    return context.job.maximum({run.warm_up().step_seconds.back()}).front();
  } catch (const Stop& stop) {
    if (stop.code() == exit_interrupted) throw;
    return std::nullopt;
  }
}

}  // namespace

void dry_run(Job& job, Device& device, const RunPlan& plan, const Options& options) {
  const Machines machines(job);
  EnergyWindow energy(job, machines);
  Progress progress(false, 0, 0);
  RunPlan two_steps = plan;
  two_steps.measurement.steps = 1;
  two_steps.measurement.warmup_steps = 2;
  RunContext context{job, device, two_steps, energy, progress, options.bucket_mib, {}, {}};

  Abilities node;
  together(job, [&] {
    if (!job.is_root()) return;
    GpuChoice gpus;
    gpus.visible = machines.visible();
    const MeterOptions meters = meter_options(options.energy_csv, options.estimate_watts, job.host(), job.nodes() == 1);
    node = abilities_here(find_meters(meters, choosing(std::move(gpus))), find_knobs({options.site}));
  });
  const auto why_not = [&](const Point& point) {
    std::string why = job.agree(why_unsupported(point, device));
    if (why.empty()) why = job.agree(why_too_large(point, plan, job, device.info().threads));
    return why.empty() ? job.broadcast(setting_obstacle(point, node)) : why;
  };
  std::map<std::string, std::optional<double>> known;  // of a workload, at the found settings
  const auto step_seconds = [&](const Point& point) -> std::optional<double> {
    if (point.ranks != job.size()) return std::nullopt;
    const std::string workload = fmt::format("{} {} {} {} {} {}", point.network.name, point.layers.value_or(0), point.precision,
                                             point.micro_batch, point.accumulate, point.seq_len);
    const auto found = known.find(workload);
    return found != known.end() ? found->second : known.emplace(workload, time_a_step(context, point)).first->second;
  };
  Forecast made = forecast(plan, job.nodes(), why_not, step_seconds);
  if (!job.is_root()) return;
  made.maximum_power_w = node.maximum_power_w;
  made.power_reason = "no energy meter answers on " + node.host + ": `trainwatt probe` says why";
  made.search_obstacle = search_obstacle(plan, made);
  std::printf("%s", forecast_text(plan, made, width).c_str());
}

}  // namespace tw
