// Runs to a target, with scripted losses and with real training: where they end, what they record, and that an
// optimizer that does not learn is found out.
#include "bench/train/point/step_loop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "bench/train/job/interruption.hpp"
#include "bench/train/job/outcome.hpp"
#include "models/catalog/floors.hpp"
#include "results/analysis/to_target.hpp"
#include "tests/bench/train/point/target_fixture.hpp"

namespace tw {

using namespace bench;
using namespace models;
using namespace results;

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// No training: the loss over the floor after so many steps, and which images are wrong. `during` is called at each
/// step, at 0 when the weights are made.
class ScriptedSteps : public StepSource {
 public:
  using Script = std::function<double(std::uint64_t seed, int step)>;
  using During = std::function<void(std::uint64_t seed, int step)>;
  ScriptedSteps(const TrainerConfig& config, Script metric, During during)
      : config_(config), metric_(std::move(metric)), during_(std::move(during)) {
    if (during_) during_(config_.seed, 0);
  }
  StepResult step(const GradientSync&) override {
    ++steps_;
    if (during_) during_(config_.seed, steps_);
    StepResult result{4 - 1e-3 * steps_, 1};
    result.phases.forward = 1e-9;  // every step has phases; shorter than any window
    return result;
  }
  EvaluationResult evaluate(std::uint64_t) override {
    const double metric = metric_(config_.seed, steps_);
    if (config_.network.has_sequence()) {
      const std::int64_t tokens = config_.micro_batch * config_.seq_len;
      return {exact_floor(config_.network, config_.seq_len) + metric, 0, tokens};
    }
    const auto right = static_cast<std::int64_t>(std::lround((1 - metric) * static_cast<double>(config_.micro_batch)));
    return {0.5, right, config_.micro_batch};
  }
  std::uint64_t planned_bytes() const override { return 0; }

