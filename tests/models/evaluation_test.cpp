// Evaluation of held-out micro-batches: the same on every device, whatever the micro-batch.
#include <gtest/gtest.h>

#include <utility>

#include "models/trainer.hpp"
#include "tests/models/support.hpp"
#include "tests/support/needs_cpu.hpp"

namespace tw::test {

using namespace models;

namespace {

// The cpu device's evaluation against the reference's float64 loops, after the same training; what is right is counted
// from logits, so that near ties of untrained weights may fall on either side.
TEST(Evaluation, AgreesWithTheReference) {
  TW_NEEDS_CPU();
  for (const NetworkDescription& network : micro_families()) {
    const auto reference = reference_device(), cpu = create_device("cpu", {0, 1});
    Trainer expected(*reference, micro_config(network)), trainer(*cpu, micro_config(network));
    std::int64_t correct = 0, expected_correct = 0, predictions = 0;
    // Inception's micro network normalises over four values, so that rounding grows from step to step.
    const int steps = network.name == micro_inception().name ? 1 : 10;
    for (int step = 0; step < steps; ++step) {
      expected.step({});
      trainer.step({});
    }
    for (std::uint64_t batch = 0; batch < 20; ++batch) {
      const EvaluationResult a = expected.evaluate(batch), b = trainer.evaluate(batch);
      EXPECT_NEAR(b.loss, a.loss, 1e-4 * a.loss) << network.name << ", batch " << batch;
      EXPECT_EQ(a.predictions, b.predictions);
      correct += b.correct, expected_correct += a.correct, predictions += a.predictions;
    }
    EXPECT_NEAR(static_cast<double>(correct), static_cast<double>(expected_correct), 0.01 * static_cast<double>(predictions));
    EXPECT_GT(expected_correct, 0) << "or the counts say nothing";
    EXPECT_LT(expected_correct, predictions);
  }
}

// Whatever the micro-batch, a transformer's mean over the same held-out samples is the same.
TEST(Evaluation, IsOfTheSamplesWhateverTheMicroBatch) {
  const auto device = reference_device();
  const auto mean = [&](std::int64_t micro_batch) {
    TrainerConfig config = micro_config(micro_gpt2());
    config.micro_batch = micro_batch;
    Trainer trainer(*device, config);
    double loss = 0;
    std::int64_t correct = 0;
    const std::int64_t batches = 12 / micro_batch;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      const EvaluationResult result = trainer.evaluate(static_cast<std::uint64_t>(batch));
      loss += result.loss / static_cast<double>(batches);
      correct += result.correct;
    }
    return std::pair(loss, correct);
  };
  const auto [loss, correct] = mean(12);
  for (const std::int64_t micro_batch : {1, 3, 6}) {
    EXPECT_NEAR(mean(micro_batch).first, loss, 1e-6 * loss);
    EXPECT_EQ(mean(micro_batch).second, correct);
  }
}

}  // namespace
}  // namespace tw::test
