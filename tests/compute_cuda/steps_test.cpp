// Whole training steps on the cuda device, call by call: they repeat bit by bit and follow the reference's. On a GPU,
// and without one on stand-ins for its libraries.
#include <gtest/gtest.h>

#include <cmath>

#include "models/compute/registry.hpp"
#include "tests/models/support.hpp"
#include "tests/support/require_gpu.hpp"

namespace tw::test {

using namespace models;

namespace {

/// Wide enough for the library's fused attention in 16 bits.
NetworkDescription llama_with_heads_of_8() {
  NetworkDescription network = micro_llama();
  LlamaDescription shape;
  shape.layers = 1;
  shape.width = 32;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.hidden = 48;
  shape.vocabulary = 19;
  shape.rope_original_seq = 8;
  shape.max_seq = 9;
  network.name = "llama-micro-heads-of-8";
  network.shape = family::llama::shape(shape);
  return network;
}

NetworkDescription bert_with_heads_of_8() {
  NetworkDescription network = micro_bert();
  BertDescription shape = network.as<BertDescription>();
  shape.layers = 1;
  shape.width = 32;
  shape.heads = 4;
  network.name = "bert-micro-heads-of-8";
  network.shape = family::bert::shape(shape);
  return network;
}

/// Nine classes more than a multiple of 8, and rows reserved up to 128.
NetworkDescription gpt2_of_121_tokens() {
  NetworkDescription network = micro_gpt2();
  Gpt2Description shape = network.as<Gpt2Description>();
  shape.vocabulary = 121;
  network.name = "gpt2-micro-121-tokens";
  network.shape = family::gpt2::shape(shape);
  return network;
}

class Steps : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (count_cuda_devices() == 0) TW_SKIP_WITHOUT_GPU("no CUDA device: " + why_no_cuda_device());
    DeviceOptions options;
    options.time_algorithms = false;  // the same ones for every trainer
    device_ = make_cuda_device(options);
  }
  /// Of a loss and a gradient's norm, relative: what a precision's significant bits (float32 24, tf32 and fp16 11, bf16
  /// 8, e5m2's gradients 3) make of these few small layers.
  double limit() const {
    switch (GetParam()) {
      case Precision::float32:
        return 1e-4;
      case Precision::tf32:
      case Precision::fp16:
        return 1e-2;
      case Precision::float32_bf16:
      case Precision::bf16:
        return 3e-2;
      case Precision::fp8:
        return 1e-1;
    }
    return 0;
  }
  /// Whether the device has it, and the network a use for it: fp8 is of linear layers.
  bool can(const NetworkDescription& network) const {
    return device_->why_unsupported(GetParam()).empty() &&
           (GetParam() != Precision::fp8 || why_no_fp8(network).empty());
  }

  std::unique_ptr<Device> device_;
};

TEST_P(Steps, RepeatAndFollowTheReference) {
  std::vector<NetworkDescription> networks = micro_networks();
  networks.insert(networks.end(),
                  {gpt2_of_121_tokens(), llama_with_heads_of_8(), bert_with_heads_of_8(), micro_custom_measured()});
  for (const NetworkDescription& network : networks) {
    SCOPED_TRACE(network.name);
    if (!can(network)) continue;
    if (GetParam() == Precision::fp8 && !rows_fit_fp8(network)) continue;
    // Batch norm over four values magnifies the rounding of products; their operators are compared in each precision.
    if (GetParam() != Precision::float32 && network.name == micro_inception().name) continue;
    TrainerConfig config = micro_config(network, GetParam());
    config.accumulate = 2;
    config.graphs = false;
    const auto oracle = reference_device();
    Trainer trainer(*device_, config), again(*device_, config), expected(*oracle, config);
    for (int step = 0; step < 3; ++step) {
      const StepResult got = trainer.step({}), repeated = again.step({}), want = expected.step({});
      EXPECT_EQ(got.loss, repeated.loss) << step;
      EXPECT_EQ(got.gradient_norm, repeated.gradient_norm) << step;
      EXPECT_NEAR(got.loss, want.loss, limit() * want.loss) << step;
      EXPECT_NEAR(got.gradient_norm, want.gradient_norm, limit() * want.gradient_norm) << step;
    }
    const EvaluationResult want = expected.evaluate(1), got = trainer.evaluate(1);
    EXPECT_NEAR(got.loss, want.loss, limit() * want.loss);
    EXPECT_EQ(got.predictions, want.predictions);
    if (GetParam() == Precision::float32) {
      EXPECT_EQ(got.correct, want.correct) << "of " << want.predictions;
    }
  }
}

TEST_P(Steps, RecomputedAreThoseWithKeptActivations) {
  for (const NetworkDescription& network : micro_families()) {
    SCOPED_TRACE(network.name);
    if (!can(network)) continue;
    if (GetParam() == Precision::fp8 && !rows_fit_fp8(network)) continue;
    TrainerConfig config = micro_config(network, GetParam());
    config.accumulate = 2;
    config.graphs = false;
    Trainer kept(*device_, config);
    config.recomputed_layers = 1;
    Trainer recomputed(*device_, config);
    for (int step = 0; step < 3; ++step) {
      const StepResult want = kept.step({}), got = recomputed.step({});
      EXPECT_EQ(got.loss, want.loss) << step;
      // In fp16 the first loss scale may be too large for a network.
      EXPECT_TRUE(got.gradient_norm == want.gradient_norm ||
                  (std::isnan(got.gradient_norm) && std::isnan(want.gradient_norm)))
          << step << ": " << got.gradient_norm << ", " << want.gradient_norm;
    }
  }
}

TEST_P(Steps, LeaveReservedRowsOfTheTokenTableZero) {
  const NetworkDescription network = gpt2_of_121_tokens();
  if (!can(network)) return;
  TrainerConfig config = micro_config(network, GetParam());
  config.accumulate = 2;
  Trainer trainer(*device_, config);
  for (int step = 0; step < 3; ++step) trainer.step({});
  int tables = 0;
  for (const Parameter& parameter : trainer.parameters()) {
    if (parameter.spec.name != "wte.weight") continue;
    ++tables;
    ASSERT_EQ(parameter.spec.reserved_rows, 128);
    const std::int64_t classes = parameter.spec.dims[0], width = parameter.spec.dims[1];
    for (const Tensor& tensor : {parameter.weight, parameter.master, parameter.gradient}) {
      for (const float value : values_of(*device_, tensor.slice(classes * width, {128 - classes, width})))
        ASSERT_EQ(value, 0);
      float sum = 0;
      for (const float value : values_of(*device_, tensor)) sum += std::abs(value);
      EXPECT_GT(sum, 0);
    }
  }
  EXPECT_EQ(tables, 1);
}

// By which ParameterStore makes the weights.
TEST_P(Steps, AreMadeByTheThreadsAskedFor) {
  EXPECT_EQ(device_->info().threads, 1);
  DeviceOptions options;
  options.threads = 3;
  EXPECT_EQ(make_cuda_device(options)->info().threads, 3);
}

// Those that matter most first, in case a limit of time ends the program.
INSTANTIATE_TEST_SUITE_P(Precisions, Steps,
                         testing::Values(Precision::fp8, Precision::bf16, Precision::fp16, Precision::tf32,
                                         Precision::float32),
                         [](const auto& one) { return std::string(to_string(one.param)); });

}  // namespace
}  // namespace tw::test
