// Where a warm-up ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "bench/train/run_point.hpp"
#include "models/compute/registry.hpp"
#include "tests/comm/support.hpp"

namespace tw {
namespace {

class SleepingSteps : public StepSource {
 public:
  explicit SleepingSteps(std::chrono::milliseconds each) : each_(each) {}
  StepResult step(const GradientSync&) override {
    std::this_thread::sleep_for(each_);
    return {4 - 1e-3 * ++steps_, 1, {}};
  }
  std::uint64_t planned_bytes() const override { return 0; }

 private:
  std::chrono::milliseconds each_;
  int steps_ = 0;
};

Record run(const Measurement& measurement, std::chrono::milliseconds each) {
  Job& job = test_job();
  Request request;
  request.axes.emplace_back().model = {"resnet-tiny"};
  request.measurement = measurement;
  request.measurement.ceiling_seconds = 0;
  const RunPlan plan = make_plan(request, job.size(), "cpu");
  const std::unique_ptr<Device> device = create_device("cpu", DeviceOptions{0, 1});
  const Machines machines(job);
  EnergyWindow energy(job, machines);
  Progress progress(false, 1, 0);
  RunContext context{job,
                     *device,
                     plan,
                     energy,
                     progress,
                     25,
                     "none asked for",
                     {},
                     nullptr,
                     {},
                     {},
                     [each](Device&, const TrainerConfig&) { return std::make_unique<SleepingSteps>(each); }};
  return run_point(context, plan.points[0]);
}

bool has(const Record& record, const char* flag) {
  return std::ranges::find(record.verdict.flags, flag) != record.verdict.flags.end();
}

using std::chrono::milliseconds;

TEST(WarmUp, EndsAtItsCapAndSaysSo) {
  // At most 4 steps fit into a trial's length: too few to tell whether they are steady.
  const Record record = run({.window_seconds = 0.4, .trials = 1, .warmup_steps = 2}, milliseconds(100));
  ASSERT_EQ(record.trials.size(), 1u);
  EXPECT_LE(record.trials[0].first_step, 4);
  EXPECT_TRUE(has(record, "not_steady"));
}

TEST(WarmUp, IsNotLeftOutWhereNoStepsAreAskedFor) {
  const Record record = run({.window_seconds = 0.4, .trials = 1, .warmup_steps = 0}, milliseconds(1));
  EXPECT_GT(record.trials.at(0).first_step, 0) << "steady is something to be seen";
}

TEST(WarmUp, IsExactBeforeANumberOfSteps) {
  const Record record = run({.trials = 2, .warmup_steps = 2, .steps = 5}, milliseconds(1));
  ASSERT_EQ(record.trials.size(), 2u);
  EXPECT_EQ(record.trials[0].first_step, 2);
  EXPECT_EQ(record.trials[1].first_step, 7);
  for (const Trial& trial : record.trials) EXPECT_EQ(trial.step_time_s.size(), 5u);
  EXPECT_FALSE(has(record, "not_steady"));
}

}  // namespace
}  // namespace tw
