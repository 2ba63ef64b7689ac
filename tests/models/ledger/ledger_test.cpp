// The ledger of a step: its FLOPs are the model's, its bytes those that a person adds up.
#include "models/ledger/ledger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "models/catalog/described.hpp"
#include "models/families/gpt2/description.hpp"
#include "models/ledger/traffic.hpp"

namespace tw::test {

using namespace models;

namespace {

LedgerRow total(const std::vector<LedgerRow>& rows, std::initializer_list<Op> ops) {
  LedgerRow sum{};
  for (const LedgerRow& row : rows)
    if (std::ranges::find(ops, row.op) != ops.end())
      sum.calls += row.calls, sum.flops += row.flops, sum.read += row.read, sum.written += row.written;
  return sum;
}

TEST(Ledger, FlopsAreTheModels) {
  for (const NetworkDescription& network : catalog())
    for (const std::int64_t accumulate : {1, 3}) {
      const auto rows = ledger({network, Precision::bf16, 2, network.default_seq_len, accumulate});
      double flops = 0;
      for (const LedgerRow& row : rows) flops += row.flops;
      const double model =
          model_flops_per_sample(network, network.default_seq_len) * 2 * static_cast<double>(accumulate);
      EXPECT_NEAR(flops / model, 1, 1e-9) << network.name << " x " << accumulate;
    }
}

// A view of the input is no layer: the one behind it has no input gradient.
TEST(Ledger, FlopsAreTheModelsWhereAViewComesFirst) {
  const NetworkDescription network = described_network(
      "custom", R"({"name": "mlp", "input": {"kind": "images", "size": 8, "channels": 3, "classes": 4}, "layers": [
        {"layer": "flatten"}, {"layer": "linear", "channels": 32}, {"layer": "activation", "function": "relu"},
        {"layer": "linear", "channels": 16}, {"layer": "loss", "per": "sample"}]})");
  const auto rows = ledger({network, Precision::float32, 2, 0, 1});
  double flops = 0;
  for (const LedgerRow& row : rows) flops += row.flops;
  EXPECT_NEAR(flops / (2 * model_flops_per_sample(network, 0)), 1, 1e-9);
  EXPECT_EQ(total(rows, {Op::linear_backward_input}).calls, 1) << "of the second layer alone";
}

TEST(Ledger, TheOptimizerPassesOnceOverItsState) {
  const NetworkDescription network = find_network("gpt2-tiny");
  const auto parameters = static_cast<double>(count_parameters(network));
  for (const auto& [precision, read, written] : {std::tuple(Precision::float32, 16, 12), {Precision::bf16, 16, 14}}) {
    const LedgerRow adamw = total(ledger({network, precision, 2, 32, 4}), {Op::adamw});
    EXPECT_EQ(adamw.calls, 1);
    EXPECT_NEAR(adamw.read / (read * parameters), 1, 0.01);  // parameters are padded
    EXPECT_NEAR(adamw.written / (written * parameters), 1, 0.01);
  }
}

TEST(Ledger, AccumulationReadsGradientsFromItsSecondMicroBatchOn) {
  const NetworkDescription network = find_network("gpt2-tiny");
  const auto gradients = [&](std::int64_t accumulate) {
    return total(ledger({network, Precision::bf16, 2, 32, accumulate}), {Op::linear_backward_weights});
  };
  const LedgerRow one = gradients(1), two = gradients(2), three = gradients(3);
  EXPECT_EQ(one.calls, 2 * 4);
  EXPECT_EQ(three.calls, 3 * 2 * 4);
  EXPECT_EQ(two.written, 2 * one.written);
  EXPECT_EQ(two.read, 2 * one.read + one.written);  // once more what was written
  EXPECT_EQ(three.read - two.read, two.read - one.read);
}

TEST(Ledger, PlannedShapesAreThoseOfTheBlocks) {
  const PlannedShapes shapes = planned_shapes({find_network("gpt2-tiny"), Precision::fp8, 2, 32, 1});
  EXPECT_EQ(shapes.linear.size(), 4u);  // of all layers: qkv, attention's output, and the two of the MLP
  EXPECT_EQ(std::ranges::count(shapes.linear, Activation::gelu, &LinearShape::activation), 1);
  for (const LinearShape& shape : shapes.linear) {
    EXPECT_EQ(shape.rows, 64);
    EXPECT_EQ(shape.math, Math::fp8);
    EXPECT_EQ(shape.dtype, DType::bf16);
  }
  ASSERT_EQ(shapes.attention.size(), 1u);
  EXPECT_EQ(shapes.attention[0].packed().count(), 2 * 32 * shapes.linear[0].out_features);
  EXPECT_EQ(shapes.attention[0].math, Math::standard);
  ASSERT_EQ(shapes.classifier.size(), 1u);
  EXPECT_EQ(shapes.classifier[0].rows, 64);
  EXPECT_TRUE(shapes.convolution.empty());
  EXPECT_FALSE(planned_shapes({find_network("resnet-tiny"), Precision::tf32, 2, 0, 1}).convolution.empty());
}

