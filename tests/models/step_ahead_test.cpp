// Steps enqueued ahead, call by call or as graphs, are the steps done one by one: on a device whose work runs only when
// the host waits for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/models/support.hpp"
#include "tests/support/deferred_device.hpp"

namespace tw::test {

using namespace models;

namespace {

constexpr int steps = 10;

// By their bits: what overflowed is equal to itself too.
template <class To, class From>
std::vector<To> bits(const std::vector<From>& values) {
  std::vector<To> all;
  for (const From value : values) all.push_back(std::bit_cast<To>(value));
  return all;
}

struct Outcome {
  std::vector<double> losses, norms, loss_scales;
  std::vector<float> masters, gradients;
  double held_out = 0;
  bool operator==(const Outcome& other) const {
    const auto same = [](const auto& a, const auto& b) { return bits<std::uint64_t>(a) == bits<std::uint64_t>(b); };
    return same(losses, other.losses) && same(norms, other.norms) && loss_scales == other.loss_scales &&
           masters == other.masters && bits<std::uint32_t>(gradients) == bits<std::uint32_t>(other.gradients) &&
           held_out == other.held_out;
  }
};

Outcome outcome_of(Device& device, Trainer& trainer, const std::vector<StepResult>& results) {
  Outcome outcome;
  for (const StepResult& result : results) {
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.gradient_norm);
    outcome.loss_scales.push_back(result.loss_scale);
    const PhaseSeconds& p = result.phases;
    for (const double seconds : {p.data, p.forward, p.backward, p.communication, p.optimizer}) EXPECT_GE(seconds, 0);
    EXPECT_GT(p.forward, 0);
    EXPECT_GE(result.seconds, p.data + p.forward + p.backward);
  }
  for (const Parameter& p : trainer.parameters()) {
    const std::vector<float> values = values_of(device, p.master);
    outcome.masters.insert(outcome.masters.end(), values.begin(), values.end());
  }
  outcome.gradients = values_of(device, trainer.flat_gradients());
  outcome.held_out = trainer.evaluate(3).loss;
  return outcome;
}

Outcome one_by_one(Device& device, const TrainerConfig& config) {
  Trainer trainer(device, config);
  std::vector<StepResult> results;
  for (int i = 0; i < steps; ++i) results.push_back(trainer.step({}));
  return outcome_of(device, trainer, results);
}

Outcome ahead(Device& device, const TrainerConfig& config, int most = Trainer::most_ahead) {
  Trainer trainer(device, config);
  trainer.set_ahead(most);
  for (int i = 0; i < steps; ++i) trainer.enqueue_step({});
  return outcome_of(device, trainer, trainer.collect());
}

TrainerConfig config_of(const NetworkDescription& network, Precision precision, std::int64_t accumulate) {
  TrainerConfig config = micro_config(network, precision);
  config.accumulate = accumulate;
  config.optimizer.warmup_steps = 4;  // the rate rises, then falls
  config.optimizer.decay_steps = 8;
  return config;
}

// On the reference: the cpu device measures which way of a product is fastest, and two instances may choose apart.
TEST(StepsAhead, EqualStepsOneByOneBitwise) {
  for (const NetworkDescription& network : micro_families()) {
    if (network.shape->family() == "custom") continue;  // its operators are those of the others, and it takes seconds
    for (const Precision precision : all_precisions) {
      if (precision == Precision::fp8 && !why_no_fp8(network).empty()) continue;  // of linear layers
      for (const std::int64_t accumulate : {1, 3}) {
        const auto plain = reference_device();
        const TrainerConfig config = config_of(network, precision, accumulate);
        const Outcome want = one_by_one(*plain, config);
        EXPECT_NE(want.losses.front(), want.losses.back());
        for (const bool graphs : {false, true}) {
          for (const int most : {1, 2, 32}) {
            DeferredDevice device(reference_device(), graphs);
            EXPECT_TRUE(ahead(device, config, most) == want)
                << network.name << " " << to_string(precision) << " accumulate " << accumulate << " graphs " << graphs
                << " ahead " << most;
            // Where gradients of rows lie depends on the micro-batch (Trainer): of three, the steps go call by call.
            const bool can = accumulate <= 2 || network.shape->tables().rows.empty();
            EXPECT_EQ(device.recorded > 0, graphs && can);
          }
        }
      }
    }
  }
}

// In all ways at once: pieces of the gradients leave in the middle of backward, and layers run forward again in it.
TEST(StepsAhead, EqualStepsOneByOneWhereGraphsAreCutAndLayersRecomputed) {
  for (const Precision precision : all_precisions) {
    TrainerConfig config = config_of(micro_gpt2(), precision, 2);
    const Outcome want = one_by_one(*reference_device(), config);
    config.recomputed_layers = 1;
    for (const bool graphs : {false, true}) {
      DeferredDevice device(reference_device(), graphs);
      Trainer trainer(device, config);
      int pieces = 0;
      GradientSync sync;
      sync.piece_bytes = 4096;
      sync.ready = [&](Stream&, Tensor, GradientRange) { ++pieces; };
      for (int i = 0; i < steps; ++i) trainer.enqueue_step(sync);
      EXPECT_TRUE(outcome_of(device, trainer, trainer.collect()) == want)
          << to_string(precision) << " graphs " << graphs;
      EXPECT_GT(pieces, 2 * steps);
    }
  }
}

TEST(Graphs, AreRecordedOncePerKindOfMicroBatch) {
  // forward and backward of the first, a following and the last micro-batch; the update
  for (const auto& [accumulate, recorded] : {std::pair{1, 3}, std::pair{2, 5}, std::pair{3, 7}, std::pair{5, 7}}) {
    DeferredDevice device(reference_device());
    ahead(device, config_of(micro_gpt2(), Precision::float32, accumulate));
    EXPECT_EQ(device.recorded, recorded);
    EXPECT_EQ(device.launched, (steps - 1) * (2 * accumulate + 1)) << "the first step goes call by call";
  }
}

TEST(Graphs, AreNotUsedWhereTheyAreNotWantedOrOperatorsAreTimed) {
  DeferredDevice device(reference_device());
  TrainerConfig config = config_of(micro_gpt2(), Precision::float32, 1);
  config.graphs = false;
  ahead(device, config);
  EXPECT_EQ(device.recorded, 0);
  config.graphs = true;
  Trainer trainer(device, config);
  device.set_profiling(true);
  for (int i = 0; i < 3; ++i) trainer.step({});
  EXPECT_EQ(device.recorded, 0);
  EXPECT_EQ(device.profile().calls[static_cast<std::size_t>(Op::adamw)], 3);
}

// Gradients leave in the order of the buffer, a graph for each piece; with what they are replaced the update works.
TEST(Graphs, EndWhereAPieceOfTheGradientsLeaves) {
  const TrainerConfig config = config_of(micro_gpt2(), Precision::float32, 2);
  std::vector<Outcome> outcomes;
  for (const bool graphs : {false, true}) {
    DeferredDevice device(reference_device(), graphs);
    Trainer trainer(device, config);
    const auto side = device.create_stream();
    std::vector<std::unique_ptr<Event>> events;
    std::vector<GradientRange> ranges;
    GradientSync sync;
    sync.piece_bytes = 4000;
    const auto halve = [&](Stream& stream, Tensor piece) {  // beside backward, as a communicator would
      events.push_back(device.create_event());
      events.back()->record(stream);
      side->wait(*events.back());
      device.defer(*side, [piece](Stream&) {
        for (std::int64_t i = 0; i < piece.count(); ++i) piece.as<float>()[i] *= 0.5f;
      });
      events.push_back(device.create_event());
      events.back()->record(*side);
    };
    sync.ready = [&](Stream& stream, Tensor flat, GradientRange range) {
      ranges.push_back(range);
      halve(stream, flat.slice(range.begin, {range.end - range.begin}));
    };
    sync.finish = [&](Stream& stream, Tensor) { stream.wait(*events.back()); };
    for (int i = 0; i < steps; ++i) {
      ranges.clear();
      trainer.enqueue_step(sync);
      EXPECT_EQ(ranges.front().begin, 0);
      EXPECT_EQ(ranges.back().end, trainer.flat_gradients().count());
      for (std::size_t k = 1; k < ranges.size(); ++k) EXPECT_EQ(ranges[k].begin, ranges[k - 1].end);
      if (graphs && i > 0) {
        EXPECT_GT(ranges.size(), 2u);
        EXPECT_LT(ranges.size(), trainer.parameters().size());
        for (std::size_t k = 0; k + 1 < ranges.size(); ++k) EXPECT_GE((ranges[k].end - ranges[k].begin) * 4, 4000);
      }
    }
    outcomes.push_back(outcome_of(device, trainer, trainer.collect()));
  }
  EXPECT_TRUE(outcomes[0] == outcomes[1]);
}

// With samples of its own the device is never waited for, however many micro-batches there are. Devices make
// tokens, images and clicks; the host makes all others (BatchLoader).
TEST(Ring, NothingRunsBeforeTheResultsAreWanted) {
  for (const NetworkDescription& network : {micro_gpt2(), micro_llama(false), micro_resnet(), micro_dlrm()}) {
    const TrainerConfig config = config_of(network, Precision::float32, 3);
    const Outcome want = one_by_one(*reference_device(), config);
    for (const bool graphs : {false, true}) {
      DeferredDevice device(reference_device(), graphs);
      device.makes_samples = true;
      Trainer trainer(device, config);
      device.waits = 0;
      const long before = device.executed;
      for (int i = 0; i < steps; ++i) trainer.enqueue_step({});
      EXPECT_EQ(device.executed, before);
      EXPECT_EQ(device.waits, 0);
      EXPECT_TRUE(outcome_of(device, trainer, trainer.collect()) == want) << network.name << " graphs " << graphs;
    }
  }
}

TEST(Ring, WaitsForTheOldestAlone) {
  DeferredDevice device(reference_device(), false);
  Trainer trainer(device, config_of(micro_gpt2(), Precision::float32, 1));
  trainer.step({});
  long before = device.executed;
  trainer.step({});
  const long each = device.executed - before;
  trainer.set_ahead(3);
  before = device.executed;
  for (int i = 0; i < 6; ++i) trainer.enqueue_step({});
  EXPECT_LE(device.executed - before, 5 * each) << "the newest step was waited for";
  EXPECT_GE(device.executed - before, 3 * each) << "more than three steps are in flight";
  EXPECT_EQ(trainer.collect().size(), 6u);
  EXPECT_EQ(trainer.collect().size(), 0u);
  EXPECT_EQ(trainer.steps_done(), 8);
}

// Wherever a call fails while the step is recorded: the stream can be waited for, and nothing was updated.
TEST(StepAhead, ACallThatFailsInARecordLeavesTheStreamUsable) {
  int failed = 0;
  bool fails = true;
  for (long after = 0; fails; after += 5) {
    DeferredDevice device(reference_device());
    Trainer trainer(device, config_of(micro_gpt2(), Precision::float32, 2));
    trainer.step({});
    const double before = trainer.evaluate(0).loss;
    device.fails_recording_after = after;
    GradientSync sync;
    sync.piece_bytes = 4096;  // several graphs for backward
    sync.ready = [](Stream&, Tensor, GradientRange) {};
    try {
      trainer.enqueue_step(sync);
      fails = false;
      EXPECT_NE(trainer.evaluate(0).loss, before);
    } catch (const std::runtime_error& error) {
      ++failed;
      EXPECT_STREQ(error.what(), "a call that fails while it is recorded");
      EXPECT_EQ(trainer.evaluate(0).loss, before) << after;
    }
  }
  EXPECT_GT(failed, 10);
}

// A step whose gradients overflow changes nothing but the scale, replayed or not.
TEST(LossScale, StepsThatOverflowAreSkippedAndCounted) {
  const TrainerConfig config = config_of(micro_gpt2(), Precision::fp16, 2);
  std::vector<Outcome> outcomes;
  for (const bool graphs : {false, true}) {
    DeferredDevice device(reference_device(), graphs);
    Trainer trainer(device, config);
    int step = 0;
    GradientSync sync;
    sync.finish = [&](Stream& stream, Tensor flat) {  // the third and the seventh step
      const bool overflows = step == 2 || step == 6;
      if (overflows) device.fill(stream, {flat.slice(5, {1}), std::numeric_limits<float>::infinity()});
      ++step;
    };
    std::vector<std::vector<float>> masters;
    std::vector<StepResult> results;
    for (int i = 0; i < steps; ++i) {
      trainer.enqueue_step(sync);
      results.push_back(trainer.collect().front());
      masters.push_back(values_of(device, trainer.parameters().front().master));
    }
    EXPECT_EQ(results[1].loss_scale, 65536);
    EXPECT_EQ(results[2].loss_scale, 32768);
    EXPECT_EQ(results[6].loss_scale, 16384);
    EXPECT_EQ(results.back().loss_scale, 16384);
    EXPECT_EQ(results[5].skipped_steps, 1);
    EXPECT_EQ(results.back().skipped_steps, 2);
    EXPECT_EQ(masters[2], masters[1]);
    EXPECT_EQ(masters[6], masters[5]);
    EXPECT_NE(masters[3], masters[2]);
    EXPECT_FALSE(std::isfinite(results[2].gradient_norm));
    outcomes.push_back(outcome_of(device, trainer, results));
  }
  EXPECT_TRUE(outcomes[0] == outcomes[1]);
}

// Scaled by powers of two, which the update divides by: the step of float32, but for the rounding of what is stored.
TEST(LossScale, LeavesTheStepAsItIs) {
  const Outcome wide = one_by_one(*reference_device(), config_of(micro_gpt2(), Precision::float32, 2));
  const Outcome half = one_by_one(*reference_device(), config_of(micro_gpt2(), Precision::fp16, 2));
  for (std::size_t i = 0; i < wide.losses.size(); ++i) {
    EXPECT_NEAR(half.losses[i], wide.losses[i], 2e-3 * wide.losses[i]) << i;
    EXPECT_NEAR(half.norms[i], wide.norms[i], 2e-2 * wide.norms[i]) << i;
  }
  EXPECT_EQ(wide.loss_scales, std::vector<double>(steps, 1));
  EXPECT_EQ(half.loss_scales, std::vector<double>(steps, 65536));
}

}  // namespace
}  // namespace tw::test
