// What the cuda device asks of cuDNN, on a stand-in that runs graphs on the host. That the numbers are right is what
// the tests of all devices say, which this program runs too.
#include <algorithm>
#include <set>

#include "tests/compute_cuda/dnn/dnn_plans.hpp"
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST_F(DnnPlans, TheLibraryIsNamed) {
  const std::vector<std::string> libraries = device_->info().libraries;
  EXPECT_EQ(std::count(libraries.begin(), libraries.end(), "cuDNN 9.19.0"), 1);
}

TEST_F(DnnPlans, EnginesThatRoundOrVaryAreNotTaken) {
  const std::string half = device_->plan(wide)->description();
  EXPECT_FALSE(has(half, "engine 3")) << half;  // not deterministic
  EXPECT_FALSE(has(half, "engine 4")) << half;  // rounds its inputs
  ConvolutionShape s = wide;
  s.dtype = DType::float32;
  const std::string full = device_->plan(s)->description();
  EXPECT_FALSE(has(full, "tensor cores")) << full;
  EXPECT_TRUE(has(full, "engine 6")) << full;
  cudnn::state().proposals = {{5, {0}}};
  EXPECT_TRUE(has(refusal(ConvolutionShape{1, 4, 4, 8, 8, 1, 1, 0}), "engine 5 rounds float32 for tensor cores"));
  s.math = Math::tf32;
  EXPECT_TRUE(has(device_->plan(s)->description(), "engine 5, tensor cores"));
}

TEST_F(DnnPlans, AnEngineThatFailsLeavesTheNext) {
  cudnn::state().proposals = {{7, {0}, true, 3002}, {8, {0}, false, 0, std::int64_t{1} << 40}, {9, {0}, true}};
  const std::string description = device_->plan(wide)->description();
  EXPECT_TRUE(has(description, "forward engine 9, tensor cores, compiled at run time")) << description;
  cudnn::state().proposals.pop_back();
  open();
  const std::string text = refusal(wide);
  EXPECT_TRUE(has(text, "engine 7 fails: ")) << text;
  EXPECT_TRUE(has(text, "made-up refusal")) << text;
  EXPECT_TRUE(has(text, "engine 8 wants 1099511627776 bytes of workspace")) << text;
}

TEST_F(DnnPlans, GradientsOfWeightsAreNeverRoundedTo16Bits) {
  ConvolutionShape s = wide;
  EXPECT_TRUE(has(device_->plan(s)->description(), "added in float32"));
  s.in_channels = 3;
  EXPECT_TRUE(has(device_->plan(s)->description(), "padded to 8 channels, added in float32"));
  s.in_channels = 12;
  EXPECT_TRUE(has(device_->plan(s)->description(), "widened to float32"));
  s.in_channels = 6, s.groups = 2;
  EXPECT_TRUE(has(device_->plan(s)->description(), "widened to float32"));
  s.groups = 1;
  s.dtype = DType::float32;
  EXPECT_FALSE(has(device_->plan(s)->description(), "float32"));
}

TEST_F(DnnPlans, OneShapeIsMeasuredOnce) {
  const auto first = device_->plan(wide);
  const int questions = cudnn::state().questions;
  const std::size_t runs = cudnn::state().runs.size();
  EXPECT_GT(runs, 0u);
  const auto second = device_->plan(wide);
  EXPECT_EQ(cudnn::state().questions, questions);
  EXPECT_EQ(cudnn::state().runs.size(), runs);
  EXPECT_EQ(first->description(), second->description());
  ConvolutionShape other = wide;
  other.stride = 2;
  device_->plan(other);
  EXPECT_GT(cudnn::state().questions, questions);
}

TEST_F(DnnPlans, OneShapeIsRefusedOnce) {
  cudnn::state().proposals = {{7, {0}, true, 3002}};
  const std::string text = refusal(wide);
  EXPECT_TRUE(has(text, "engine 7 fails: ")) << text;
  const int questions = cudnn::state().questions;
  EXPECT_EQ(refusal(wide), text);
  EXPECT_EQ(cudnn::state().questions, questions);
}

