// Faults of the GPU and of its libraries, injected through the stand-ins: each ends a run with its cause, none is
// passed over by a search, and what is given back after it is complete.
#include <string>
#include <utility>

#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"
#include "tests/compute_cuda/graph_steps.hpp"
#include "tests/support/cublaslt/stand_in.hpp"
#include "tests/support/cudnn/stand_in.hpp"
#include "tests/support/simt/memory.hpp"
#include "tests/support/simt/runtime.hpp"

namespace tw::test {

using namespace models;

namespace {

constexpr ConvolutionShape convolution = {2, 4, 4, 8, 8, 3, 1, 1, DType::bf16};
constexpr AttentionShape attention = {1, 4, 2, 8, true, DType::bf16};
const LinearShape linear{16, 16, 16, DType::bf16, Activation::gelu};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Faults : public testing::Test {
 protected:
  void SetUp() override { reset(); }
  void TearDown() override { reset(); }
  static void reset() {
    blas::state() = {};
    cudnn::state() = {};
    simt::gpu() = {};
    simt::gpu().only = simt::Schedule::ascending;
  }
  /// What the body ends with; empty where it does not throw. Keeps what destructors say out of the test's output: on a
  /// device that has failed each says that it cannot give its memory back.
  template <class Body>
  std::string error_of(Body&& body) {
    testing::internal::CaptureStderr();
    std::string text;
    try {
      body();
    } catch (const Error& error) {
      failure_ = error.failure();
      text = error.what();
    }
    testing::internal::GetCapturedStderr();
    return text;
  }

  Failure failure_{};  // of the last error
};

/// Three steps, of which the second is recorded and the third replayed.
void three_steps(const NetworkDescription& network, Precision precision) {
  const auto device = make_cuda_device({.time_algorithms = false});
  Trainer trainer(*device, ten_steps_config(network, {precision, 0, Beside::nothing}));
  for (int step = 0; step < 3; ++step) trainer.enqueue_step({});
  trainer.collect();
}

// ---- memory ----

TEST_F(Faults, EveryAllocationOfAStepThatFailsIsNamedAndLeavesNothingBehind) {
  for (const auto& [network, precision] :
       {std::pair(micro_gpt2(), Precision::fp16), std::pair(micro_gpt2(), Precision::fp8),
        std::pair(micro_resnet(true), Precision::bf16)}) {
    SCOPED_TRACE(network.name + " " + std::string(to_string(precision)));
    const std::size_t blocks = simt::memory().count();
    const long handles = simt::handles();
    long allocation = 1;
    for (;; ++allocation) {
      simt::gpu().failing_allocation = allocation;
      simt::gpu().refused_bytes = 0;
      const std::string text = error_of([&] { three_steps(network, precision); });
      ASSERT_EQ(simt::memory().count(), blocks) << "allocation " << allocation;
      ASSERT_EQ(simt::handles(), handles) << "allocation " << allocation;
      const std::size_t refused = simt::gpu().refused_bytes;
      if (refused == 0) {  // there are fewer
        EXPECT_EQ(text, "");
        break;
      }
      ASSERT_EQ(failure_, Failure::environment) << text;
      ASSERT_TRUE(has(text, "cannot allocate " + std::to_string(refused) + " bytes")) << text;
    }
    EXPECT_GT(allocation, 15);
  }
}

// A measurement that finds no memory is left out; a plan that finds none says so.
TEST_F(Faults, APlanWithoutMemoryIsMadeUnmeasuredOrSaysSo) {
  const std::size_t blocks = simt::memory().count();
  long made = 0, refused = 0;
  for (long allocation = 1;; ++allocation) {
    simt::gpu().failing_allocation = allocation;
    simt::gpu().refused_bytes = 0;
    blas::state().offers = 2;
    const std::string text = error_of([&] {
      const auto device = make_cuda_device({});
      device->plan(linear);
      device->plan(convolution);
      device->plan(attention);
    });
    ASSERT_EQ(simt::memory().count(), blocks);
    if (simt::gpu().refused_bytes == 0) break;
    ++(text.empty() ? made : refused);
    if (text.empty()) continue;
    ASSERT_EQ(failure_, Failure::environment) << text;
    ASSERT_TRUE(has(text, "cannot allocate " + std::to_string(simt::gpu().refused_bytes) + " bytes")) << text;
  }
  EXPECT_GT(made, 0);
  EXPECT_GT(refused, 0);
}

// ---- a device that has failed ----

/// What a device fails with in its work, and what is said of it.
struct FaultOfWork {
  int code;
  Failure failure;
  const char* text;
};
constexpr FaultOfWork faults_of_work[] = {{700, Failure::internal, "cudaErrorIllegalAddress"},
                                          {214, Failure::environment, "reset the GPU"}};

TEST_F(Faults, ADeviceThatFailsInAStepEndsTheRunWithItsCause) {
  three_steps(micro_gpt2(), Precision::bf16);
  const long all = simt::gpu().work_done;
  EXPECT_GT(all, 400);
  for (const FaultOfWork& fault : faults_of_work) {
    for (long work = 1; work <= all; work += all / 30) {
      reset();
      simt::gpu().failing_work = work;
      simt::gpu().failing_code = fault.code;
      const std::string text = error_of([&] { three_steps(micro_gpt2(), Precision::bf16); });
      EXPECT_EQ(failure_, fault.failure);
      EXPECT_TRUE(has(text, fault.text)) << "work " << work << ": " << text;
    }
  }
}

TEST_F(Faults, ADeviceThatFailsInASearchEndsItWithItsCause) {
  const auto plans = [] {
    const auto device = make_cuda_device({});
    device->plan(linear);
    device->plan(convolution);
    device->plan(attention);
  };
  const auto prepare = [] {
    reset();
    blas::state().offers = 2;
    cudnn::state().proposals = {{5, {0}}, {6, {0}}};
  };
  prepare();
  plans();
  const long all = simt::gpu().work_done;
  EXPECT_GT(all, 50);
  for (const FaultOfWork& fault : faults_of_work) {
    for (long work = 1; work <= all; ++work) {
      prepare();
      simt::gpu().failing_work = work;
      simt::gpu().failing_code = fault.code;
      const std::string text = error_of(plans);
      ASSERT_EQ(simt::gpu().fault != 0, !text.empty()) << "work " << work << " of " << all;
      EXPECT_EQ(failure_, fault.failure);
      EXPECT_TRUE(has(text, fault.text)) << "work " << work << ": " << text;
    }
  }
}

TEST_F(Faults, ADeviceThatHasFailedIsNotTakenForAMissingLibrary) {
  const auto device = make_cuda_device({});
  device->plan(linear);
  simt::gpu().fault = 700;
  cudnn::state().create_status = 1001;
  EXPECT_TRUE(has(error_of([&] { device->plan(convolution); }), "cudaErrorIllegalAddress"));
  reset();
  const auto other = make_cuda_device({});
  simt::gpu().fault = 700;
  blas::state().create_status = CUBLAS_STATUS_NOT_INITIALIZED;
  EXPECT_TRUE(has(error_of([&] { other->plan(linear); }), "cudaErrorIllegalAddress"));
}

// ---- a machine on which no device starts ----

struct MachineCase {
  int code;
  const char* helps;  // what is said that helps
};
constexpr MachineCase machine_cases[] = {
    {3, "did not start"},
    {34, "LD_LIBRARY_PATH"},
    {36, "update it"},
    {46, "nvidia-smi -q -d COMPUTE"},
    {100, "CUDA_VISIBLE_DEVICES"},
    {102, "licence"},
    {127, "dmesg"},
    {209, "CMAKE_CUDA_ARCHITECTURES"},
    {214, "reset the GPU"},
    {220, "NVLink"},
    {221, "libnvidia-ptxjitcompiler"},
    {222, "PTX"},
    {223, "CUDA_DISABLE_PTX_JIT"},
    {304, "/dev/nvidia*"},
    {702, "display"},
    {800, "permit"},
    {802, "nvidia-fabricmanager"},
    {803, "reboot"},
    {804, "cuda-compat"},
    {805, "nvidia-cuda-mps-control"},
    {806, "MPS server"},
    {807, "try again"},
    {808, "fewer ranks"},
    {809, "fewer ranks"},
    {810, "another process has failed"},
};

TEST_F(Faults, WhatTheMachineRefusesIsOfTheEnvironmentAndSaysWhatHelps) {
  const auto start = [] { make_cuda_device({}); };
  for (const auto& [code, helps] : machine_cases) {
    reset();
    simt::gpu().fault = code;  // of the call that makes the context, and of each after it
    const std::string text = error_of(start);
    EXPECT_EQ(failure_, Failure::environment) << text;
    EXPECT_TRUE(has(text, "(code " + std::to_string(code) + ") in cudaSetDevice")) << text;
    EXPECT_TRUE(has(text, helps)) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    reset();
    simt::gpu().count_status = code;
    const std::string why = error_of(start);
    EXPECT_EQ(failure_, Failure::environment) << why;
    EXPECT_TRUE(has(why, "device cuda: ") && has(why, helps)) << why;
  }
  reset();
  simt::gpu().count_status = 35;
  EXPECT_TRUE(has(error_of(start), "update the driver"));
  EXPECT_EQ(failure_, Failure::environment);
}

TEST_F(Faults, WhatIsNotTheMachinesIsOfTheProgram) {
  for (const int code : {1, 400, 700, 714, 719, 999}) {
    reset();
    simt::gpu().fault = code;
    const std::string text = error_of([] { make_cuda_device({}); });
    EXPECT_EQ(failure_, Failure::internal) << text;
    EXPECT_TRUE(has(text, "(code " + std::to_string(code) + ")")) << text;
  }
}

TEST_F(Faults, AContextThatFindsNoMemorySaysWhoHasIt) {
  simt::gpu().fault = 2;
  const std::string text = error_of([] { make_cuda_device({}); });
  EXPECT_EQ(failure_, Failure::environment) << text;
  EXPECT_TRUE(has(text, "cuda:0: cudaSetDevice: no memory for this process's context")) << text;
  EXPECT_TRUE(has(text, "nvidia-smi lists the processes")) << text;
}

// ---- what libraries answer ----

TEST_F(Faults, OnlyTwoOfCublasStatusesMeanThatThereIsNoAlgorithm) {
  for (const cublasStatus_t status :
       {CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED, CUBLAS_STATUS_ARCH_MISMATCH,
        CUBLAS_STATUS_MAPPING_ERROR, CUBLAS_STATUS_EXECUTION_FAILED, CUBLAS_STATUS_INTERNAL_ERROR,
        CUBLAS_STATUS_LICENSE_ERROR, CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_NOT_SUPPORTED}) {
    const bool is_refusal = status == CUBLAS_STATUS_INVALID_VALUE || status == CUBLAS_STATUS_NOT_SUPPORTED;
    const std::string code = "(code " + std::to_string(status) + ")";
    const Failure expected = is_refusal                             ? Failure::unsupported
                             : status == CUBLAS_STATUS_ALLOC_FAILED ? Failure::environment
                                                                    : Failure::internal;
    SCOPED_TRACE(code);
    enum class From { question, offer, run };
    for (const From from : {From::question, From::offer, From::run}) {
      reset();
      blas::state().offers = 2;
      if (from == From::question) blas::state().heuristic_status = status;
      if (from == From::offer) blas::state().offer_state = status;
      if (from == From::run) blas::state().failing_offers = 2, blas::state().failing_status = status;
      const auto device = make_cuda_device({});
      for (int i = 0; i < 2; ++i) {  // a search that an error cut short has found nothing out
        const std::string text = error_of([&] { device->plan(linear); });
        EXPECT_EQ(failure_, expected) << text;
        EXPECT_EQ(has(text, "has no algorithm for"), is_refusal) << text;
        EXPECT_EQ(has(text, code), !is_refusal) << text;
      }
      blas::state() = {};
      if (is_refusal) continue;
      EXPECT_EQ(error_of([&] { device->plan(linear); }), "") << "asked again";
    }
  }
}

TEST_F(Faults, OnlyRefusalsOfCudnnLeaveTheNextEngine) {
  for (const int status : {3000, 3002, 3014, 4001, 1001, 2000, 2008, 4000, 4002, 4003, 4004, 5000, 5001, 5003}) {
    const bool is_refusal = (status >= 3000 && status < 4000) || status == 4001;
    const Failure expected = status == 4003 || status == 4004 ? Failure::environment : Failure::internal;
    const std::string code = "(code " + std::to_string(status) + ")";
    SCOPED_TRACE(code);
    enum class From { question, plan, run };
    for (const From from : {From::question, From::plan, From::run}) {
      reset();
      cudnn::state().proposals = {{7, {0}}, {8, {0}}};
      if (from == From::question) cudnn::state().heuristics_status = status;
      if (from == From::plan) cudnn::state().proposals[0].status = status;
      if (from == From::run) cudnn::state().proposals[0].run_status = status;
      const auto device = make_cuda_device({});
      std::string description;
      const std::string text = error_of([&] { description = device->plan(convolution)->description(); });
      if (from == From::run && expected == Failure::environment) {  // no memory to measure in: unmeasured
        EXPECT_TRUE(has(description, "forward engine 7")) << text << description;
      } else if (!is_refusal) {
        EXPECT_EQ(failure_, expected) << text;
        EXPECT_TRUE(has(text, code)) << text << description;
        cudnn::state() = {};
        EXPECT_EQ(error_of([&] { device->plan(convolution); }), "") << "asked again";
      } else if (from == From::question) {
        EXPECT_EQ(failure_, Failure::unsupported);
        EXPECT_TRUE(has(text, "made-up refusal")) << text;
      } else {
        EXPECT_TRUE(has(description, "forward engine 8")) << text << description;
      }
    }
  }
}

TEST_F(Faults, LibrariesThatFindNoMemoryAreNotTakenForMissing) {
  const auto device = make_cuda_device({});
  blas::state().create_status = CUBLAS_STATUS_ALLOC_FAILED;
  EXPECT_TRUE(has(error_of([&] { device->plan(linear); }), "cublasLtCreate"));
  EXPECT_EQ(failure_, Failure::environment);
  cudnn::state().create_status = 4004;
  EXPECT_TRUE(has(error_of([&] { device->plan(convolution); }), "cudnnCreate"));
  EXPECT_EQ(failure_, Failure::environment);
  blas::state() = {};
  cudnn::state() = {};
  EXPECT_EQ(error_of([&] {
              device->plan(linear);
              device->plan(convolution);
            }),
            "");
}

}  // namespace
}  // namespace tw::test
