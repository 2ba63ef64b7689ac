// What the cuda device asks of its libraries, on stand-ins: orientation and epilogues of products, chunks, memory. That
// the numbers are right is what the tests of all devices say.
#include <gtest/gtest.h>

#include <cmath>

#include "models/compute/cuda/context.hpp"
#include "models/compute/cuda/kernels/check.hpp"
#include "models/compute/error.hpp"
#include "tests/compute_cuda/simt/cuda_plans.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/simt/stream.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST_F(CudaPlans, LinearLayersAreAskedForInTheLibrarysOrder) {
  const std::int64_t rows = 24, in = 16, out = 32;
  const auto plan = device_->plan(LinearShape{rows, in, out, DType::bf16});
  plan->bind(tensor(DType::bf16, {out, in}));
  plan->refresh(*stream_);
  const Tensor x = tensor(DType::bf16, {rows, in}), y = tensor(DType::bf16, {rows, out});
  plan->forward(*stream_, {.x = x, .bias = tensor(DType::bf16, {out}), .residual = y, .y = y});
  plan->backward_input(*stream_, {.dy = y, .dx = x});
  const Tensor d_weight = tensor(DType::float32, {out, in}), d_bias = tensor(DType::float32, {out});
  plan->backward_weights(*stream_, {.x = x, .dy = y, .d_weight = d_weight, .d_bias = d_bias});
  plan->backward_weights(*stream_, {.x = x, .dy = y, .d_weight = d_weight, .d_bias = d_bias, .accumulate = true});
  ASSERT_EQ(calls().size(), 4u);
  const blas::Call &forward = calls()[0], &input = calls()[1], &weights = calls()[2], &more = calls()[3];
  EXPECT_EQ(forward.m, 32u);  // yᵀ (out, rows) = W (in, out)ᵀ · xᵀ (in, rows)
  EXPECT_EQ(forward.n, 24u);
  EXPECT_EQ(forward.k, 16u);
  EXPECT_TRUE(forward.transpose_a);
  EXPECT_FALSE(forward.transpose_b);
  EXPECT_EQ(forward.lda, in);
  EXPECT_EQ(forward.ldb, in);
  EXPECT_EQ(forward.ldd, out);
  EXPECT_EQ(forward.epilogue, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(forward.beta, 1);  // the residual
  EXPECT_TRUE(forward.in_place);
  EXPECT_EQ(forward.compute, CUBLAS_COMPUTE_32F);
  EXPECT_EQ(forward.stream, static_cast<cudaStream_t>(stream_->native()));
  EXPECT_EQ(input.m, 16u);  // dxᵀ (in, rows) = W (in, out) · dyᵀ (out, rows)
  EXPECT_FALSE(input.transpose_a);
  EXPECT_FALSE(input.transpose_b);
  EXPECT_EQ(input.k, 32u);
  EXPECT_EQ(input.beta, 0);
  EXPECT_EQ(weights.m, 16u);  // dWᵀ (in, out) = xᵀ (in, rows) · dy (rows, out)
  EXPECT_EQ(weights.n, 32u);
  EXPECT_EQ(weights.k, 24u);
  EXPECT_FALSE(weights.transpose_a);
  EXPECT_TRUE(weights.transpose_b);
  EXPECT_EQ(weights.type_a, CUDA_R_16BF);
  EXPECT_EQ(weights.type_d, CUDA_R_32F);
  EXPECT_EQ(weights.epilogue, CUBLASLT_EPILOGUE_BGRADB);
  EXPECT_EQ(more.epilogue, CUBLASLT_EPILOGUE_DEFAULT) << "the epilogue would overwrite the bias's gradient";
  EXPECT_EQ(more.beta, 1);
}

