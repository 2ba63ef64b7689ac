// Linear layers in fp8 on stand-ins: how often each operand is rounded, by whom, and what is refused.
#include <gtest/gtest.h>

#include "models/compute/error.hpp"
#include "models/compute/fp8.hpp"
#include "tests/compute_cuda/simt/cuda_plans.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/simt/simt.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST_F(CudaPlans, InFp8EachOperandIsRoundedOnce) {
  LinearShape shape{16, 32, 48, DType::bf16};
  shape.math = Math::fp8;
  const auto plan = device_->plan(shape);
  plan->bind(tensor(DType::bf16, {48, 32}));
  plan->refresh(*stream_);
  const Tensor x = tensor(DType::bf16, {16, 32}), y = tensor(DType::bf16, {16, 48}), dx = tensor(DType::bf16, {16, 32});
  const Tensor d_weight = tensor(DType::float32, {48, 32});
  const Tensor left_x = left(shape.x_for_weights()), left_dy = left(shape.dy_for_input());
  const auto work = [&](auto&& call) {
    const long before = simt::gpu().work_done;
    call();
    stream_->synchronize();
    return simt::gpu().work_done - before;
  };
  for (const bool is_first : {true, false}) {
    const long rounding = is_first ? 3 : 2;  // the greatest value of a first tensor, the scale, both layouts
    EXPECT_EQ(work([&] { plan->forward(*stream_, {.x = x, .y = y, .x_for_weights = left_x}); }), rounding + 1);
    EXPECT_EQ(work([&] {
                plan->backward_weights(*stream_, {.x = left_x, .dy = y, .d_weight = d_weight, .dy_for_input = left_dy});
              }),
              rounding + 1);
    EXPECT_EQ(work([&] { plan->backward_input(*stream_, {.dy = left_dy, .dx = dx}); }), 1);
  }
  // The gradient of the bias: what reads dy sums its columns too, in tiles of rows.
  const Tensor d_bias = tensor(DType::float32, {48});
  simt::count_touched();
  plan->backward_weights(*stream_, {left_x, y, d_weight, d_bias, false, left_dy});
  stream_->synchronize();
  const double once = y.bytes() + d_bias.bytes();
  EXPECT_EQ(static_cast<double>(simt::take_touched().read), once) << "dy, and the sums of its one tile";
}

// A norm and a GELU that round for the layers behind them, against layers that round by themselves: the same bits, and
// fewer kernels. The first step has no scale to round by.
TEST_F(CudaPlans, InFp8TheOperatorInFrontRounds) {
  const std::int64_t rows = 48, in = 32, wide = 64;
  const LinearShape up{rows, in, wide, DType::bf16, Activation::gelu, Math::fp8},
      down{rows, wide, in, DType::bf16, Activation::none, Math::fp8};
  std::vector<long> work;
  const auto run = [&](bool ahead) {
    work.clear();
    return run_on(*device_, [&](Lab& lab) {
      Stream& on = *lab.stream;
      const auto first = lab.device.plan(up), second = lab.device.plan(down);
      first->bind(lab.in(DType::bf16, {wide, in}, normal(wide * in, 1, 0.2)));
      second->bind(lab.in(DType::bf16, {in, wide}, normal(wide * in, 2, 0.2)));
      for (const auto& plan : {first.get(), second.get()}) plan->refresh(on);
      const Tensor gamma = lab.in(DType::bf16, {in}, normal(in, 3)), beta = lab.in(DType::bf16, {in}, normal(in, 4)),
                   bias = lab.in(DType::bf16, {wide}, normal(wide, 5)),
                   dy = lab.in(DType::bf16, {rows, wide}, normal(rows * wide, 6));
      for (const std::uint64_t step : {0, 1, 2}) {
        const Tensor x = lab.in(DType::bf16, {rows, in}, normal(rows * in, 10 + step)),
                     left_x = lab.left(up.x_for_weights()), left_gelu = lab.left(down.x_for_weights()),
                     memory_x = lab.left({rows * in}), memory_gelu = lab.left({rows * wide}),
                     pre = lab.out("pre", DType::bf16, {rows, wide}), y = lab.out("y", DType::bf16, {rows, in}),
                     mean = lab.out("mean", DType::float32, {rows}), rstd = lab.out("rstd", DType::float32, {rows}),
                     norm{lab.left({rows * in * 2}).data, DType::bf16, {rows, in}},
                     gelu{lab.left({rows * wide * 2}).data, DType::bf16, {rows, wide}};
        on.synchronize();
        const long before = simt::gpu().work_done;
        const bool follows = step < 2;  // then a forward that is recomputed
        const RoundedInput n = ahead ? first->round_ahead(on, memory_x, left_x, follows) : RoundedInput{};
        EXPECT_EQ(static_cast<bool>(n), ahead && step > 0);
        lab.device.layer_norm_forward(on, {x, {}, {}, gamma, beta, 1e-5f, n ? Tensor{} : norm, mean, rstd, n});
        const RoundedInput g = ahead ? second->round_ahead(on, memory_gelu, left_gelu, follows) : RoundedInput{};
        EXPECT_EQ(static_cast<bool>(g), ahead && step > 0);
        first->forward(on,
                       {n ? Tensor{} : norm, bias, {}, pre, g ? Tensor{} : gelu, follows, n ? Tensor{} : left_x, n, g});
        second->forward(on, {g ? Tensor{} : gelu, {}, {}, {}, y, follows, g ? Tensor{} : left_gelu, g});
        on.synchronize();
        work.push_back(simt::gpu().work_done - before);
        first->backward_weights(on, {.x = left_x, .dy = dy, .d_weight = lab.out("d_up", DType::float32, {wide, in})});
        second->backward_weights(on,
                                 {.x = left_gelu, .dy = x, .d_weight = lab.out("d_down", DType::float32, {in, wide})});
      }
      const auto says = [&](const LinearPlan& plan, const char* words) {
        EXPECT_EQ(plan.description().find(words) != std::string::npos, ahead) << plan.description();
      };
      says(*first, "input rounded by the operator in front");
      says(*first, "own GELU, which rounds for the next layer");
      says(*second, "input rounded by the operator in front");
      if (!ahead) return;
      const RoundedInput of_first = first->round_ahead(on, lab.left({rows * in}), {}, false);
      RoundedInput mixed = second->round_ahead(on, lab.left({rows * wide}), {}, false);
      mixed.scale = of_first.scale;
      const Tensor y{lab.left({rows * in * 2}).data, DType::bf16, {rows, in}};
      EXPECT_THROW(second->forward(on, {{}, {}, {}, {}, y, false, {}, mixed}), Error);
    });
  };
  const std::vector<Output> behind = run(false);
  const std::vector<long> slow = work;
  const std::vector<Output> ahead = run(true);
  ASSERT_EQ(behind.size(), ahead.size());
  for (std::size_t i = 0; i < behind.size(); ++i) EXPECT_TRUE(behind[i].bytes == ahead[i].bytes) << i;
  // The norm, scales, roundings and products of both layers, and GELU; first also the greatest values.
  EXPECT_EQ(slow, (std::vector<long>{10, 8, 6}));
  EXPECT_EQ(work, (std::vector<long>{10, 6, 4}));
}

