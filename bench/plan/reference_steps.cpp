#include "bench/plan/reference_steps.hpp"

#include <algorithm>

#include "models/catalog/floors.hpp"
#include "results/analysis/convergence.hpp"

namespace tw {

Target target_of(const Point& point, const Workload& workload) {
  const TaskDescription& task = *point.task;
  Target target;
  target.task = task.name;
  target.metric = to_string(task.metric);
  target.value = task.target;
  target.floor = exact_floor(point.network, point.seq_len);
  target.held_out_samples = task.held_out_samples;
  target.evaluation_interval = task.evaluation_interval;
  target.most_steps = task.most_steps;
  target.schedule = {task.learning_rate, task.final_learning_rate_share, task.warmup_steps, task.decay_steps};
  find_reference(target, workload, std::max(1, static_cast<int>(point.seeds.size())));
  return target;
}

std::optional<double> reference_steps(const Point& point) {
  Workload workload;  // what the reference is held against
  workload.model = point.network.name;
  workload.layers = point.layers;
  workload.micro_batch = point.micro_batch;
  workload.global_batch = point.global_batch();
  if (point.network.has_sequence()) workload.seq_len = point.seq_len;
  workload.optimizer = to_string(default_optimizer(point.network).kind);
  workload.parameters = count_parameters(point.network);
  const Target target = target_of(point, workload);
  return target.reference ? std::optional(target.reference->steps_mean) : std::nullopt;
}

}  // namespace tw