// The bottlenecks add two gradients in 16 places. A batch norm takes over each of these sums but the first, which
// follows the max pool; and no batch norm without a residual reads what its ReLU wrote.
TEST(Ledger, BatchNormsOfAResidualNetworkTakeItsSumsAndMasksWithThem) {
  const auto rows = ledger({find_network("resnet-50"), Precision::bf16, 2, 0, 1});
  const double element = 2 * 2;  // bytes in two images
  const LedgerRow add = total(rows, {Op::add}), norms = total(rows, {Op::batch_norm_backward});
  EXPECT_EQ(add.calls, 1);
  EXPECT_EQ(add.read, 2 * element * 56 * 56 * 64);
  EXPECT_EQ(norms.calls, 53);
  double plain = 112 * 112 * 64, joined = 0;  // elements of an image behind norms without and with a residual
  double second = 0;                          // of gradients in two parts
  for (const auto& [blocks, size, width] : {std::tuple(3, 56, 64), {4, 28, 128}, {6, 14, 256}, {3, 7, 512}}) {
    const double pixels = size * size, narrow = pixels * width, out = 4 * narrow;
    plain += 2 * blocks * narrow + out;  // and the projection
    if (size < 56) plain += 3 * narrow;  // the first convolution runs before the stride
    joined += blocks * out;
    second += (size == 7 ? blocks - 1 : blocks) * out;  // all but the last one's
  }
  const double parameters = 26560 * 4;  // channels of the norms, float32
  EXPECT_EQ(norms.read, element * (4 * plain + 5 * joined + second) + 3 * parameters + (26560 - 3840 - 15104) * 4);
  EXPECT_EQ(norms.written, element * (plain + 2 * joined) + 2 * parameters);
}

// Of a layer's four inputs only attention's result is rounded by the linear layer that takes it.
TEST(Ledger, NormsAndGeluWriteWhatFp8Takes) {
  const NetworkDescription network = find_network("gpt2-tiny");
  const auto& d = network.as<Gpt2Description>();
  const double rows = 64, c = d.width, layers = d.layers, scale = 16, statistics = 2 * 4 * rows;
  const auto rows_of = [&](Precision precision) { return ledger({network, precision, 2, 32, 1}); };
  const auto fp8 = rows_of(Precision::fp8), bf16 = rows_of(Precision::bf16);
  const LedgerRow norms = total(fp8, {Op::layer_norm_forward});
  const double of_head = 2 * rows * c + statistics;  // which computes in bf16
  EXPECT_EQ(norms.read, total(bf16, {Op::layer_norm_forward}).read);
  EXPECT_EQ(norms.written, layers * 2 * (2 * rows * c + scale + statistics) + of_head);
  const LedgerRow linear = total(fp8, {Op::linear_forward});
  const double weights = 12 * c * c, biases = 2 * 9 * c, inputs = (1 + 1 + 1 + 4) * rows * c,
               residuals = 2 * 2 * rows * c;
  // And attention's in bf16, and what GELU takes.
  EXPECT_EQ(linear.read, layers * (weights + biases + inputs + residuals + 2 * rows * c + 2 * 4 * rows * c));
  const double results = 2 * (3 + 1 + 4 + 1) * rows * c;  // the third before GELU
  EXPECT_EQ(linear.written, layers * (results + 2 * rows * c + scale + 2 * 4 * rows * c + scale));
}