TEST_F(CudaPlans, GeluAndItsDerivativeAreEpilogues) {
  const auto up = device_->plan(LinearShape{8, 16, 64, DType::bf16, Activation::gelu});
  const auto down = device_->plan(LinearShape{8, 64, 16, DType::bf16});
  for (const auto& plan : {up.get(), down.get()}) {
    plan->bind(tensor(DType::bf16, {plan->shape().out_features, plan->shape().in_features}));
    plan->refresh(*stream_);
  }
  const Tensor hidden = tensor(DType::bf16, {8, 64}), pre = tensor(DType::bf16, {8, 64}),
               x = tensor(DType::bf16, {8, 16});
  up->forward(*stream_, {.x = x, .bias = tensor(DType::bf16, {64}), .pre_activation = pre, .y = hidden});
  down->backward_input(*stream_, {.dy = x, .input_pre_activation = pre, .dx = hidden});
  ASSERT_EQ(calls().size(), 2u);
  EXPECT_EQ(calls()[0].epilogue, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  EXPECT_EQ(calls()[1].epilogue, CUBLASLT_EPILOGUE_DGELU);
}

TEST_F(CudaPlans, WithoutEpiloguesOwnKernelsGiveTheSame) {
  blas::state().has_epilogues = false;
  for (const DType type : {DType::float32, DType::bf16, DType::fp16}) {
    for (const bool gelu : {false, true}) {
      for (const bool bias : {false, true}) {
        const Case run = [&](Lab& lab) {
          const std::int64_t rows = 33, in = 24, out = 17;
          const auto plan =
              lab.device.plan(LinearShape{rows, in, out, type, gelu ? Activation::gelu : Activation::none});
          EXPECT_TRUE(lab.device.info().kind != DeviceKind::cuda ||
                      plan->description().find("own kernels") != std::string::npos);
          plan->bind(lab.in(type, {out, in}, normal(out * in, 1)));
          plan->refresh(*lab.stream);
          const Tensor x = lab.in(type, {rows, in}, normal(rows * in, 2)),
                       dy = lab.in(type, {rows, out}, uniform(rows * out, 3, -1, 2)),
                       pre = lab.in(type, {rows, in}, normal(rows * in, 4));
          LinearForward forward{.x = x, .y = lab.out("y", type, {rows, out})};
          if (bias) forward.bias = lab.in(type, {out}, normal(out, 5));
          if (gelu) forward.pre_activation = lab.out("pre_activation", type, {rows, out}, 0);
          if (!gelu) forward.residual = lab.in(type, {rows, out}, normal(rows * out, 6));
          plan->forward(*lab.stream, forward);
          plan->backward_input(*lab.stream,
                               {.dy = dy, .input_pre_activation = pre, .dx = lab.out("dx", type, {rows, in})});
          plan->backward_weights(*lab.stream, {.x = x,
                                               .dy = dy,
                                               .d_weight = lab.out("d_weight", DType::float32, {out, in}),
                                               .d_bias = lab.out("d_bias", DType::float32, {out})});
        };
        compare(*device_, Op::linear_forward, type, run);
      }
    }
  }
  for (const blas::Call& call : calls()) EXPECT_EQ(call.epilogue, CUBLASLT_EPILOGUE_DEFAULT);
}

TEST_F(CudaPlans, Float32IsMultipliedAsFloat32UnlessTf32IsAskedFor) {
  for (const Math math : {Math::standard, Math::tf32}) {
    calls().clear();
    LinearShape shape{8, 8, 8, DType::float32};
    shape.math = math;
    const auto plan = device_->plan(shape);
    plan->bind(tensor(DType::float32, {8, 8}));
    plan->refresh(*stream_);
    plan->forward(*stream_, {.x = tensor(DType::float32, {8, 8}), .y = tensor(DType::float32, {8, 8})});
    ASSERT_EQ(calls().size(), 1u);
    EXPECT_EQ(calls()[0].compute, math == Math::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
  }
}

TEST_F(CudaPlans, StepsNeitherAllocateNorWait) {
  const auto plan = device_->plan(LinearShape{16, 16, 32, DType::bf16});
  const auto head = device_->plan(ClassifierShape{16, 16, 40, 0, DType::bf16});
  const auto attention = device_->plan(AttentionShape{1, 16, 2, 8, true, DType::bf16});
  plan->bind(tensor(DType::bf16, {32, 16}));
  head->bind(tensor(DType::bf16, {40, 16}));
  const Tensor x = tensor(DType::bf16, {16, 16}), y = tensor(DType::bf16, {16, 32}), dx = tensor(DType::bf16, {16, 16}),
               targets = tensor(DType::int32, {16}), loss = tensor(DType::float32, {1}),
               d_weight = tensor(DType::float32, {40, 16}), qkv = tensor(DType::bf16, {1, 16, 6, 8}),
               out = tensor(DType::bf16, {1, 16, 2, 8}), level = tensor(DType::float32, {1, 2, 16}),
               d_qkv = tensor(DType::bf16, {1, 16, 6, 8}), dw = tensor(DType::float32, {32, 16}),
               db = tensor(DType::float32, {32});
  const auto step = [&] {
    plan->refresh(*stream_);
    head->refresh(*stream_);
    plan->forward(*stream_, {.x = x, .y = y});
    plan->backward_input(*stream_, {.dy = y, .dx = dx});
    plan->backward_weights(*stream_, {.x = x, .dy = y, .d_weight = dw, .d_bias = db, .accumulate = true});
    attention->forward(*stream_, {.qkv = qkv, .out = out, .log_sum_exp = level});
    attention->backward(*stream_, {.d_out = out, .qkv = qkv, .out = out, .log_sum_exp = level, .d_qkv = d_qkv});
    head->forward_backward(*stream_, {.x = x, .targets = targets, .loss = loss, .dx = dx, .d_weight = d_weight});
  };
  simt::gpu().calls.clear();
  step();
  EXPECT_TRUE(simt::gpu().calls.empty()) << simt::gpu().calls.front();
}

// By the device's clock, on streams whose work is put off: the host neither waits for an operator nor is in its time.
TEST_F(CudaPlans, OperatorsAreTimedOnTheDevice) {
  const Tensor x = tensor(DType::float32, {100}), y = tensor(DType::float32, {100}), z = tensor(DType::float32, {100});
  const auto other = device_->create_stream();
  stream_->synchronize();
  simt::gpu().clock_ms = 0;
  simt::gpu().work_ms = 2;
  simt::gpu().overlap = simt::Overlap::late;
  device_->reset_profile();
  device_->set_profiling(true);
  const long before = simt::gpu().work_done;
  for (int i = 0; i < 3; ++i) {
    device_->add(*stream_, {x, y, y});
    *simt::gpu().clock_ms += 100;  // the host's own time
  }
  device_->fill(*other, {z, 1});
  EXPECT_EQ(simt::gpu().work_done, before) << "the host did not wait";
  device_->set_profiling(false);
  device_->add(*stream_, {x, y, y});
  const auto add = static_cast<std::size_t>(Op::add), fill = static_cast<std::size_t>(Op::fill);
  for (int i = 0; i < 2; ++i) {  // what was read stays
    const OpProfile& profile = device_->profile();
    EXPECT_EQ(profile.calls[add], 3);
    EXPECT_NEAR(profile.seconds[add], 3 * 2e-3, 1e-9);
    EXPECT_EQ(profile.calls[fill], 1);
    EXPECT_NEAR(profile.seconds[fill], 2e-3, 1e-9);
  }
  device_->reset_profile();
  EXPECT_EQ(device_->profile().calls[add], 0);
  EXPECT_EQ(device_->profile().seconds[add], 0);
  stream_->synchronize();
  simt::gpu().overlap = simt::Overlap::none;
}

TEST_F(CudaPlans, WhileAGraphIsCapturedTheWorkspaceStays) {
  const auto native = static_cast<cudaStream_t>(stream_->native());
  const auto plan = device_->plan(ClassifierShape{16, 16, 40, 0, DType::float32});
  plan->bind(tensor(DType::float32, {40, 16}));
  plan->refresh(*stream_);
  const Tensor x = tensor(DType::float32, {16, 16}), targets = tensor(DType::int32, {16}),
               loss = tensor(DType::float32, {1});
  const ClassifierForwardBackward args{.x = x, .targets = targets, .loss = loss, .backward = false};
  const Tensor wide = tensor(DType::float32, {1024, 512}), gamma = tensor(DType::float32, {512}),
               rows = tensor(DType::float32, {1024}), d_gamma = tensor(DType::float32, {512}),
               d_beta = tensor(DType::float32, {512}), dx = tensor(DType::float32, {1024, 512});
  const LayerNormBackward norm{.dy = wide,
                               .x = wide,
                               .gamma = gamma,
                               .mean = rows,
                               .rstd = rows,
                               .dx = dx,
                               .d_gamma = d_gamma,
                               .d_beta = d_beta};
  TW_CUDA(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal));
  plan->forward_backward(*stream_, args);
  const std::size_t arena = device_->arena_bytes();
  try {
    device_->layer_norm_backward(*stream_, norm);  // more than the classifier has reserved
    ADD_FAILURE() << "the workspace grew from " << arena << " to " << device_->arena_bytes();
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::internal);
    EXPECT_NE(std::string(error.what()).find("run a step first"), std::string::npos) << error.what();
  }
  cudaGraph_t graph = nullptr;
  TW_CUDA(cudaStreamEndCapture(native, &graph));
  const std::size_t held = device_->allocated_bytes();
  device_->layer_norm_backward(*stream_, norm);
  EXPECT_GT(device_->arena_bytes(), arena);
  EXPECT_EQ(device_->allocated_bytes(), held + device_->arena_bytes()) << "the captured block stays";
}

