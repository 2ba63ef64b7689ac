#include "bench/plan/reference_steps.hpp"

#include <algorithm>

#include "models/catalog/floors.hpp"
#include "results/analysis/convergence.hpp"

namespace tw::bench {

results::Target target_of(const Point& point, const results::Workload& workload) {
  const models::TaskDescription& task = *point.task;
  results::Target target;
  target.task = task.name;
  target.metric = task.metric == models::TaskDescription::Metric::error ? results::TargetMetric::error
                                                                          : results::TargetMetric::excess_loss;
  target.value = task.target;
  target.floor = models::exact_floor(point.network, point.seq_len);
  if (task.drawn_tokens > 0) target.drawn_tokens = task.drawn_tokens;
  target.held_out_samples = task.held_out_samples;
  target.evaluation_interval = task.evaluation_interval;
  target.most_steps = task.most_steps;
  if (!task.extrapolated_from.empty()) target.extrapolated_from = task.extrapolated_from;
  target.schedule = {task.learning_rate, task.final_learning_rate_share, task.warmup_steps, task.decay_steps};
  results::find_reference(target, workload, std::max(1, static_cast<int>(point.seeds.size())));
  return target;
}

std::optional<double> reference_steps(const Point& point) {
  results::Workload workload;  // what the reference is compared with
  workload.model = point.network.name;
  workload.layers = point.layers;
  workload.table_rows_at_most = point.table_rows_at_most;
  workload.micro_batch = point.micro_batch;
  workload.global_batch = point.global_batch();
  if (point.network.has_sequence()) workload.seq_len = point.seq_len;
  workload.optimizer = models::to_string(models::default_optimizer(point.network).kind);
  workload.parameters = models::count_parameters(point.network);
  const results::Target target = target_of(point, workload);
  return target.reference ? std::optional(target.reference->steps_mean) : std::nullopt;
}

}  // namespace tw::bench
