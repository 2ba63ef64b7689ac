// Which of cuBLASLt's algorithms the cuda device asks for and takes, on stand-ins.
#include <cstring>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "models/compute/cuda/bench.hpp"
#include "models/compute/error.hpp"
#include "tests/compute_cuda/simt/cuda_plans.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/simt/stream.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST_F(CudaPlans, AlgorithmsAreTimedOnceAShape) {
  blas::state().offers = 3;
  const LinearShape shape{16, 16, 32, DType::bf16};
  const auto first = device_->plan(shape);
  const int asked = blas::state().questions;
  const std::size_t timed = calls().size();
  EXPECT_GT(asked, 0);
  EXPECT_EQ(timed % 6, 4u) << "of each of 3 a first run and a timed one, and of two ways for the bias's gradient";
  EXPECT_GT(timed, 0u);
  EXPECT_NE(first->description().find("algorithm "), std::string::npos);
  const auto second = device_->plan(shape);
  EXPECT_EQ(blas::state().questions, asked);
  EXPECT_EQ(calls().size(), timed);
  EXPECT_EQ(device_->peak_allocated_bytes(), device_->arena_bytes()) << "the measurement's memory is nobody's";
}

// The host takes longer to call each run than the device to do it, which must not be in the times.
TEST_F(CudaPlans, CandidatesAreTimedWithoutTheHostAndForAMillisecond) {
  constexpr double hosts = 0.5;  // ms of the host for one run
  for (const double milliseconds : {5.0, 0.3, 0.004, 0.0}) {
    SCOPED_TRACE(milliseconds);
    simt::gpu().clock_ms = 0;
    cuda::Bench bench;
    int started = 0, done = 0;
    const auto run = [&] {
      ++started;
      *simt::gpu().clock_ms += hosts;
      simt::enqueue_or_throw(bench.stream(), "a run", [&] {
        ++done;
        simt::take(milliseconds);
      });
    };
    EXPECT_NEAR(bench.milliseconds_of(run, {.rounds = 3, .least_ms = 1}), milliseconds, 1e-3 * milliseconds);
    EXPECT_LE(started, 2 + cuda::Timing::most_runs);
    if (milliseconds > 0) {
      EXPECT_GE(done * milliseconds, 3 * 2) << "three samples behind others, of a millisecond";
    } else {
      EXPECT_EQ(started, 2 + cuda::Timing::most_runs);
    }
    if (milliseconds > 1) {
      EXPECT_EQ(started, 2) << "by itself, and recorded";
      EXPECT_EQ(done, 1 + 3 * 2);
    }
  }
}

TEST_F(CudaPlans, ACandidateThatFailsWhileItIsRecordedLeavesTheStreamUsable) {
  cuda::Bench bench;
  int started = 0;
  EXPECT_THROW(bench.milliseconds_of([&] {
    if (++started == 2) throw std::runtime_error("the second run");
  }),
               std::runtime_error);
  simt::gpu().clock_ms = 0;
  const auto run = [&] { simt::enqueue_or_throw(bench.stream(), "a run", [] { simt::take(2); }); };
  EXPECT_EQ(bench.milliseconds_of(run), 2);
}

TEST_F(CudaPlans, ACandidateThatCannotBeRecordedIsRefused) {
  cuda::Bench bench;
  const auto fails_with = [&](Failure failure) {
    int started = 0;
    bench.milliseconds_of([&] {
      if (++started == 2) throw ApiError("made up", 1, "not in a capture", "call()", __FILE__, __LINE__, failure);
    });
  };
  try {
    fails_with(Failure::internal);
    ADD_FAILURE() << "no exception";
  } catch (const Refused& error) {
    EXPECT_EQ(error.failure(), Failure::unsupported);
    EXPECT_NE(std::string(error.what()).find("cannot be recorded in a graph: made up"), std::string::npos)
        << error.what();
  }
  try {
    fails_with(Failure::environment);
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(dynamic_cast<const Refused*>(&error), nullptr) << "want of memory is thrown as it is";
    EXPECT_EQ(error.failure(), Failure::environment);
  }
}

/// What the forward of `shape` is done by, where each algorithm offered takes so many ms on the made-up clock.
std::string forward_by(Device& device, const LinearShape& shape, const std::vector<double>& milliseconds) {
  simt::gpu().clock_ms = 0;
  blas::state().offers = static_cast<int>(milliseconds.size());
  blas::state().milliseconds = [milliseconds](const blas::Call& call) { return milliseconds[call.algorithm - 1]; };
  const std::string text = device.plan(shape)->description();
  const std::size_t begin = text.find("forward with bias: ");
  return text.substr(begin, text.find(';', begin) - begin);
}