TEST_F(CudaPlans, AGraphsWorkspaceGoesWithTheGraph) {
  const auto native = static_cast<cudaStream_t>(stream_->native());
  cuda::Context context(*device_, 0);
  cudaGraph_t graph = nullptr;
  context.reserve(1000);
  const void* const first = context.workspace(native, 1000);
  EXPECT_EQ(context.take_captured_workspace(), nullptr);
  TW_CUDA(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal));
  EXPECT_EQ(context.workspace(native, 500), first);
  TW_CUDA(cudaStreamEndCapture(native, &graph));
  std::shared_ptr<const void> held = context.take_captured_workspace();
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(context.take_captured_workspace(), nullptr);
  context.reserve(3000);
  EXPECT_EQ(device_->allocated_bytes(), 4000u);
  held.reset();
  EXPECT_EQ(device_->allocated_bytes(), 3000u);
}

TEST_F(CudaPlans, TheDeviceGivesAGraphItsWorkspace) {
  const auto plan = device_->plan(ClassifierShape{16, 16, 40, 0, DType::float32});
  plan->bind(tensor(DType::float32, {40, 16}));
  plan->refresh(*stream_);
  const ClassifierForwardBackward args{.x = tensor(DType::float32, {16, 16}),
                                       .targets = tensor(DType::int32, {16}),
                                       .loss = tensor(DType::float32, {1}),
                                       .backward = false};
  device_->begin_capture(*stream_);
  plan->forward_backward(*stream_, args);
  std::unique_ptr<Graph> graph = device_->end_capture(*stream_);
  const std::size_t small = device_->arena_bytes(), others = device_->allocated_bytes() - small;
  const auto wide = device_->plan(ClassifierShape{4096, 16, 40, 0, DType::float32});
  const std::size_t large = device_->arena_bytes(), of_plan = device_->allocated_bytes() - others - small - large;
  EXPECT_GT(large, small);
  EXPECT_EQ(of_plan, 0u) << "the recorded block is there, and once";
  graph.reset();
  EXPECT_EQ(device_->allocated_bytes(), others + large) << "it went with its graph";
}

