// Ten steps of a network on the cuda device, through graphs or call by call, and that they are the same bit by bit. Of
// the tests on a GPU and of those on stand-ins.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/models/support.hpp"

namespace tw::test {

struct Outcome {
  std::vector<double> losses, norms, scales;
  std::vector<float> weights;
  double held_out = 0;
};

/// What a step does beside its network: pieces of the gradients leave in the middle of backward, where graphs are cut;
/// or one gradient overflows, so that the step is skipped and the loss scale changes.
enum class Beside { nothing, pieces, overflow };

/// What ten steps are made of.
struct GraphCase {
  models::Precision precision;
  int recomputed_layers;
  Beside beside;
};
inline std::string name_of(const GraphCase& c) {
  return std::string(models::to_string(c.precision)) + (c.recomputed_layers > 0 ? "_recomputed" : "") +
         (c.beside == Beside::pieces     ? "_cut"
          : c.beside == Beside::overflow ? "_overflow"
                                         : "");
}

/// Two micro-batches a step; the learning rate is another one in each.
inline models::TrainerConfig ten_steps_config(const models::NetworkDescription& network, const GraphCase& one) {
  models::TrainerConfig config = micro_config(network, one.precision);
  config.accumulate = 2;
  config.recomputed_layers = one.recomputed_layers;
  config.optimizer.warmup_steps = 4;
  config.optimizer.decay_steps = 12;
  return config;
}

inline Outcome ten_steps(models::Device& device, const models::TrainerConfig& config, Beside beside) {
  models::Trainer trainer(device, config);
  models::GradientSync sync;
  int step = 0;
  if (beside == Beside::pieces) {
    sync.piece_bytes = 1024;
    sync.ready = [](models::Stream&, models::Tensor, models::GradientRange) {};
  }
  if (beside == Beside::overflow)
    sync.finish = [&](models::Stream& stream, models::Tensor flat) {
      // Of a parameter: what is behind one as padding would stay so for ever.
      if (step == 2 || step == 6) device.fill(stream, {flat.slice(0, {1}), std::numeric_limits<float>::infinity()});
      ++step;
    };
  Outcome outcome;
  for (int i = 0; i < 10; ++i) trainer.enqueue_step(sync);
  for (const models::StepResult& result : trainer.collect()) {
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(std::isfinite(result.gradient_norm) ? result.gradient_norm : -1);
    outcome.scales.push_back(result.loss_scale);
  }
  for (const models::Parameter& parameter : trainer.parameters()) {
    const std::vector<float> values = values_of(device, parameter.master);
    outcome.weights.insert(outcome.weights.end(), values.begin(), values.end());
  }
  outcome.held_out = trainer.evaluate(1).loss;
  return outcome;
}

inline void expect_equal(const Outcome& eager, const Outcome& graphs, Beside beside) {
  EXPECT_EQ(eager.losses.size(), 10u);
  EXPECT_EQ(eager.losses, graphs.losses);
  EXPECT_EQ(eager.norms, graphs.norms);
  EXPECT_EQ(eager.scales, graphs.scales);
  EXPECT_EQ(eager.weights, graphs.weights);
  EXPECT_EQ(eager.held_out, graphs.held_out);
  for (const double loss : eager.losses) EXPECT_TRUE(std::isfinite(loss)) << loss;
  EXPECT_NE(eager.losses.front(), eager.losses.back());
  EXPECT_GT(std::ranges::count_if(eager.norms, [](double norm) { return norm > 0; }), 1)
      << "steps that changed weights";
  if (beside == Beside::overflow) {
    EXPECT_LE(eager.scales.back() * 4, eager.scales.front())
        << "two steps were skipped, beside those that the first loss scale is too large for";
    for (const std::size_t step : {2u, 6u}) EXPECT_EQ(eager.norms[step], -1) << "not finite";
  }
}

}  // namespace tw::test
