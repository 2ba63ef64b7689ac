// The tasks' own targets, really trained to, against the curves of the independent framework: the suite's optimizers
// lie in the band, and one whose rate is a quarter of what it should be is found out although it arrives.
//
// What the band cannot tell, since it is as wide as chance between seeds makes it (gratings with 3 seeds: 52 to 168
// steps, with 1 seed 19 to 201; markov with 1 seed: 420 to 714; clicks with 3 seeds: 80 to 236), with the steps that
// were seen:
//   gratings  gradients that are summed over micro-batches and not divided by their number, or twice the rate: 70;
//             four and six times the rate: 57 and 53 on average; half the rate: 160
//   markov    rate × 0.3: 600, × 3: 625; beta1 = 0: 625; gradients not divided: 550, since AdamW divides by their size;
//             without bias correction the first steps are 0.4 to 1.1 times as long, for the tenth part of a run
//   clicks    twice and four times the rate: 125 and 130 in JAX. A quarter of the rate, 407 on average, is found.
// A tenth of the rate, or momentum 0, which makes each step a tenth, does not reach the error in the 600 steps of the
// task: `target_missed`.
#include "tests/bench/train/point/target_fixture.hpp"

#include <memory>

namespace tw {

using namespace bench;
using namespace models;
using namespace results;

namespace {

void as_it_is(TaskDescription&) {}

Axes gratings(const std::string& model = "resnet-tiny") {
  Axes axes;
  axes.model = {model};
  axes.micro_batch = {32};  // which the curves were made with; two to a step
  return axes;
}

double steps_of(const Record& record) { return record.summary.to_target->steps.value().value; }

/// A trainer whose gradients are `factor` times what they should be when the optimizer takes them.
class ScaledGradients : public StepSource {
 public:
  ScaledGradients(Device& device, const TrainerConfig& config, float factor)
      : factor_(factor), steps_(trainer_steps(device, config)) {}
  StepResult step(const GradientSync& sync) override {
    GradientSync scaled = sync;
    scaled.finish = [&](Stream& stream, Tensor gradients) {
      sync.finish(stream, gradients);
      for (std::int64_t i = 0; i < gradients.count(); ++i) gradients.as<float>()[i] *= factor_;
    };
    return steps_->step(scaled);
  }
  EvaluationResult evaluate(std::uint64_t batch) override { return steps_->evaluate(batch); }
  std::uint64_t planned_bytes() const override { return steps_->planned_bytes(); }

 private:
  float factor_;
  std::unique_ptr<StepSource> steps_;
};

using ReferenceBand = TargetRuns;

TEST_F(ReferenceBand, HoldsTheCnn) {
  const Record record = run(gratings(), as_it_is, trainer_steps, 3);
  EXPECT_EQ(record.verdict.status, Status::valid);
  EXPECT_EQ(record.target->value, task_of("resnet-tiny")->target);
  ASSERT_TRUE(record.target->reference) << record.target->reference_reason;
  EXPECT_TRUE(has(record, "no_reference")) << "three runs against 8 seeds that scatter by a fifth: 52 to 168 of 110";
  EXPECT_FALSE(has(record, "off_reference")) << steps_of(record);
}

void hold(const Record& record, const std::string& model) {
  EXPECT_EQ(record.verdict.status, Status::valid);
  EXPECT_EQ(record.target->value, task_of(model)->target);
  ASSERT_TRUE(record.target->reference) << record.target->reference_reason;
  EXPECT_FALSE(has_flag(record, FlagName("off_reference"))) << steps_of(record);
}

TEST_F(ReferenceBand, HoldsTheCnnWithBranches) {
  hold(run(gratings("inception-tiny"), as_it_is, trainer_steps, 3), "inception-tiny");
}

TEST_F(ReferenceBand, HoldsTheTransformer) { hold(run("gpt2-tiny", as_it_is, trainer_steps, 1), "gpt2-tiny"); }

TEST_F(ReferenceBand, HoldsTheRecommender) { hold(run("dlrm-tiny", as_it_is, trainer_steps, 3), "dlrm-tiny"); }

TEST_F(ReferenceBand, HoldsTheEncoder) { hold(run("bert-tiny", as_it_is, trainer_steps, 1), "bert-tiny"); }

TEST_F(ReferenceBand, HoldsTheLlama) { hold(run("llama-tiny", as_it_is, trainer_steps, 1), "llama-tiny"); }

TEST_F(ReferenceBand, FindsAQuarterOfTheRate) {
  const Record record = run(
      gratings(), as_it_is,
      [](Device& device, const TrainerConfig& config) {
        TrainerConfig broken = config;
        broken.optimizer.learning_rate /= 4;
        return trainer_steps(device, broken);
      },
      1);
  EXPECT_FALSE(has(record, "target_missed")) << "it arrives, so that only the band can tell";
  EXPECT_TRUE(has(record, "off_reference")) << steps_of(record);
  EXPECT_EQ(record.verdict.status, Status::invalid);
}

// A known limit: the band does not detect this. Reverse the last expectation once it does.
TEST_F(ReferenceBand, DoesNotTellGradientsThatAreNotDivided) {
  const Record record = run(
      gratings(), as_it_is,
      [](Device& device, const TrainerConfig& config) {
        return std::make_unique<ScaledGradients>(device, config, static_cast<float>(config.accumulate));
      },
      1);
  EXPECT_FALSE(has(record, "target_missed"));
  EXPECT_FALSE(has(record, "off_reference")) << steps_of(record);
}

}  // namespace
}  // namespace tw