// To compile takes seconds, so a second engine of that kind is for gradients of weights, and only where they take long.
TEST_F(DnnPlans, OfEnginesThatAreCompiledFewAreMeasured) {
  simt::gpu().clock_ms = 0;
  cudnn::state().proposals = {{7, {0}, true, 3002}, {8, {0}, true}, {9, {0}, true}, {11, {0}, true}, {10, {0}}};
  using Engines = std::set<std::int64_t>;
  const auto measured = [&](double milliseconds) {
    for (cudnn::Proposal& proposal : cudnn::state().proposals) proposal.milliseconds = milliseconds;
    cudnn::state().runs.clear();
    open();
    device_->plan(wide);
    Engines weights, others;
    for (const cudnn::Run& run : cudnn::state().runs) (run.operations == 2 ? weights : others).insert(run.engine);
    EXPECT_EQ(others, (Engines{8, 10})) << "7 fails, which leaves the next";
    return weights;
  };
  EXPECT_EQ(measured(0.04), (Engines{8, 10}));
  EXPECT_EQ(measured(0.06), (Engines{8, 9, 10}));
  cudnn::state().proposals.back().milliseconds = 1;
  cudnn::state().proposals[2].milliseconds = 0.05;
  open();
  const std::string text = device_->plan(wide)->description();
  EXPECT_TRUE(has(text, "backward weights engine 9, tensor cores, compiled at run time, proposal 3, added")) << text;
}

TEST_F(DnnPlans, ConfigurationsOfOneEngineHaveTheirPlaceInTheRecord) {
  simt::gpu().clock_ms = 0;
  cudnn::state().proposals = {{8, {0}}, {8, {0}}};
  const auto taken = [&](double first) {
    cudnn::state().proposals[0].milliseconds = first;
    cudnn::state().proposals[1].milliseconds = 1;
    open();
    return device_->plan(wide)->description();
  };
  std::string text;
  EXPECT_TRUE(has(text = taken(2), "forward engine 8, tensor cores, proposal 2;")) << text;
  EXPECT_TRUE(has(text = taken(1), "forward engine 8, tensor cores;")) << text;
}

TEST_F(DnnPlans, TheFirstEngineIsTakenUnlessAnotherIsFasterByMoreThanNoise) {
  simt::gpu().clock_ms = 0;
  const auto taken = [&](double second, double third) {
    cudnn::state().proposals = {{12, {0}}, {11, {0}}, {10, {0}}};
    cudnn::state().proposals[0].milliseconds = 1;
    cudnn::state().proposals[1].milliseconds = second;
    cudnn::state().proposals[2].milliseconds = third;
    open();
    return device_->plan(wide)->description();
  };
  std::string text;
  EXPECT_TRUE(has(text = taken(0.99, 0.985), "forward engine 12")) << text << ": within 2 %";
  EXPECT_TRUE(has(text = taken(0.97, 0.99), "forward engine 11")) << text;
  EXPECT_TRUE(has(text = taken(0.97, 0.95), "forward engine 10")) << text;
}

TEST_F(DnnPlans, UntimedTheFirstIsTaken) {
  device_ = make_cuda_device({.time_algorithms = false});
  cudnn::state().proposals = {{12, {0}}, {11, {0}}, {10, {0}}};
  EXPECT_TRUE(has(device_->plan(wide)->description(), "forward engine 12"));
  EXPECT_TRUE(has(device_->plan(fused)->description(), "forward engine 12"));
  EXPECT_TRUE(cudnn::state().runs.empty());
}

TEST_F(DnnPlans, MeasuringLeavesNoMemoryBehind) {
  device_->plan(wide);
  EXPECT_EQ(device_->allocated_bytes(), device_->arena_bytes());
  EXPECT_EQ(device_->peak_allocated_bytes(), device_->arena_bytes()) << "nor does it count";
}

TEST_F(DnnPlans, WithoutMemoryToMeasureTheFirstIsTaken) {
  simt::gpu().memory_bytes = std::size_t{2} << 20;
  ConvolutionShape s = {64, 32, 32, 16, 16, 1, 1, 0, DType::bf16};  // 2 MiB in, 2 MiB out
  s.batch = 72;
  cudnn::state().proposals = {{12, {0}}, {11, {0}}, {10, {0}}};
  const std::string description = device_->plan(s)->description();
  EXPECT_TRUE(has(description, "forward engine 12")) << description;
  EXPECT_TRUE(cudnn::state().runs.empty());
}