TEST_F(CudaPlans, TheFirstOfferIsTakenUnlessAnotherIsFasterByMoreThanNoise) {
  const auto taken = [&](const std::vector<double>& milliseconds) {
    device_ = make_cuda_device({});
    return forward_by(*device_, {16, 16, 32, DType::bf16}, milliseconds);
  };
  const auto is = [](const std::string& text, int algorithm) {
    return text.find("algorithm " + std::to_string(algorithm) + " ") != std::string::npos;
  };
  std::string text;
  EXPECT_TRUE(is(text = taken({1, 1, 1}), 1)) << text;
  EXPECT_TRUE(is(text = taken({1, 0.99, 0.985}), 1)) << text << ": within 2 %";
  EXPECT_TRUE(is(text = taken({1, 0.97, 0.99}), 2)) << text;
  EXPECT_TRUE(is(text = taken({1, 0.97, 0.96}), 3)) << text << ": among those that gain enough the fastest";
  EXPECT_TRUE(is(text = taken({1, 0.96, 0.97}), 2)) << text;
  blas::state().failing_offers = 1;
  EXPECT_TRUE(is(text = taken({9, 1, 0.99}), 2)) << text << ": the first that runs";
  EXPECT_TRUE(is(text = taken({9, 1, 0.9}), 3)) << text;
}

TEST_F(CudaPlans, AlgorithmsAreTimedOnRandomOperands) {
  struct Case {
    DType dtype;
    Math math;
  };
  for (const Case& one : {Case{DType::float32, Math::standard}, Case{DType::bf16, Math::standard},
                          Case{DType::fp16, Math::standard}, Case{DType::bf16, Math::fp8}}) {
    SCOPED_TRACE(std::string(to_string(one.dtype)) + (one.math == Math::fp8 ? " in fp8" : ""));
    device_ = make_cuda_device({});
    blas::state().offers = 2;
    long products = 0;
    blas::state().milliseconds = [&](const blas::Call& call) {
      const auto bytes_of = [](cudaDataType_t type) {
        return type == CUDA_R_32F ? 4u : type == CUDA_R_16BF || type == CUDA_R_16F ? 2u : 1u;
      };
      const auto distinct = [](const void* data, std::size_t bytes) {
        std::set<std::string> values;
        for (std::size_t i = 0; i < 256; ++i) values.emplace(static_cast<const char*>(data) + i * bytes, bytes);
        return values.size();
      };
      ++products;
      // In fp8 a random operand has fewer distinct values: a byte has only 256, and most of them are small numbers.
      EXPECT_GT(distinct(call.a, bytes_of(call.type_a)), bytes_of(call.type_a) == 1 ? 30u : 200u);
      EXPECT_GT(distinct(call.b, bytes_of(call.type_b)), bytes_of(call.type_b) == 1 ? 30u : 200u);
      const std::size_t compared = 256 * std::min(bytes_of(call.type_a), bytes_of(call.type_b));
      EXPECT_NE(std::memcmp(call.a, call.b, compared), 0) << "each has its own numbers";
      return 0.0;
    };
    LinearShape shape{16, 16, 32, one.dtype, Activation::gelu};
    shape.math = one.math;
    device_->plan(shape);
    EXPECT_GT(products, 8);
  }
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

// ---- what the library refuses only when it is to run ----

constexpr int all_offers = 8;

/// The epilogue and the algorithm of each product of a forward with bias, and with GELU where the shape has it.
std::vector<std::pair<std::uint32_t, std::uint64_t>> algorithms_of(const std::vector<blas::Call>& calls) {
  std::vector<std::pair<std::uint32_t, std::uint64_t>> all;
  for (const blas::Call& call : calls) all.emplace_back(call.epilogue, call.algorithm);
  return all;
}

TEST_F(CudaPlans, AnOfferThatAStepRefusesLeavesTheNext) {
  device_ = make_cuda_device({.time_algorithms = false});
  blas::state().offers = 3;
  const auto plan = device_->plan(LinearShape{16, 16, 32, DType::bf16});
  const Tensor x = tensor(DType::bf16, {16, 16}), y = tensor(DType::bf16, {16, 32});
  plan->bind(tensor(DType::bf16, {32, 16}));
  plan->refresh(*stream_);
  blas::state().failing_offers = 2;
  for (int i = 0; i < 2; ++i) {
    plan->forward(*stream_, {.x = x, .y = y});
    EXPECT_EQ(to_float(y.as<bf16>()[0]), 4);
  }
  EXPECT_EQ(algorithms_of(calls()), (std::vector<std::pair<std::uint32_t, std::uint64_t>>(2, {1, 3})));
  EXPECT_NE(plan->description().find("forward: algorithm 3 "), std::string::npos) << plan->description();
  blas::state().failing_offers = all_offers;
  for (int i = 0; i < 2; ++i) {
    try {
      plan->forward(*stream_, {.x = x, .y = y});
      ADD_FAILURE() << "no exception";
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::unsupported);
      const std::string text = error.what();
      EXPECT_NE(text.find("of the 3 algorithms"), std::string::npos) << text;
      EXPECT_NE(text.find("16 × 16 × 32 (CUDA type 14)"), std::string::npos) << text;
    }
  }
}