TEST_F(CudaPlans, WhatANetworkHoldsDoesNotDependOnTheOneBefore) {
  const ClassifierShape small{16, 16, 40, 0, DType::float32};
  const auto plan = device_->plan(small);
  const std::size_t alone = device_->arena_bytes();
  device_->plan(ClassifierShape{4096, 16, 40, 0, DType::float32});
  EXPECT_GT(device_->arena_bytes(), alone);
  device_->trim();
  EXPECT_EQ(device_->arena_bytes(), 0u);
  EXPECT_EQ(device_->allocated_bytes(), 0u);
  device_->reset_peak_allocated_bytes();
  const auto next = device_->plan(small);
  EXPECT_EQ(device_->peak_allocated_bytes(), alone);
  device_->trim();
  plan->bind(tensor(DType::float32, {40, 16}));
  plan->refresh(*stream_);
  plan->forward_backward(*stream_, {.x = tensor(DType::float32, {16, 16}),
                                    .targets = tensor(DType::int32, {16}),
                                    .loss = tensor(DType::float32, {1}),
                                    .backward = false});
  EXPECT_EQ(device_->arena_bytes(), alone) << "a plan that is still there takes what it needs";
}

TEST_F(CudaPlans, ABlockThatIsFreedWhileAGraphIsRecordedIsNotLost) {
  const std::size_t before = device_->allocated_bytes();
  auto buffer = std::make_unique<Buffer>(*device_, 1000);
  device_->begin_capture(*stream_);
  buffer.reset();
  EXPECT_EQ(device_->allocated_bytes(), before + 1000) << "the driver still has it in use";
  device_->end_capture(*stream_);
  const Buffer next(*device_, 24);
  EXPECT_EQ(device_->allocated_bytes(), before + 24);
}

