// Where a warm-up ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "bench/train/point/measure_point.hpp"
#include "models/compute/registry.hpp"
#include "tests/comm/support.hpp"
#include "tests/support/needs_cpu.hpp"

namespace tw {

using namespace bench;
using namespace comm;
using namespace models;
using namespace results;

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

/// Steps of a device that runs by itself: the host waits where it is too far ahead, and where it collects.
class StepsBeside : public StepSource {
  using Clock = std::chrono::steady_clock;

 public:
  struct Log {
    int collected = 0, ahead = 0;
    std::vector<std::size_t> results;
  };
  StepsBeside(std::chrono::milliseconds each, Log& log) : each_(each), log_(log) {}
  StepResult step(const GradientSync&) override { throw std::logic_error("a step that the host waits for"); }
  bool runs_ahead() const override { return true; }
  void enqueue(const GradientSync&) override {
    ends_.push_back(std::max(Clock::now(), ends_.empty() ? Clock::time_point() : ends_.back()) + each_);
    const std::size_t most = static_cast<std::size_t>(log_.ahead > 0 ? log_.ahead : 32);
    if (ends_.size() > most) std::this_thread::sleep_until(ends_[ends_.size() - 1 - most]);
  }
  std::vector<StepResult> collect() override {
    if (!ends_.empty()) std::this_thread::sleep_until(ends_.back());
    std::vector<StepResult> results(ends_.size() - collected_);
    for (StepResult& result : results)
      result.loss = 4 - 1e-3 * ++steps_, result.gradient_norm = 1, result.seconds = 1e-3 * static_cast<double>(each_.count());
    collected_ = ends_.size();
    ++log_.collected;
    log_.results.push_back(results.size());
    return results;
  }
  void set_ahead(int steps) override { log_.ahead = steps; }
  std::uint64_t planned_bytes() const override { return 0; }

 private:
  std::chrono::milliseconds each_;
  Log& log_;
  std::vector<Clock::time_point> ends_;
  std::size_t collected_ = 0;
  int steps_ = 0;
};

Record run(const Measurement& measurement, const StepSourceFactory& steps) {
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
                     steps};
  return run_point(context, plan.points[0]);
}
Record run(const Measurement& measurement, std::chrono::milliseconds each) {
  return run(measurement, [each](Device&, const TrainerConfig&) { return std::make_unique<SleepingSteps>(each); });
}

bool has(const Record& record, const char* flag) {
  return has_flag(record, FlagName(flag));
}

using std::chrono::milliseconds;

TEST(WarmUp, EndsAtItsCapAndSaysSo) {
  TW_NEEDS_CPU();
  // At most 4 steps fit into a trial's length: too few to tell whether they are steady.
  const Record record = run({.window_seconds = 0.4, .trials = 1, .warmup_steps = 2}, milliseconds(100));
  ASSERT_EQ(record.trials.size(), 1u);
  EXPECT_LE(record.trials[0].first_step, 4);
  EXPECT_TRUE(has(record, "not_steady"));
}

TEST(WarmUp, IsNotLeftOutWhereNoStepsAreAskedFor) {
  TW_NEEDS_CPU();
  const Record record = run({.window_seconds = 0.4, .trials = 1, .warmup_steps = 0}, milliseconds(1));
  EXPECT_GT(record.trials.at(0).first_step, 0) << "steady is something to be seen";
}

TEST(WarmUp, IsExactBeforeANumberOfSteps) {
  TW_NEEDS_CPU();
  const Record record = run({.trials = 2, .warmup_steps = 2, .steps = 5}, milliseconds(1));
  ASSERT_EQ(record.trials.size(), 2u);
  EXPECT_EQ(record.trials[0].first_step, 2);
  EXPECT_EQ(record.trials[1].first_step, 7);
  for (const Trial& trial : record.trials) EXPECT_EQ(trial.step_time_s.size(), 5u);
  EXPECT_FALSE(has(record, "not_steady"));
  EXPECT_EQ(record.warm_up->loss.size(), 2u) << "one of each step";
}

TEST(WarmUp, KeepsTheLossesOfItsFirstSteps) {
  TW_NEEDS_CPU();
  const Record record = run({.trials = 1, .warmup_steps = 12, .steps = 3}, milliseconds(1));
  ASSERT_TRUE(record.warm_up);
  ASSERT_EQ(record.warm_up->loss.size(), warm_up_losses) << "not of all twelve";
  // On one loss curve with the trial's.
  std::vector<double> losses = record.warm_up->loss;
  losses.insert(losses.end(), record.trials.at(0).loss.begin(), record.trials.at(0).loss.end());
  EXPECT_TRUE(std::ranges::is_sorted(losses, std::greater<>())) << "of these steps each has a smaller one";
}

TEST(Window, OfStepsThatRunAheadIsWaitedForAtItsEndsAlone) {
  TW_NEEDS_CPU();
  StepsBeside::Log log;
  const Measurement measurement{.window_seconds = 0.4, .trials = 2, .warmup_steps = 2};
  const Record record = run(measurement, [&log](Device&, const TrainerConfig&) {
    return std::make_unique<StepsBeside>(milliseconds(5), log);
  });
  ASSERT_EQ(record.trials.size(), 2u);
  EXPECT_EQ(log.ahead, 100) << "half a second of steps";
  // The last collections: the warm-up's end, two windows, the profiled step with the one in front.
  ASSERT_GE(log.results.size(), 4u);
  EXPECT_EQ(log.results.back(), 2u) << "one in front, while which the host enqueues it";
  for (std::size_t i = 0; i < 2; ++i) {
    const Trial& trial = record.trials[i];
    EXPECT_EQ(trial.step_time_s, std::vector<double>(log.results[log.results.size() - 3 + i], 0.005))
        << "all in one piece, by the device's clock";
    EXPECT_GE(trial.window_s, 0.4) << "not ended by the clock of a host that is ahead";
    EXPECT_EQ(trial.loss.size(), trial.step_time_s.size());
  }
  EXPECT_EQ(record.trials[1].first_step, record.trials[0].first_step + static_cast<std::int64_t>(record.trials[0].step_time_s.size()));
}

TEST(Window, OfANumberOfStepsThatRunAheadIsExact) {
  TW_NEEDS_CPU();
  StepsBeside::Log log;
  const Record record = run({.trials = 2, .warmup_steps = 2, .steps = 5}, [&log](Device&, const TrainerConfig&) {
    return std::make_unique<StepsBeside>(milliseconds(1), log);
  });
  ASSERT_EQ(record.trials.size(), 2u);
  EXPECT_EQ(record.trials[0].first_step, 2);
  for (const Trial& trial : record.trials) EXPECT_EQ(trial.step_time_s.size(), 5u);
}

}  // namespace
}  // namespace tw
