// Which of cuBLASLt's algorithms the cuda device asks for and takes, on stand-ins.
#include "models/compute/error.hpp"
#include "tests/compute_cuda/simt/cuda_plans.hpp"

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
  EXPECT_EQ(timed % 36, 0u) << "12 runs of each of 3";
  EXPECT_GT(timed, 0u);
  EXPECT_NE(first->description().find("algorithm "), std::string::npos);
  const auto second = device_->plan(shape);
  EXPECT_EQ(blas::state().questions, asked);
  EXPECT_EQ(calls().size(), timed);
  EXPECT_EQ(device_->peak_allocated_bytes(), device_->arena_bytes()) << "the measurement's memory is nobody's";
}

TEST_F(CudaPlans, AnEpilogueThatIsSlowerThanOwnKernelsIsNotTaken) {
  blas::state().offers = 2;
  blas::state().epilogue_ms = 10;
  for (const Math math : {Math::standard, Math::fp8}) {
    LinearShape shape{16, 16, 32, DType::bf16, Activation::gelu};
    shape.math = math;
    const auto plan = device_->plan(shape);
    EXPECT_NE(plan->description().find(", slower than a plain product and own kernels"), std::string::npos)
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
    plan->forward(*stream_, {.x = x, .bias = tensor(DType::bf16, {32}), .pre_activation = pre, .y = y});
    plan->backward_input(*stream_, {.dy = y, .input_pre_activation = x, .dx = tensor(DType::bf16, {16, 16})});
    plan->backward_weights(*stream_, {.x = x, .dy = y, .d_weight = d_weight, .d_bias = d_bias});
    EXPECT_EQ(calls().size(), 3u);
    for (const blas::Call& call : calls()) EXPECT_EQ(call.epilogue, CUBLASLT_EPILOGUE_DEFAULT);
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