TEST_F(CudaPlans, LargeHeadsAndManyScoresComeInChunks) {
  const auto head = [](Lab& lab) {
    const std::int64_t rows = 300, in = 8, classes = 2100;
    const auto plan = lab.device.plan(ClassifierShape{rows, in, classes, 0.1f, DType::float32});
    if (lab.device.info().kind == DeviceKind::cuda) {
      EXPECT_NE(plan->description().find("chunks of 128 rows"), std::string::npos) << plan->description();
    }
    plan->bind(lab.in(DType::float32, {classes, in}, normal(classes * in, 1)));
    plan->refresh(*lab.stream);
    plan->forward_backward(*lab.stream, {.x = lab.in(DType::float32, {rows, in}, normal(rows * in, 2)),
                                         .targets = lab.in({rows}, indices(rows, 3, 2100)),
                                         .bias = lab.in(DType::float32, {classes}, normal(classes, 4)),
                                         .loss = lab.out("loss", DType::float32, {1}),
                                         .dx = lab.out("dx", DType::float32, {rows, in}),
                                         .d_weight = lab.out("d_weight", DType::float32, {classes, in}),
                                         .d_bias = lab.out("d_bias", DType::float32, {classes})});
  };
  compare(*device_, Op::classifier, DType::float32, head);
  struct Chunks {
    std::int64_t seq, heads, kv_heads;
    const char* text;
  };
  for (const Chunks& one : {Chunks{256, 3, 3, "2 of 3 heads"}, Chunks{180, 6, 3, "4 of 6 heads"},
                            Chunks{181, 6, 2, "3 of 6 heads"}, Chunks{256, 3, 1, "1 of 3 heads"}}) {
    SCOPED_TRACE(one.text);
    AttentionShape s{1, one.seq, one.heads, 8, true, DType::float32};
    s.kv_heads = one.kv_heads;
    compare(*device_, Op::attention_backward, DType::float32, [&](Lab& lab) {
      const auto plan = lab.device.plan(s);
      if (lab.device.info().kind == DeviceKind::cuda) {
        EXPECT_NE(plan->description().find(one.text), std::string::npos) << plan->description();
      }
      const Tensor qkv = lab.in(DType::float32, s.packed(), normal(s.packed().count(), 1)),
                   out = lab.out("out", DType::float32, s.unpacked()),
                   level = lab.out("level", DType::float32, s.row_values());
      plan->forward(*lab.stream, {.qkv = qkv, .out = out, .log_sum_exp = level});
      plan->backward(*lab.stream, {.d_out = lab.in(DType::float32, s.unpacked(), normal(s.unpacked().count(), 2)),
                                   .qkv = qkv,
                                   .out = out,
                                   .log_sum_exp = level,
                                   .d_qkv = lab.out("d_qkv", DType::float32, s.packed())});
    });
  }
}

