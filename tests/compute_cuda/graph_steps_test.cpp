// Steps as CUDA's graphs are, bit by bit, the steps call by call. Only a GPU's own runtime records.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "models/compute/registry.hpp"
#include "tests/models/support.hpp"
#include "tests/support/require_gpu.hpp"

namespace tw::test {

using namespace models;

namespace {

struct Outcome {
  std::vector<double> losses, norms, scales;
  std::vector<float> weights;
  double held_out = 0;
};

/// What a step does beside its network: pieces of the gradients leave in the middle of backward, where graphs are cut; or one
/// gradient overflows, so that the step is skipped and the loss scale changes.
enum class Beside { nothing, pieces, overflow };

Outcome ten_steps(Device& device, const TrainerConfig& config, Beside beside) {
  Trainer trainer(device, config);
  GradientSync sync;
  int step = 0;
  if (beside == Beside::pieces) {
    sync.piece_bytes = 4096;
    sync.ready = [](Stream&, Tensor, GradientRange) {};
  }
  if (beside == Beside::overflow)
    sync.finish = [&](Stream& stream, Tensor flat) {
      if (step == 2 || step == 6) device.fill(stream, {flat.slice(5, {1}), std::numeric_limits<float>::infinity()});
      ++step;
    };
  Outcome outcome;
  for (int i = 0; i < 10; ++i) trainer.enqueue_step(sync);
  for (const StepResult& result : trainer.collect()) {
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(std::isfinite(result.gradient_norm) ? result.gradient_norm : -1);
    outcome.scales.push_back(result.loss_scale);
  }
  for (const Parameter& parameter : trainer.parameters()) {
    const std::vector<float> values = values_of(device, parameter.master);
    outcome.weights.insert(outcome.weights.end(), values.begin(), values.end());
  }
  outcome.held_out = trainer.evaluate(1).loss;
  return outcome;
}

struct Case {
  Precision precision;
  int recomputed_layers;
  Beside beside;
};

class GraphSteps : public testing::TestWithParam<Case> {};

TEST_P(GraphSteps, AreTheStepsCallByCall) {
  if (count_cuda_devices() == 0) TW_SKIP_WITHOUT_GPU("no CUDA device: " + why_no_cuda_device());
  DeviceOptions options;
  options.time_algorithms = false;  // the same ones for every trainer
  const auto device = make_cuda_device(options);
  const auto& [precision, recomputed_layers, beside] = GetParam();
  if (const std::string why = device->why_unsupported(precision); !why.empty()) GTEST_SKIP() << why;
  for (const NetworkDescription& network :
       {micro_gpt2(), micro_llama(), micro_llama(false), micro_bert(), micro_resnet(true), micro_inception()}) {
    if (precision == Precision::fp8 && !why_no_fp8(network).empty()) continue;  // of linear layers
    SCOPED_TRACE(network.name);
    TrainerConfig config = micro_config(network, precision);
    config.accumulate = 2;
    config.recomputed_layers = recomputed_layers;
    config.graphs = false;
    const Outcome eager = ten_steps(*device, config, beside);
    config.graphs = true;
    const Outcome graphs = ten_steps(*device, config, beside);
    EXPECT_EQ(eager.losses.size(), 10u);
    EXPECT_EQ(eager.losses, graphs.losses);
    EXPECT_EQ(eager.norms, graphs.norms);
    EXPECT_EQ(eager.scales, graphs.scales);
    EXPECT_EQ(eager.weights, graphs.weights);
    EXPECT_EQ(eager.held_out, graphs.held_out);
    EXPECT_NE(eager.losses.front(), eager.losses.back());
    if (beside == Beside::overflow) {
      EXPECT_EQ(eager.scales.back() * 4, eager.scales.front()) << "two steps were skipped";
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Precision precision :
       {Precision::float32, Precision::tf32, Precision::bf16, Precision::fp16, Precision::fp8})
    for (const int layers : {0, 1})
      for (const Beside beside : {Beside::nothing, Beside::pieces}) all.push_back({precision, layers, beside});
  all.push_back({Precision::fp16, 0, Beside::overflow});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, GraphSteps, testing::ValuesIn(cases()), [](const auto& one) {
  const Case& c = one.param;
  return std::string(to_string(c.precision)) + (c.recomputed_layers > 0 ? "_recomputed" : "") +
         (c.beside == Beside::pieces ? "_cut" : c.beside == Beside::overflow ? "_overflow" : "");
});

}  // namespace
}  // namespace tw::test
