#include "bench/train/target_run.hpp"

#include "bench/train/interruption.hpp"
#include "bench/train/outcome.hpp"
#include "models/catalog/floors.hpp"
#include "results/convergence.hpp"

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
  find_reference(target, workload, static_cast<int>(point.seeds.size()));
  return target;
}

Evaluation evaluate_held_out(Job& job, StepSource& steps, const Point& point) {
  double loss = 0, correct = 0, predictions = 0;
  const std::int64_t batches = point.task->held_out_samples / point.micro_batch;
  for (std::int64_t batch = job.rank(); batch < batches; batch += job.size()) {
    const EvaluationResult result = steps.evaluate(static_cast<std::uint64_t>(batch));
    loss += result.loss;
    correct += static_cast<double>(result.correct);
    predictions += static_cast<double>(result.predictions);
  }
  const std::vector<double> all = job.sum({loss, correct, predictions, interruption_requested() ? 1.0 : 0.0});
  if (all[3] > 0) throw Stop(exit_interrupted, interrupted_by_signal);
  Evaluation evaluation;
  evaluation.loss = all[0] / static_cast<double>(batches);
  if (point.task->metric == TaskDescription::Metric::error) evaluation.error = 1 - all[1] / all[2];
  return evaluation;
}

}  // namespace tw
