#include "bench/train/point/target_run.hpp"

#include "bench/train/job/interruption.hpp"
#include "bench/train/job/outcome.hpp"

namespace tw::bench {

results::Evaluation evaluate_held_out(comm::Job& job, StepSource& steps, const Point& point) {
  double loss = 0, correct = 0, predictions = 0;
  const std::int64_t batches = point.task->held_out_samples / point.micro_batch;
  for (std::int64_t batch = job.rank(); batch < batches; batch += job.size()) {
    const models::EvaluationResult result = steps.evaluate(static_cast<std::uint64_t>(batch));
    loss += result.loss;
    correct += static_cast<double>(result.correct);
    predictions += static_cast<double>(result.predictions);
  }
  const std::vector<double> all = job.sum({loss, correct, predictions, interruption_requested() ? 1.0 : 0.0});
  if (all[3] > 0) throw Stop(exit_interrupted, interrupted_by_signal);
  results::Evaluation evaluation;
  evaluation.loss = all[0] / static_cast<double>(batches);
  if (point.task->metric == models::TaskDescription::Metric::error) evaluation.error = 1 - all[1] / all[2];
  return evaluation;
}

}  // namespace tw::bench
