// Which of cuBLASLt's algorithms the cuda device asks for and takes, on stand-ins.
#include <cstring>
#include <set>
#include <stdexcept>
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

// ---- what the library refuses only when it is to run ----

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
