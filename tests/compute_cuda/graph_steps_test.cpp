// Steps as CUDA's graphs are, bit by bit, the steps call by call. Only a GPU's own runtime records.
#include <gtest/gtest.h>

#include "models/compute/cuda/cuda_device.hpp"
#include "tests/models/support.hpp"
#include "tests/support/require_gpu.hpp"

namespace tw::test {
namespace {

struct Outcome {
  std::vector<double> losses, norms;
  std::vector<float> weights;
  double held_out = 0;
};

Outcome ten_steps(Device& device, const TrainerConfig& config) {
  Trainer trainer(device, config);
  Outcome outcome;
  for (int step = 0; step < 10; ++step) trainer.enqueue_step({});
  for (const StepResult& result : trainer.collect()) {
    outcome.losses.push_back(result.loss);
    outcome.norms.push_back(result.gradient_norm);
  }
  for (const Parameter& parameter : trainer.parameters()) {
    const std::vector<float> values = values_of(device, parameter.master);
    outcome.weights.insert(outcome.weights.end(), values.begin(), values.end());
  }
  outcome.held_out = trainer.evaluate(1).loss;
  return outcome;
}

TEST(GraphSteps, AreTheStepsCallByCall) {
  if (count_cuda_devices() == 0) TW_SKIP_WITHOUT_GPU("no CUDA device: " + why_no_cuda_device());
  DeviceOptions options;
  options.time_algorithms = false;  // the same ones for every trainer
  const auto device = make_cuda_device(options);
  for (const NetworkDescription& network : {micro_gpt2(), micro_resnet(true)}) {
    for (const Precision precision : {Precision::float32, Precision::bf16}) {
      SCOPED_TRACE(network.name + " " + std::string(to_string(precision)));
      TrainerConfig config = micro_config(network, precision);
      config.accumulate = 2;
      config.graphs = false;
      const Outcome eager = ten_steps(*device, config);
      config.graphs = true;
      const Outcome graphs = ten_steps(*device, config);
      EXPECT_EQ(eager.losses.size(), 10u);
      EXPECT_EQ(eager.losses, graphs.losses);
      EXPECT_EQ(eager.norms, graphs.norms);
      EXPECT_EQ(eager.weights, graphs.weights);
      EXPECT_EQ(eager.held_out, graphs.held_out);
      EXPECT_NE(eager.losses.front(), eager.losses.back());
    }
  }
}

}  // namespace
}  // namespace tw::test
