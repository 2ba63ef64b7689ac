// By which way the cuda device does bias and GELU, on stand-ins: the library's epilogues or own kernels.
#include <string>
#include <tuple>
#include <vector>

#include "models/compute/error.hpp"
#include "tests/compute_cuda/simt/cuda_plans.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/simt/stream.hpp"

namespace tw::test {

using namespace models;

namespace {

/// A product takes 1 ms and a kernel 0.1 ms, whatever the machine does meanwhile: of equal products the earlier way is
/// taken.
void take_equal_times() {
  simt::gpu().clock_ms = 0;
  simt::gpu().work_ms = 0.1;
  blas::state().milliseconds = [](const blas::Call&) { return 0.9; };  // beside the 0.1 of each piece of work
}

// Bias and GELU: one product, a product with the bias and our GELU, or a plain product and own kernels.
TEST_F(CudaPlans, BiasAndGeluAreDoneByTheFastestOfThreeWays) {
  constexpr double kernel = 0.1;
  struct Way {
    double bias_and_gelu, bias, plain;  // ms of the products
    std::vector<cublasLtEpilogue_t> calls;
    const char* text;
  };
  const char* const by_bias = ", slower than a product with bias (algorithm 1 ";
  const char* const apart = ", slower than a plain product and own kernels";
  for (const Way& way :
       {Way{1, 1, 1, {CUBLASLT_EPILOGUE_GELU_AUX_BIAS}, "; "},
        Way{1.11, 1, 1, {CUBLASLT_EPILOGUE_GELU_AUX_BIAS}, "; "},  // 1.1: no 2 % less
        Way{1.2, 1, 1, {CUBLASLT_EPILOGUE_BIAS}, by_bias}, Way{1.2, 1.15, 0.95, {CUBLASLT_EPILOGUE_DEFAULT}, apart}}) {
    SCOPED_TRACE(way.text);
    for (const Math math : {Math::standard, Math::fp8}) {
      buffers_.clear();  // they are of the device before
      device_ = make_cuda_device({});
      simt::gpu().clock_ms = 0;
      simt::gpu().work_ms = kernel;
      blas::state().offers = 2;
      blas::state().milliseconds = [&way](const blas::Call& call) {
        return (call.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ? way.bias_and_gelu
                : call.epilogue == CUBLASLT_EPILOGUE_BIAS        ? way.bias
                                                                 : way.plain) -
               kernel;  // which each piece of work takes
      };
      LinearShape shape{16, 16, 32, DType::bf16, Activation::gelu};
      shape.math = math;
      const auto plan = device_->plan(shape);
      const std::string text = plan->description();
      if (math == Math::fp8) {
        EXPECT_NE(text.find("own GELU"), std::string::npos) << text;
      } else {
        EXPECT_NE(text.find(way.text), std::string::npos) << text;
        EXPECT_EQ(text.find("slower") == std::string::npos, way.calls[0] == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) << text;
      }
      plan->bind(tensor(DType::bf16, {32, 16}));
      plan->refresh(*stream_);
      calls().clear();
      plan->forward(*stream_, {.x = tensor(DType::bf16, {16, 16}),
                               .bias = tensor(DType::bf16, {32}),
                               .pre_activation = tensor(DType::bf16, {16, 32}),
                               .y = tensor(DType::bf16, {16, 32})});
      std::vector<cublasLtEpilogue_t> epilogues;
      for (const blas::Call& call : calls()) epilogues.push_back(static_cast<cublasLtEpilogue_t>(call.epilogue));
      // In fp8 GELU is our own in any case, and the bias an epilogue.
      EXPECT_EQ(epilogues, math == Math::fp8 ? std::vector{CUBLASLT_EPILOGUE_BIAS} : way.calls);
    }
  }
}

TEST_F(CudaPlans, AProductWithBiasAndOwnGeluGiveTheSame) {
  simt::gpu().clock_ms = 0;
  blas::state().offers = 2;
  blas::state().milliseconds = [](const blas::Call& call) {
    return call.epilogue == CUBLASLT_EPILOGUE_BIAS ? 0.0 : 1.0;
  };
  for (const DType type : {DType::float32, DType::bf16, DType::fp16}) {
    calls().clear();
    compare(*device_, Op::linear_forward, type, [&](Lab& lab) {
      const std::int64_t rows = 40, in = 24, out = 16;
      const auto plan = lab.device.plan(LinearShape{rows, in, out, type, Activation::gelu});
      plan->bind(lab.in(type, {out, in}, normal(out * in, 1)));
      plan->refresh(*lab.stream);
      if (lab.device.info().kind == DeviceKind::cuda) calls().clear();  // those of the search
      plan->forward(*lab.stream, {.x = lab.in(type, {rows, in}, normal(rows * in, 2)),
                                  .bias = lab.in(type, {out}, normal(out, 3)),
                                  .pre_activation = lab.out("pre_activation", type, {rows, out}, 0),
                                  .y = lab.out("y", type, {rows, out})});
    });
    ASSERT_EQ(calls().size(), 1u);
    EXPECT_EQ(calls()[0].epilogue, CUBLASLT_EPILOGUE_BIAS);
  }
}

// A library without the epilogue for GELU may have that for the bias, which saves a pass over the result.
TEST_F(CudaPlans, WithoutTheEpilogueForGeluTheBiasIsOne) {
  take_equal_times();
  blas::state().refused_epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  const auto plan = device_->plan(LinearShape{16, 16, 32, DType::bf16, Activation::gelu});
  EXPECT_NE(plan->description().find("forward with bias and GELU: a product with bias ("), std::string::npos)
      << plan->description();
}

TEST_F(CudaPlans, AnEpilogueThatIsSlowerThanOwnKernelsIsNotTakenWhereTheseRoundAsOften) {
  simt::gpu().clock_ms = 0;
  blas::state().offers = 2;
  blas::state().milliseconds = [](const blas::Call& call) {
    return call.epilogue == CUBLASLT_EPILOGUE_DEFAULT ? 1.0 : 10.0;
  };
  for (const Math math : {Math::standard, Math::fp8}) {
    LinearShape shape{16, 16, 32, DType::bf16, Activation::gelu};
    shape.math = math;
    const auto plan = device_->plan(shape);
    const bool is_fp8 = math == Math::fp8;
    EXPECT_EQ(plan->description().find(", slower than a plain product and own kernels") == std::string::npos, is_fp8)
        << plan->description();
    const int asked = blas::state().questions;
    calls().clear();
    const auto same = device_->plan(shape);
    EXPECT_EQ(blas::state().questions, asked);
    EXPECT_TRUE(calls().empty()) << "timed once a shape";
    plan->bind(tensor(DType::bf16, {32, 16}));
    plan->refresh(*stream_);
    const Tensor x = tensor(DType::bf16, {16, 16}), y = tensor(DType::bf16, {16, 32}),
                 pre = tensor(DType::bf16, {16, 32}), d_weight = tensor(DType::float32, {32, 16}),
                 d_bias = tensor(DType::float32, {32});
    const Tensor left_x = left(shape.x_for_weights()), left_dy = left(shape.dy_for_input());
    plan->forward(*stream_,
                  {.x = x, .bias = tensor(DType::bf16, {32}), .pre_activation = pre, .y = y, .x_for_weights = left_x});
    plan->backward_weights(
        *stream_, {.x = left_x ? left_x : x, .dy = y, .d_weight = d_weight, .d_bias = d_bias, .dy_for_input = left_dy});
    plan->backward_input(*stream_,
                         {.dy = left_dy ? left_dy : y, .input_pre_activation = x, .dx = tensor(DType::bf16, {16, 16})});
    ASSERT_EQ(calls().size(), 3u);
    EXPECT_EQ(calls()[0].epilogue, is_fp8 ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
    EXPECT_EQ(calls()[1].epilogue, CUBLASLT_EPILOGUE_DEFAULT) << "the bias's gradient is float32";
    EXPECT_EQ(calls()[2].epilogue, CUBLASLT_EPILOGUE_DGELU);
  }
}

// Rounded to bf16, 256 + 1 is 256 and 256 + 1 + 1 is 258: what is faster must not decide which of them comes out.
TEST_F(CudaPlans, HowOftenAResultIsRoundedDependsOnNoTiming) {
  for (const DType type : {DType::bf16, DType::fp16, DType::float32}) {
    for (const bool has_epilogues : {true, false}) {
      SCOPED_TRACE(std::string(to_string(type)) + (has_epilogues ? "" : ", without epilogues"));
      buffers_.clear();
      device_ = make_cuda_device({});
      blas::state() = {};
      simt::gpu().clock_ms = 0;
      blas::state().offers = 2;
      blas::state().has_epilogues = has_epilogues;
      blas::state().milliseconds = [](const blas::Call& call) {
        return call.epilogue == CUBLASLT_EPILOGUE_DEFAULT ? 1.0 : 10.0;
      };
      const auto plan = device_->plan(LinearShape{16, 16, 32, type});
      plan->bind(tensor(type, {32, 16}));
      plan->refresh(*stream_);
      const Tensor x = tensor(type, {16, 16}), bias = tensor(type, {32}), residual = tensor(type, {16, 32}),
                   y = tensor(type, {16, 32}), dx = tensor(type, {16, 16});
      device_->fill(*stream_, {x, 0.125f});  // x·Wᵀ is 16 · 0.125 · 0.5
      device_->fill(*stream_, {bias, 1});
      device_->fill(*stream_, {residual, 256});
      calls().clear();
      plan->forward(*stream_, {.x = x, .bias = bias, .residual = residual, .y = y});
      plan->backward_input(*stream_, {.dy = y, .input_pre_activation = x, .dx = dx});
      ASSERT_EQ(calls().size(), 2u);
      const bool apart = type == DType::float32 || !has_epilogues;
      EXPECT_EQ(calls()[0].epilogue, apart ? CUBLASLT_EPILOGUE_DEFAULT : CUBLASLT_EPILOGUE_BIAS);
      EXPECT_EQ(calls()[1].epilogue, apart ? CUBLASLT_EPILOGUE_DEFAULT : CUBLASLT_EPILOGUE_DGELU);
      if (type == DType::bf16) {
        EXPECT_EQ(to_float(y.as<bf16>()[0]), has_epilogues ? 258 : 256);
      }
      const std::string text = plan->description();
      const std::string twice = "a plain product and own kernels, rounded twice";
      const bool is_twice = type != DType::float32 && !has_epilogues;
      EXPECT_EQ(text.find("forward with bias: " + twice) != std::string::npos, is_twice) << text;
      EXPECT_EQ(text.find("input gradient with GELU's derivative: " + twice) != std::string::npos, is_twice) << text;
    }
  }
}

TEST_F(CudaPlans, AWayThatAStepRefusesLeavesTheOthers) {
  take_equal_times();
  const auto plan = device_->plan(LinearShape{16, 16, 32, DType::bf16, Activation::gelu});
  plan->bind(tensor(DType::bf16, {32, 16}));
  plan->refresh(*stream_);
  const Tensor x = tensor(DType::bf16, {16, 16}), bias = tensor(DType::bf16, {32}), pre = tensor(DType::bf16, {16, 32}),
               y = tensor(DType::bf16, {16, 32});
  const auto forward = [&] { plan->forward(*stream_, {.x = x, .bias = bias, .pre_activation = pre, .y = y}); };
  blas::state().failing_offers = all_offers;
  const std::string call = "forward with bias and GELU: ";
  for (const auto& [failing, done, text] :
       {std::tuple(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_BIAS, "a product with bias (algorithm 1 "),
        std::tuple(CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_DEFAULT, "a plain product and own kernels")}) {
    blas::state().failing_epilogues.insert(failing);
    calls().clear();
    forward();
    ASSERT_EQ(calls().size(), 1u);
    EXPECT_EQ(calls()[0].epilogue, done);
    EXPECT_EQ(to_float(pre.as<bf16>()[0]), 4.5f);
    EXPECT_NE(plan->description().find(call + text), std::string::npos) << plan->description();
  }
  blas::state().failing_epilogues.insert(CUBLASLT_EPILOGUE_DEFAULT);
  try {
    forward();
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::unsupported);
    EXPECT_NE(std::string(error.what()).find("16 × 16 × 32"), std::string::npos) << error.what();
  }
}

TEST_F(CudaPlans, AWayThatIsRefusedWhileItIsTimedLeavesTheOthers) {
  take_equal_times();
  blas::state().offers = 2;
  blas::state().offers_of[CUBLASLT_EPILOGUE_GELU_AUX_BIAS] = 1;  // one alone is not tried before
  blas::state().failing_offers = all_offers;
  blas::state().failing_epilogues = {CUBLASLT_EPILOGUE_GELU_AUX_BIAS};
  const auto plan = device_->plan(LinearShape{16, 16, 32, DType::bf16, Activation::gelu});
  EXPECT_NE(plan->description().find("forward with bias and GELU: a product with bias ("), std::string::npos)
      << plan->description();
}

TEST_F(CudaPlans, AFaultWhileAWayIsTimedEndsTheSearch) {
  blas::state().offers = 2;
  blas::state().offers_of[CUBLASLT_EPILOGUE_GELU_AUX_BIAS] = 1;
  blas::state().failing_offers = all_offers;
  blas::state().failing_epilogues = {CUBLASLT_EPILOGUE_GELU_AUX_BIAS};
  blas::state().failing_status = CUBLAS_STATUS_EXECUTION_FAILED;
  try {
    device_->plan(LinearShape{16, 16, 32, DType::bf16, Activation::gelu});
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::internal);
    EXPECT_NE(std::string(error.what()).find("CUBLAS_STATUS_EXECUTION_FAILED"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tw::test