TEST_F(CudaPlans, AScaledLossScalesItsGradients) {
  for (const DType type : {DType::float32, DType::fp16}) {
    const auto head = [&](Lab& lab) {
      const std::int64_t rows = 33, in = 24, classes = 40;
      const auto plan = lab.device.plan(ClassifierShape{rows, in, classes, 0.1f, type});
      plan->bind(lab.in(type, {classes, in}, normal(classes * in, 1, 0.2)));
      plan->refresh(*lab.stream);
      StepScalars scalars;
      scalars.loss_scale = 1024;
      plan->forward_backward(*lab.stream, {.x = lab.in(type, {rows, in}, normal(rows * in, 2)),
                                           .targets = lab.in({rows}, indices(rows, 3, 40)),
                                           .loss = lab.out("loss", DType::float32, {1}),
                                           .dx = lab.out("dx", type, {rows, in}),
                                           .d_weight = lab.out("d_weight", DType::float32, {classes, in}),
                                           .scalars = lab.scalars(scalars)});
    };
    compare(*device_, Op::classifier, type, head);
  }
}

TEST_F(CudaPlans, AnUrgentStreamHasTheGreatestPriority) {
  const auto priority = [](Stream& stream) { return static_cast<simt::Stream*>(stream.native())->priority; };
  EXPECT_EQ(priority(*stream_), simt::least_priority);
  EXPECT_EQ(priority(*device_->create_urgent_stream()), simt::greatest_priority);
}

TEST_F(CudaPlans, TooLittleMemoryIsNamed) {
  try {
    device_->plan(ClassifierShape{1 << 20, 8, 8, 0, DType::float32});
    const Buffer all(*device_, std::size_t{65} << 20);
    ADD_FAILURE() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::environment);
    const std::size_t held = device_->allocated_bytes();
    EXPECT_GT(held, 0u);
    for (const std::string& part : {std::string("cannot allocate 68157440 bytes, 33554432 of 67108864 are free"),
                                    "with the " + std::to_string(held) + " held so far at least " +
                                        std::to_string(held + 68157440) + " are needed"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST_F(CudaPlans, LibraryProductsAreTheNetworksOwn) {
  for (const Op pass : {Op::linear_forward, Op::linear_backward_input, Op::linear_backward_weights}) {
    calls().clear();
    const std::vector<LibraryProduct> found = device_->library_products(LinearShape{24, 16, 32, DType::bf16}, pass);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].layout, "plain");
    std::array<void*, 3> memory{};
    for (std::size_t i = 0; i < 3; ++i) {
      buffers_.emplace_back(*device_, found[0].bytes[i]);
      memory[i] = buffers_.back().data();
    }
    found[0].run(*stream_, memory[0], memory[1], memory[2]);
    ASSERT_EQ(calls().size(), 1u);
    EXPECT_EQ(calls()[0].m * calls()[0].n * calls()[0].k, 24u * 16 * 32);
  }
}

}  // namespace
}  // namespace tw::test