// What a layer does for its input in front of the operator that makes it is the layer's time, but no call of it.
TEST_F(CudaPlans, InFp8RoundingAheadIsNoCallOfItsOwn) {
  const LinearShape shape{16, 32, 48, DType::bf16, Activation::none, Math::fp8};
  const auto plan = device_->plan(shape);
  plan->bind(tensor(DType::bf16, {48, 32}));
  plan->refresh(*stream_);
  const Tensor x = tensor(DType::bf16, {16, 32}), y = tensor(DType::bf16, {16, 48}), memory = left({16 * 32});
  plan->forward(*stream_, {.x = x, .y = y});  // has a scale from here on
  stream_->synchronize();
  simt::gpu().clock_ms = 0;
  simt::gpu().work_ms = 1;
  device_->set_profiling(true);
  const long before = simt::gpu().work_done;
  EXPECT_TRUE(plan->round_ahead(*stream_, memory, {}, true));
  EXPECT_EQ(simt::gpu().work_done - before, 1) << "the next scale";
  plan->forward(*stream_, {.x = x, .y = y, .follows = false});
  device_->set_profiling(false);
  const auto slot = static_cast<std::size_t>(Op::linear_forward);
  EXPECT_EQ(device_->profile().calls[slot], 1);
  EXPECT_NEAR(device_->profile().seconds[slot], 1e-3 * static_cast<double>(simt::gpu().work_done - before), 1e-9);
}

TEST_F(CudaPlans, RoundedInputsOfOthersAreRefused) {
  const auto refused = [](Device& device, Math math, const char* why) {
    Lab lab(device);
    const LinearShape shape{16, 16, 16, DType::bf16, Activation::none, math};
    const auto plan = device.plan(shape);
    plan->bind(lab.in(DType::bf16, {16, 16}, normal(256, 1)));
    plan->refresh(*lab.stream);
    const Tensor memory = lab.left({256}), y = lab.out("y", DType::bf16, {16, 16});
    EXPECT_FALSE(plan->round_ahead(*lab.stream, memory, {}, true)) << "no scale yet, or never";
    Fp8Scale scale;
    try {
      plan->forward(*lab.stream, {{}, {}, {}, {}, y, true, {}, {memory, {}, &scale}});
      ADD_FAILURE() << "taken, but " << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::usage);
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  refused(*device_, Math::fp8, "this plan's round_ahead()");
  refused(*device_, Math::standard, "none but in fp8");
  refused(reference_device(), Math::fp8, "on a device that rounds ahead");
}

TEST_F(CudaPlans, WhatFp8CannotDoIsSaid) {
  LinearShape shape{16, 24, 16, DType::bf16};
  shape.math = Math::fp8;
  const auto refused = [&](const LinearShape& wanted, const char* reason) {
    try {
      device_->plan(wanted);
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::unsupported);
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
    }
  };
  refused(shape, "in_features is 24");
  ConvolutionShape convolution{1, 4, 4, 16, 16, 1, 1, 0, DType::bf16};
  convolution.math = Math::fp8;
  EXPECT_THROW(device_->plan(convolution), Error);
  simt::gpu().architecture = 80;
  device_ = make_cuda_device({});
  shape.in_features = 16;
  refused(shape, "this GPU is sm_80");
  EXPECT_NE(device_->why_unsupported(Precision::fp8).find("sm_89"), std::string::npos);
  EXPECT_EQ(device_->why_unsupported(Precision::tf32), "");
  EXPECT_NE(device_->why_unsupported(Precision::float32_bf16).find("tf32"), std::string::npos);
  EXPECT_EQ(device_->why_unsupported(Precision::fp16), "");
}

}  // namespace
}  // namespace tw::test