TEST_F(DnnPlans, ThePassesAloneAreThoseOfThePlan) {
  const auto stream = device_->create_stream();
  const Dims x{2, 6, 5, 16}, w{8, 3, 3, 16}, y{2, 6, 5, 8};
  const Buffer xs(*device_, 2 * 6 * 5 * 16 * 2), ws(*device_, 8 * 9 * 16 * 4), ys(*device_, 2 * 6 * 5 * 8 * 2);
  device_->fill(*stream, {{xs.data(), wide.dtype, x}, 0.5f});
  device_->fill(*stream, {{ws.data(), wide.dtype, w}, 2.0f});
  for (const Op pass : {Op::convolution_forward, Op::convolution_backward_input, Op::convolution_backward_weights}) {
    const std::vector<LibraryProduct> products = device_->library_products(wide, pass);
    ASSERT_EQ(products.size(), 1u);
    EXPECT_EQ(products[0].bytes[0], xs.bytes());
    EXPECT_EQ(products[0].bytes[1], pass == Op::convolution_backward_weights ? ws.bytes() : ws.bytes() / 2);
    EXPECT_EQ(products[0].bytes[2], ys.bytes());
    EXPECT_TRUE(has(products[0].implementation, "cuDNN: forward engine"));
    products[0].run(*stream, xs.data(), ws.data(), ys.data());
  }
  // In the middle of the image 9 · 16 products of 0.5 · 2 make y; y's gradient, which is y, makes the others from it.
  EXPECT_EQ(to_float(static_cast<const bf16*>(ys.data())[(1 * 5 + 1) * 8]), 144.0f);
  EXPECT_EQ(to_float(static_cast<const bf16*>(xs.data())[(2 * 5 + 2) * 16]), 9 * 8 * 2 * 144.0f);
  EXPECT_GT(static_cast<const float*>(ws.data())[0], 0.0f);
}

TEST_F(DnnPlans, TheStreamIsTheCallers) {
  const auto stream = device_->create_stream();
  const auto plan = device_->plan(fused);
  const Buffer qkv(*device_, 9 * 2 * 3 * 2 * 16 * 2), out(*device_, 9 * 2 * 2 * 16 * 2), sums(*device_, 2 * 2 * 9 * 4);
  device_->fill(*stream, {{qkv.data(), fused.dtype, fused.packed()}, 0.5f});
  plan->forward(*stream, {.qkv = {qkv.data(), fused.dtype, fused.packed()},
                          .out = {out.data(), fused.dtype, fused.unpacked()},
                          .log_sum_exp = {sums.data(), DType::float32, fused.row_values()}});
  EXPECT_EQ(cudnn::state().runs.back().stream, stream->native());
  EXPECT_EQ(cudnn::state().runs.back().operations, 14u);
}

TEST_F(DnnPlans, WhatWantsTooMuchIsNotCompiled) {
  cudnn::state().proposals = {{7, {0}, true, 3002, std::int64_t{1} << 40}, {8, {0}, true}};
  const std::string description = device_->plan(wide)->description();
  EXPECT_TRUE(has(description, "forward engine 8")) << description;
  cudnn::state().proposals.pop_back();
  open();
  const std::string text = refusal(wide);
  EXPECT_TRUE(has(text, "engine 7 wants 1099511627776 bytes of workspace")) << text;
  EXPECT_FALSE(has(text, "engine 7 fails")) << text;
}

TEST_F(DnnPlans, WithoutAHandleThereIsAReason) {
  cudnn::state().create_status = 1001;
  EXPECT_TRUE(has(refusal(wide), "cudnnCreate"));
  EXPECT_TRUE(has(device_->plan(fused)->description(), "cudnnCreate"));
}

TEST_F(DnnPlans, EnginesThatAddInAnyOrderAreForDevicesThatMay) {
  cudnn::state().proposals = {{3, {0, 4}}};  // one engine, and it is not deterministic
  EXPECT_TRUE(has(refusal(wide), "is not deterministic")) << refusal(wide);
  EXPECT_FALSE(has(device_->plan(fused)->description(), "cuDNN, fused"));
  open(false);
  EXPECT_TRUE(has(device_->plan(wide)->description(), "engine 3"));
  EXPECT_TRUE(has(device_->plan(fused)->description(), "cuDNN, fused"));
}

}  // namespace
}  // namespace tw::test