// Kernels that wait for each other have rows of their own, by which the step is the sum of their least times.
TEST(Ledger, WhatRunsInFrontOfOrBehindAProductHasItsOwnRow) {
  const NetworkDescription network = find_network("gpt2-tiny");
  const auto& d = network.as<Gpt2Description>();
  const double rows = 64, c = d.width, layers = d.layers, classes = d.vocabulary, scale = 16;
  const auto of = [](const std::vector<LedgerRow>& all, Op op, const std::string& kernel) {
    std::vector<LedgerRow> found;
    std::ranges::copy_if(all, std::back_inserter(found),
                         [&](const LedgerRow& row) { return row.op == op && row.kernel == kernel; });
    return total(found, {op});
  };
  const auto fp8 = ledger({network, Precision::fp8, 2, 32, 1}), bf16 = ledger({network, Precision::bf16, 2, 32, 1});
  const double outputs = (3 + 1 + 4 + 1) * rows * c, biases = 9 * c * 4;
  const LedgerRow dy = of(fp8, Op::linear_backward_weights, "round");
  EXPECT_EQ(dy.calls, 4 * layers);
  EXPECT_EQ(dy.flops, 0);
  EXPECT_EQ(dy.read, layers * 2 * outputs);
  EXPECT_EQ(dy.written, layers * (2 * outputs + 4 * scale + biases));
  const LedgerRow x = of(fp8, Op::linear_forward, "round");
  EXPECT_EQ(x.calls, layers) << "attention's result alone";
  EXPECT_EQ(x.read, layers * 2 * rows * c);
  EXPECT_EQ(x.written, layers * (2 * rows * c + scale));
  const LedgerRow gelu = of(fp8, Op::linear_forward, "gelu");
  EXPECT_EQ(gelu.calls, layers);
  EXPECT_EQ(gelu.read, layers * 2 * 4 * rows * c);
  EXPECT_EQ(gelu.written, layers * (2 * 4 * rows * c + scale));
  for (const Op op : {Op::linear_forward, Op::linear_backward_input, Op::linear_backward_weights}) {
    const LedgerRow product = of(fp8, op, "product");
    EXPECT_EQ(product.calls, 4 * layers);
    EXPECT_EQ(product.flops, layers * 2 * rows * 12 * c * c);
    EXPECT_EQ(product.bytes(), total(fp8, {op}).bytes() - of(fp8, op, "round").bytes() - of(fp8, op, "gelu").bytes());
    const LedgerRow whole = of(bf16, op, "product");
    EXPECT_EQ(whole.calls, 4 * layers);
    EXPECT_EQ(whole.bytes(), total(bf16, {op}).bytes()) << "GELU is an epilogue";
  }
  for (const auto& all : {fp8, bf16}) {
    const LedgerRow softmax = of(all, Op::classifier, "softmax"), product = of(all, Op::classifier, "product");
    EXPECT_EQ(softmax.read, 2 * rows * classes + 4 * rows);
    EXPECT_GE(softmax.written, 2 * rows * classes + 4);
    EXPECT_EQ(softmax.flops, 0);
    EXPECT_EQ(product.flops, 3 * 2 * rows * c * classes);
    EXPECT_EQ(total(all, {Op::classifier}).bytes(), softmax.bytes() + product.bytes());
  }
}

TEST(Ledger, BytesOfProductsByHand) {
  const auto tensor = [](DType dtype, Dims dims) { return Tensor{reinterpret_cast<void*>(256), dtype, dims}; };
  const Dims in{8, 32}, out{8, 64}, weight{64, 32};
  LinearShape shape{.rows = 8, .in_features = 32, .out_features = 64, .dtype = DType::bf16};
  LinearForward forward;
  forward.x = tensor(DType::bf16, in), forward.y = tensor(DType::bf16, out);
  Traffic bytes = total(kernels(shape, forward, tensor(DType::bf16, weight)));
  EXPECT_EQ(bytes.read, 2 * (8 * 32 + 64 * 32));
  EXPECT_EQ(bytes.written, 2 * 8 * 64);
  EXPECT_EQ(bytes.flops, 2 * 8 * 32 * 64);
  shape.math = Math::fp8;  // x: read in bf16, written twice and read once in one byte, with a scale of 16 bytes
  forward.x_for_weights = tensor(DType::byte, shape.x_for_weights());
  bytes = total(kernels(shape, forward, tensor(DType::bf16, weight)));
  EXPECT_EQ(bytes.read, 2 * 8 * 32 + 8 * 32 + 64 * 32);
  EXPECT_EQ(bytes.written, 2 * 8 * 64 + 2 * 8 * 32 + 16);
  LinearBackwardWeights weights;
  weights.x = forward.x_for_weights, weights.dy = tensor(DType::bf16, out);
  weights.d_weight = tensor(DType::float32, weight), weights.dy_for_input = tensor(DType::byte, shape.dy_for_input());
  bytes = total(kernels(shape, weights));  // dy likewise
  EXPECT_EQ(bytes.read, 8 * 32 + 16 + 2 * 8 * 64 + 8 * 64);
  EXPECT_EQ(bytes.written, 4 * 64 * 32 + 2 * 8 * 64 + 16);
  LinearBackwardInput input;
  input.dy = weights.dy_for_input, input.dx = tensor(DType::bf16, in);
  bytes = total(kernels(shape, input, tensor(DType::bf16, weight)));
  EXPECT_EQ(bytes.read, 8 * 64 + 16 + 64 * 32);
  EXPECT_EQ(bytes.written, 2 * 8 * 32);

  ClassifierShape head{.rows = 8, .in_features = 32, .classes = 100, .dtype = DType::bf16};
  ClassifierForwardBackward both;
  both.x = tensor(DType::bf16, in), both.targets = tensor(DType::int32, {8}), both.loss = tensor(DType::float32, {1});
  both.dx = tensor(DType::bf16, in), both.d_weight = tensor(DType::float32, {100, 32});
  bytes = total(kernels(head, both, tensor(DType::bf16, {100, 32})));
  EXPECT_EQ(bytes.read, 2 * 2 * (8 * 32 + 100 * 32) + 4 * 8 + 3 * 2 * 8 * 100);
  EXPECT_EQ(bytes.written, 4 + 2 * 2 * 8 * 100 + 2 * 8 * 32 + 4 * 100 * 32);
  EXPECT_EQ(bytes.flops, 3 * 2 * 8 * 32 * 100);
}

}  // namespace
}  // namespace tw::test
