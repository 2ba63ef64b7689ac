// The held-out samples, shared by all ranks: each of them once, whatever the number of ranks and where tables lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/train/point/point_config.hpp"
#include "bench/train/point/step_loop.hpp"
#include "comm/registry.hpp"
#include "tests/comm/support.hpp"

namespace tw {

using namespace bench;
using namespace comm;
using namespace models;
using namespace results;

namespace {

/// Evaluates a micro-batch to its index.
class Indices : public StepSource {
 public:
  explicit Indices(std::size_t batches) : times(batches, 0) {}
  StepResult step(const GradientSync&) override { return {}; }
  EvaluationResult evaluate(std::uint64_t batch) override {
    times.at(batch) += 1;
    return {static_cast<double>(batch), static_cast<std::int64_t>(batch), 1000};
  }
  std::uint64_t planned_bytes() const override { return 0; }
  std::vector<double> times;  // that a micro-batch was evaluated here
};

RunPlan plan_to_target(const std::string& model, int ranks) {
  Request request;
  request.axes.emplace_back().model = {model};
  request.target.emplace();
  return make_plan(request, ranks, "cpu");
}

TEST(EvaluationOfAllRanks, IsOfEachMicroBatchOnce) {
  Job& job = test_job();
  for (const TaskDescription& task : tasks()) {
    SCOPED_TRACE(task.name);
    const RunPlan plan = plan_to_target(task.model, job.size());
    const Point& point = plan.points[0];
    const auto batches = static_cast<std::size_t>(point.task->held_out_samples / point.micro_batch);
    Indices steps(batches);
    const Evaluation evaluation = evaluate_held_out(job, steps, point);
    const double mean = static_cast<double>(batches - 1) / 2;
    EXPECT_EQ(evaluation.loss, mean);
    if (task.metric == TaskDescription::Metric::error)
      EXPECT_EQ(evaluation.error, 1 - mean / 1000);
    else
      EXPECT_FALSE(evaluation.error);
    EXPECT_EQ(job.sum(steps.times), std::vector<double>(batches, 1));
    EXPECT_LE(job.maximum({static_cast<double>(std::ranges::count(steps.times, 1.0))})[0],
              static_cast<double>((batches + static_cast<std::size_t>(job.size()) - 1) /
                                  static_cast<std::size_t>(job.size())))
        << "nobody has more than its part";
  }
}

// Bags of tables go by all_to_all, so that all ranks evaluate in step; the outcome is that of one rank with all tables.
TEST(EvaluationOfAllRanks, IsThatOfOneRankWhereTablesLieOnSeveral) {
  Job& job = test_job();
  RunPlan plan = plan_to_target("dlrm-tiny", job.size());
  Point& point = plan.points[0];
  point.task->held_out_samples = 4 * point.global_batch();
  const std::unique_ptr<StepSource> steps = trainer_steps(host_device(), trainer_config(point, plan, job.rank()));
  const auto communicator = create_communicator(plan.comm, job, host_device());
  steps->connect(*communicator);
  const Evaluation together = evaluate_held_out(job, *steps, point);

  Point whole = point;
  whole.ranks = 1;
  Trainer alone(host_device(), trainer_config(whole, plan, 0));
  double loss = 0, correct = 0;
  const std::int64_t batches = point.task->held_out_samples / point.micro_batch;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    const EvaluationResult result = alone.evaluate(static_cast<std::uint64_t>(batch));
    loss += result.loss / static_cast<double>(batches), correct += static_cast<double>(result.correct);
  }
  EXPECT_NEAR(together.loss, loss, 1e-9);
  EXPECT_NEAR(together.error.value(), 1 - correct / static_cast<double>(point.task->held_out_samples), 1e-12);
  EXPECT_GT(*together.error, 0.2) << "nothing was trained";
}

}  // namespace
}  // namespace tw
