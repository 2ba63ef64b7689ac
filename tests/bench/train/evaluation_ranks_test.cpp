// The held-out samples, shared by all ranks: each of them once, whatever the number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/train/point/step_loop.hpp"
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

TEST(EvaluationOfAllRanks, IsOfEachMicroBatchOnce) {
  Job& job = test_job();
  for (const std::string model : {"gpt2-tiny", "resnet-tiny"}) {
    Request request;
    request.axes.emplace_back().model = {model};
    request.target.emplace();
    const RunPlan plan = make_plan(request, job.size(), "cpu");
    const Point& point = plan.points[0];
    const auto batches = static_cast<std::size_t>(point.task->held_out_samples / point.micro_batch);
    Indices steps(batches);
    const Evaluation evaluation = evaluate_held_out(job, steps, point);
    const double mean = static_cast<double>(batches - 1) / 2;
    EXPECT_EQ(evaluation.loss, mean);
    if (model == "resnet-tiny")
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

}  // namespace
}  // namespace tw