 private:
  TrainerConfig config_;
  Script metric_;
  During during_;
  int steps_ = 0;
};

class TargetRunTest : public TargetRuns {
 protected:
  static StepSourceFactory scripted(ScriptedSteps::Script metric, ScriptedSteps::During during = {}) {
    return [metric, during](Device&, const TrainerConfig& config) {
      return std::make_unique<ScriptedSteps>(config, metric, during);
    };
  }
  /// How a run that a signal ends says so; empty where it was not ended.
  std::string interrupted(const std::function<void(TaskDescription&)>& change, const StepSourceFactory& steps) {
    try {
      run("gpt2-tiny", change, steps);
    } catch (const Stop& stop) {
      set_interruption(false);
      return stop.code() == exit_interrupted ? stop.what() : "";
    }
    set_interruption(false);
    return {};
  }
  static void short_intervals(TaskDescription& task) {
    task.evaluation_interval = 10;
    task.most_steps = 45;
    task.target = 0.125;
  }
};

TEST_F(TargetRunTest, EndsAtTheFirstEvaluationUnderTheTargetWithEachSeed) {
  // Seed 11 arrives at step 20, 12 at 40, 13 at 30; what would have come later is not looked at.
  const std::vector<int> arrives = {20, 40, 30};
  const Record record =
      run("gpt2-tiny", short_intervals,
          scripted([&](std::uint64_t seed, int step) { return step < arrives[seed - 11] ? 0.25 : 0.0625; }));
  ASSERT_EQ(record.trials.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const Trial& trial = record.trials[i];
    const TargetRun& target_run = trial.target_run.value();
    EXPECT_EQ(target_run.seed, 11 + i);
    EXPECT_EQ(trial.step_time_s.size(), static_cast<std::size_t>(arrives[i]));
    EXPECT_EQ(target_run.evaluations.size(), static_cast<std::size_t>(arrives[i] / 10));
    EXPECT_EQ(target_run.evaluations.back().step, arrives[i]);
    EXPECT_NEAR(metric_of(*record.target, target_run.evaluations.back()), 0.0625, 1e-12);
    EXPECT_LE(target_run.evaluations.back().time_s, trial.window_s);
    EXPECT_FALSE(target_run.evaluations.back().error);
  }
  EXPECT_DOUBLE_EQ(record.summary.to_target->steps->value, 30);
  EXPECT_DOUBLE_EQ(record.summary.to_target->samples->value, 30 * 32);
  EXPECT_FALSE(has(record, "target_missed"));
}

TEST_F(TargetRunTest, AnErrorIsTheShareOfAllHeldOutImages) {
  const Record record =
      run("resnet-tiny", short_intervals, scripted([](std::uint64_t, int step) { return step < 20 ? 0.25 : 0.125; }));
  const TargetRun& target_run = record.trials.at(0).target_run.value();
  ASSERT_EQ(target_run.evaluations.size(), 2u);
  EXPECT_EQ(target_run.evaluations[0].error, 0.25);
  EXPECT_EQ(target_run.evaluations[1].error, 0.125);
}

TEST_F(TargetRunTest, TheLastStepIsEvaluatedAndEndsARunThatDoesNotConverge) {
  const Record record =
      run("gpt2-tiny", short_intervals, scripted([](std::uint64_t seed, int) { return seed == 12 ? 0.5 : 0.1; }));
  ASSERT_EQ(record.trials.size(), 3u);
  const std::vector<Evaluation>& evaluations = record.trials[1].target_run->evaluations;
  ASSERT_EQ(evaluations.size(), 5u);
  EXPECT_EQ(evaluations.back().step, 45) << "between two intervals";
  EXPECT_TRUE(has(record, "target_missed"));
  EXPECT_EQ(record.verdict.status, Status::invalid);
  EXPECT_FALSE(record.summary.to_target->time_s);
  EXPECT_NE(record.summary.to_target->reason.find("seed 12 did not reach"), std::string::npos);
}

TEST_F(TargetRunTest, ALossThatIsNoNumberEndsTheRun) {
  const Record record =
      run("gpt2-tiny", short_intervals, scripted([](std::uint64_t, int step) { return step < 20 ? 1.0 : nan; }));
  EXPECT_EQ(record.trials.at(0).step_time_s.size(), 20u);
  EXPECT_TRUE(has(record, "target_missed"));
}

// However far apart evaluations are, a signal is seen within about a second: launchers kill what does not end.
TEST_F(TargetRunTest, ASignalIsSeenBetweenEvaluations) {
  int evaluated = 0;
  const std::string said =
      interrupted([](TaskDescription& task) { task.evaluation_interval = task.most_steps = 50000; },
                  scripted(
                      [&](std::uint64_t, int) {
                        ++evaluated;
                        return 1.0;
                      },
                      [](std::uint64_t, int step) {
                        if (step == 3) set_interruption(true);
                      }));
  EXPECT_EQ(said, "interrupted by a signal after 0 of 3 seeds");
  EXPECT_EQ(evaluated, 0);
}

TEST_F(TargetRunTest, ASignalIsSeenBetweenSeedsAndTheFinishedOnesAreCounted) {
  int steps_of_the_third = 0;
  const auto arrives = [](std::uint64_t, int) { return 0.0625; };
  const std::string said = interrupted(short_intervals, scripted(arrives, [&](std::uint64_t seed, int step) {
                                         if (seed == 13 && step == 0) set_interruption(true);  // while weights are made
                                         steps_of_the_third += seed == 13 && step > 0;
                                       }));
  EXPECT_EQ(said, "interrupted by a signal after 2 of 3 seeds");
  EXPECT_EQ(steps_of_the_third, 0);
}

// Real training, from here on; a target that is reached early, so that the tests are short.
void early(TaskDescription& task) {
  task.evaluation_interval = 5;
  task.most_steps = 60;
  task.target = 2.5;
  task.held_out_samples = 32;
}

TEST_F(TargetRunTest, ARealRunReachesAnEarlyTarget) {
  const Record record = run("gpt2-tiny", early, trainer_steps, 1);
  EXPECT_FALSE(has(record, "target_missed")) << record.summary.to_target->reason;
  EXPECT_GT(record.trials[0].target_run->evaluations.size(), 1u)
      << "a target that untrained weights reach shows nothing";
}

// With 8 of its 128 tokens the network first learns which these are, and then how they follow each other: the loss gets
// under ln 8, which the same steps with all tokens are far from.
TEST_F(TargetRunTest, ARunThatDrawsFewTokensGetsNearTheirFloor) {
  const auto steps_with = [](std::int64_t drawn) {
    return run(
        "llama-tiny",
        [&](TaskDescription& task) {
          early(task);
          task.most_steps = 15;
          task.target = 0.5;  // a guess among 8 tokens is 2.08 − 1.22 nats over the floor
          task.drawn_tokens = drawn;
        },
        trainer_steps, 1);
  };
  const Record few = steps_with(8), all = steps_with(0);
  EXPECT_EQ(few.target->drawn_tokens, 8);
  EXPECT_FALSE(all.target->drawn_tokens);
  EXPECT_NE(few.workload.hash, all.workload.hash);
  EXPECT_NEAR(few.trials[0].loss.front(), std::log(128.0), 0.2) << "the head still has all tokens";
  EXPECT_FALSE(has(few, "target_missed")) << few.summary.to_target->reason;
  EXPECT_LT(few.trials[0].target_run->evaluations.back().loss, std::log(8.0));
  EXPECT_TRUE(has(all, "target_missed"));
  EXPECT_GT(all.trials[0].target_run->evaluations.back().loss, std::log(8.0));
}

TEST_F(TargetRunTest, AnOptimizerThatDoesNotLearnIsFoundOut) {
  const Record record = run(
      "gpt2-tiny", early,
      [](Device& device, const TrainerConfig& config) {
        TrainerConfig broken = config;
        broken.optimizer.learning_rate = 1e-9f;
        return trainer_steps(device, broken);
      },
      1);
  EXPECT_TRUE(has(record, "target_missed"));
  EXPECT_EQ(record.verdict.status, Status::invalid);
}

}  // namespace
}  // namespace tw