TEST_F(CudaPlans, AWayThatAStepRefusesLeavesTheOthers) {
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

TEST_F(CudaPlans, AnAlgorithmThatDoesNotRunIsNotTaken) {
  blas::state().offers = 3;
  blas::state().failing_offers = 2;
  const LinearShape shape{16, 16, 32, DType::bf16};
  EXPECT_NE(device_->plan(shape)->description().find("forward: algorithm 3 "), std::string::npos);
  device_ = make_cuda_device({});
  blas::state().failing_offers = 3;
  try {
    device_->plan(shape);
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::unsupported);
    EXPECT_NE(std::string(error.what()).find("has no algorithm for 16 × 16 × 32"), std::string::npos) << error.what();
  }
}

TEST_F(CudaPlans, AlgorithmsAreNotTimedWhereEveryRunMustBeTheSame) {
  blas::state().offers = 3;
  device_ = make_cuda_device({.time_algorithms = false});
  device_->plan(LinearShape{16, 16, 32, DType::bf16});
  EXPECT_GT(blas::state().questions, 0);
  EXPECT_TRUE(calls().empty());
}

// cuBLASLt's algorithms go by the extents: those of an odd vocabulary are slow in all three products.
TEST_F(CudaPlans, ProductsOfTheHeadAreOfMultiplesOf8ButForAFewClasses) {
  struct Sizes {
    std::int64_t classes, whole;
  };
  // A single class would be a vector: the library's way for these is kept out of.
  for (const auto& [classes, whole] : {Sizes{2101, 2096}, Sizes{2104, 2104}, Sizes{2105, 2096}, Sizes{5, 0}}) {
    calls().clear();
    const std::int64_t rows = 128, in = 16;
    const auto plan = device_->plan(ClassifierShape{rows, in, classes, 0, DType::bf16});
    plan->bind(tensor(DType::bf16, {classes, in}));
    plan->refresh(*stream_);
    plan->forward_backward(*stream_, {.x = tensor(DType::bf16, {rows, in}),
                                      .targets = tensor(DType::int32, {rows}),
                                      .loss = tensor(DType::float32, {1}),
                                      .dx = tensor(DType::bf16, {rows, in}),
                                      .d_weight = tensor(DType::float32, {classes, in})});
    std::int64_t multiplied = 0;
    for (const blas::Call& call : calls()) {
      const auto product = static_cast<std::int64_t>(call.m * call.n * call.k);
      const std::int64_t of = product / (rows * in);
      EXPECT_TRUE(of == whole || of == classes - whole) << call.m << " x " << call.n << " x " << call.k;
      multiplied += of;
    }
    EXPECT_EQ(multiplied, 3 * classes) << "each class once in each of the three";
  }
}

TEST_F(CudaPlans, ProductsOfTheHeadAreOfAllReservedClasses) {
  const std::int64_t rows = 128, in = 16, classes = 2105, reserved = whole_tiles_of_classes(classes);
  EXPECT_EQ(reserved, 2176);
  const auto plan = device_->plan(ClassifierShape{rows, in, classes, 0, DType::bf16, Math::standard, 1, reserved});
  plan->bind(tensor(DType::bf16, {reserved, in}).slice(0, {classes, in}));
  plan->refresh(*stream_);
  calls().clear();
  plan->forward_backward(*stream_, {.x = tensor(DType::bf16, {rows, in}),
                                    .targets = tensor(DType::int32, {rows}),
                                    .loss = tensor(DType::float32, {1}),
                                    .dx = tensor(DType::bf16, {rows, in}),
                                    .d_weight = tensor(DType::float32, {reserved, in}).slice(0, {classes, in})});
  ASSERT_EQ(calls().size(), 3u);
  for (const blas::Call& call : calls())
    EXPECT_EQ(static_cast<std::int64_t>(call.m * call.n * call.k), rows * in * reserved);
  EXPECT_EQ(calls()[2].beta, 0) << "the gradient of reserved classes is overwritten, by 0";
}

TEST_F(CudaPlans, PartsOfASumAreAddedInFloat32) {
  for (const DType type : {DType::float32, DType::bf16, DType::fp16}) {
    calls().clear();
    const auto plan = device_->plan(LinearShape{8, 16, 8, type});
    plan->bind(tensor(type, {8, 16}));
    plan->refresh(*stream_);
    const Tensor x = tensor(type, {8, 16}), y = tensor(type, {8, 8});
    plan->forward(*stream_, {.x = x, .y = y});
    plan->backward_input(*stream_, {.dy = y, .dx = x});
    plan->backward_weights(*stream_, {.x = x, .dy = y, .d_weight = tensor(DType::float32, {8, 16})});
    ASSERT_EQ(calls().size(), 3u);
    for (const blas::Call& call : calls()) {
      const bool in_d_too = call.type_d == CUDA_R_32F;
      EXPECT_EQ(call.reductions, in_d_too ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    }
  }
}

}  // namespace
}  // namespace tw::test
