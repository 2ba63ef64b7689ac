// What the cuda device asks of cuDNN for attention, on a stand-in that runs graphs on the host.
#include <utility>
#include <vector>

#include "models/compute/cuda/context.hpp"
#include "tests/compute_cuda/dnn/dnn_plans.hpp"
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST_F(DnnPlans, AttentionIsFusedWhereTheLibraryHasIt) {
  EXPECT_TRUE(has(device_->plan(fused)->description(), "cuDNN, fused"));
  struct Refused {
    AttentionShape shape;
    const char* reason;
  };
  for (const Refused& one : {Refused{{2, 9, 2, 16, true, DType::float32}, "takes bf16 and fp16, not float32"},
                             Refused{{2, 9, 2, 12, true, DType::bf16}, "a head_dim that 8 divides, not 12"},
                             Refused{{2, 1, 2, 16, true, DType::bf16}, "no backward for one position"}}) {
    const std::string description = device_->plan(one.shape)->description();
    EXPECT_TRUE(has(description, one.reason)) << description;
  }
  simt::gpu().architecture = 120;
  open();
  EXPECT_TRUE(
      has(device_->plan(fused)->description(), "deterministic attention is for sm_80 to sm_103, this is sm_120"));
  open(false);
  EXPECT_TRUE(has(device_->plan(fused)->description(), "cuDNN, fused")) << "any order is there on later ones";
  simt::gpu().architecture = 90;
  cudnn::state().version = 90800;
  open();
  EXPECT_TRUE(has(device_->plan(fused)->description(), "cuDNN 9.8.0 is too old"));
  cudnn::state().version = 91700;
  open();
  EXPECT_TRUE(has(device_->plan(fused)->description(), "cuDNN 9.17.0 is too old for fused attention on sm_90"));
  simt::gpu().architecture = 80;
  open();
  EXPECT_TRUE(has(device_->plan(fused)->description(), "cuDNN, fused")) << "the fault was one of sm_90";
}

using Knobs = std::vector<std::pair<int, std::int64_t>>;  // CUDNN_KNOB_TYPE_…, value
const Knobs of_9_18 = {{24, 31}, {14, 2}};
const Knobs of_9_23 = {{40, 3}, {41, 2}, {24, 2}, {38, 0}, {27, 0}, {14, 2}};

// Heuristics of sm_100 propose no deterministic backward, so it is asked for, by numbers that differ between versions.
TEST_F(DnnPlans, DeterministicBackwardOfSm100IsAskedForByEngineAndSettings) {
  cudnn::state().proposals = {{3, {0}}};
  cudnn::state().engines = {{5, {0}, true}};
  AttentionShape wide_heads = fused;
  wide_heads.head_dim = 256;
  Knobs of_9_23_for_256 = of_9_23;
  of_9_23_for_256.back().second = 3;
  struct Expected {
    int architecture;
    std::size_t version;
    AttentionShape shape;
    Knobs knobs;
  };
  for (const Expected& one :
       {Expected{100, 91801, fused, of_9_18}, Expected{103, 92200, fused, of_9_18},
        Expected{100, 92300, fused, of_9_23}, Expected{100, 92600, grouped, of_9_23},
        Expected{103, 92600, wide_heads, of_9_23_for_256}, Expected{100, 92200, wide_heads, of_9_18}}) {
    SCOPED_TRACE(std::to_string(one.architecture) + " " + std::to_string(one.version));
    simt::gpu().architecture = one.architecture;
    cudnn::state().version = one.version;
    cudnn::state().asked.clear();
    open();
    const std::string text = device_->plan(one.shape)->description();
    EXPECT_TRUE(has(text, "forward engine 3")) << text;
    EXPECT_TRUE(has(text, "backward engine 5, tensor cores, compiled at run time, deterministic")) << text;
    EXPECT_FALSE(has(text, "in turn")) << text;
    ASSERT_FALSE(cudnn::state().asked.empty());
    for (const cudnn::Asked& asked : cudnn::state().asked) {
      EXPECT_EQ(asked.engine, 5);
      EXPECT_EQ(asked.knobs, one.knobs);
      EXPECT_EQ(asked.operations, one.shape.group() == 1 ? 21u : 23u) << "without a sum of dq";
    }
  }
}

TEST_F(DnnPlans, WithoutThatEngineSm100HasPlainProducts) {
  simt::gpu().architecture = 100;
  cudnn::state().proposals = {{7, {0}}};
  const auto taken = [&] {
    cudnn::state().asked.clear();
    open();
    return device_->plan(fused)->description();
  };
  std::string text;
  cudnn::state().version = 91800;
  EXPECT_TRUE(has(text = taken(), "cuDNN 9.18.0 is too old for deterministic attention on sm_100")) << text;
  EXPECT_TRUE(cudnn::state().asked.empty());
  cudnn::state().version = 91900;
  EXPECT_TRUE(has(text = taken(), "engine 5 is refused: ")) << text << ": it has none of that number";
  EXPECT_TRUE(has(text, "own softmax")) << text;
  for (const int status : {2000, 3007}) {
    cudnn::state().engines = {{5, {0}, true}};
    cudnn::state().engines[0].config_status = status;
    EXPECT_TRUE(has(text = taken(), "engine 5 is refused: ")) << text;
    EXPECT_TRUE(has(text, "made-up refusal")) << text;
    EXPECT_TRUE(has(text, "own softmax")) << text << ": engine 7, which is proposed, has no promised order";
  }
  cudnn::state().engines = {{5, {0}, true}};
  cudnn::state().engines[0].config_status = 4000;  // the library is broken, which is no refusal
  EXPECT_THROW(taken(), Error);
  cudnn::state().engines = {{5, {0, 4}, true}};
  EXPECT_TRUE(has(text = taken(), "engine 5 is not deterministic")) << text;
  open(false);
  EXPECT_TRUE(has(text = device_->plan(fused)->description(), "backward engine 7")) << text;
}

TEST_F(DnnPlans, NoOtherDeviceIsAskedForAnEngine) {
  cudnn::state().proposals = {{3, {0}}};
  cudnn::state().engines = {{5, {0}}, {6, {0}}};
  cudnn::state().version = 92600;
  for (const int architecture : {80, 89, 90, 120}) {
    for (const bool deterministic : {true, false}) {
      simt::gpu().architecture = architecture;
      open(deterministic);
      device_->plan(fused);
      device_->plan(wide);
    }
  }
  EXPECT_TRUE(cudnn::state().asked.empty());
}

TEST_F(DnnPlans, GroupedQueriesAreFused) {
  EXPECT_TRUE(has(device_->plan(grouped)->description(), "cuDNN, fused"));
  EXPECT_FALSE(has(device_->plan(grouped)->description(), "parts"));
}

/// An engine whose workspace for the backward of grouped fits in this many parts, and not in fewer.
cudnn::Proposal that_fits_in(std::int64_t parts) {
  const std::int64_t limit = static_cast<std::int64_t>(simt::gpu().memory_bytes / 8),
                     scores = grouped.row_values().count() * grouped.seq;
  return {.engine = 5, .notes = {0}, .bytes_each_score = (limit - 1000) / (scores / parts)};
}

// The library's workspace grows with the square of the sequence: a limit to it must not end in plain products.
TEST_F(DnnPlans, BackwardThatWantsTooMuchComesInParts) {
  for (const std::int64_t parts : {2, 4, 8}) {  // a sample, half of the heads of one, one key head
    cudnn::state().proposals = {that_fits_in(parts)};
    open();
    const std::string description = device_->plan(grouped)->description();
    EXPECT_TRUE(has(description, ", deterministic, in " + std::to_string(parts) + " parts")) << description;
  }
  cudnn::Proposal large = that_fits_in(8);
  large.bytes_each_score *= 2;
  cudnn::state().proposals = {large};
  open();
  const std::string description = device_->plan(grouped)->description();
  EXPECT_TRUE(has(description, "own softmax")) << description;
  EXPECT_TRUE(has(description, "fused: engine 5 wants ")) << description;
  // The row values of half of the heads of 9 positions would begin at an address that is not 16-byte aligned.
  AttentionShape odd = grouped;
  odd.seq = 9;
  cudnn::Proposal half_fits = that_fits_in(4);
  half_fits.bytes_each_score = half_fits.bytes_each_score * (grouped.seq * grouped.seq) / (odd.seq * odd.seq);
  cudnn::state().proposals = {half_fits};
  open();
  const std::string whole = device_->plan(odd)->description();
  EXPECT_TRUE(has(whole, "fused: engine 5 wants ")) << whole;
}

// Where not even one key head of a sample fits. As fast as the parts it is not, so it comes last.
TEST_F(DnnPlans, BackwardThatFitsInNoPartIsSummedInTurnOnSm90) {
  cudnn::Proposal large = that_fits_in(8);
  large.bytes_each_score *= 2;
  cudnn::state().proposals = {large};
  cudnn::state().engines = {{6, {0}, true}};
  const auto taken = [&](int architecture, std::size_t version) {
    simt::gpu().architecture = architecture;
    cudnn::state().version = version;
    cudnn::state().asked.clear();
    open();
    return device_->plan(grouped)->description();
  };
  std::string text = taken(90, 92500);
  EXPECT_TRUE(has(text, "backward engine 6, tensor cores, compiled at run time, deterministic, dq summed in turn"))
      << text;
  EXPECT_FALSE(has(text, "parts")) << text;
  ASSERT_FALSE(cudnn::state().asked.empty());
  for (const cudnn::Asked& asked : cudnn::state().asked) {
    EXPECT_EQ(asked.engine, 6);
    EXPECT_EQ(asked.knobs, (Knobs{{40, 2}, {41, 1}, {24, 2}, {38, 0}, {27, 0}, {14, 4}}));
    EXPECT_EQ(asked.operations, 24u) << "with a sum of dq";
  }
  for (const auto& [architecture, version] : {std::pair(90, 92400), std::pair(80, 92500)}) {
    EXPECT_TRUE(has(text = taken(architecture, version), "own softmax")) << text;
    EXPECT_TRUE(cudnn::state().asked.empty()) << version;
  }
  cudnn::state().engines.clear();
  EXPECT_TRUE(has(text = taken(90, 92600), "engine 5 wants ")) << text;
  EXPECT_TRUE(has(text, "engine 6 is refused: ")) << text;
  cudnn::state().engines = {{6, {0}, true}};
  cudnn::state().proposals = {that_fits_in(8)};
  EXPECT_TRUE(has(text = taken(90, 92500), ", deterministic, in 8 parts")) << text;
  EXPECT_TRUE(cudnn::state().asked.empty());
}

/// Both directions by a plan of cuDNN's.
test::Case both_ways(const AttentionShape& s, bool deterministic) {
  return [s, deterministic](Lab& lab) {
    std::unique_ptr<cuda::Context> context;
    std::unique_ptr<AttentionPlan> plan;
    if (lab.device.info().kind == DeviceKind::cuda) {
      std::string why;
      context = std::make_unique<cuda::Context>(lab.device, 0, true, deterministic);
      plan = make_dnn_attention(*context, s, &why);
      ASSERT_TRUE(plan) << why;
    } else {
      plan = lab.device.plan(s);
    }
    const Tensor qkv = lab.in(s.dtype, s.packed(), normal(s.packed().count(), 1));
    const Tensor y = lab.out("out", s.dtype, s.unpacked(), 1),
                 sums = lab.out("log_sum_exp", DType::float32, s.row_values(), 0);
    plan->forward(*lab.stream, {.qkv = qkv, .out = y, .log_sum_exp = sums});
    plan->backward(*lab.stream, {.d_out = lab.in(s.dtype, s.unpacked(), normal(s.unpacked().count(), 2)),
                                 .qkv = qkv,
                                 .out = y,
                                 .log_sum_exp = sums,
                                 .d_qkv = lab.out("d_qkv", s.dtype, s.packed())});
  };
}

TEST_F(DnnPlans, AttentionThatAddsInAnyOrderGivesTheSame) {
  cudnn::state().proposals = {{5, {0}}};
  for (const bool deterministic : {true, false}) {
    compare(*device_, Op::attention_backward, fused.dtype, both_ways(fused, deterministic));
    EXPECT_EQ(cudnn::state().runs.back().operations, deterministic ? 21u : 22u);
    compare(*device_, Op::attention_backward, grouped.dtype, both_ways(grouped, deterministic));
    EXPECT_EQ(cudnn::state().runs.back().operations, deterministic ? 23u : 24u) << "two sums over groups";
  }
}

TEST_F(DnnPlans, BackwardByAnEngineThatIsAskedForGivesTheSame) {
  cudnn::state().engines = {{5, {0}}, {6, {0}}};
  cudnn::state().proposals = {{3, {0}}};
  simt::gpu().architecture = 100;
  open();
  for (const AttentionShape& s : {fused, grouped}) {
    compare(*device_, Op::attention_backward, s.dtype, both_ways(s, true));
    EXPECT_EQ(cudnn::state().runs.back().engine, 5);
  }
  simt::gpu().architecture = 90;
  cudnn::state().version = 92500;
  cudnn::Proposal large = that_fits_in(8);
  large.bytes_each_score *= 2;
  cudnn::state().proposals = {large};
  open();
  compare(*device_, Op::attention_backward, grouped.dtype, both_ways(grouped, true));
  EXPECT_EQ(cudnn::state().runs.back().engine, 6);
  EXPECT_EQ(cudnn::state().runs.back().operations, 24u);
}

TEST_F(DnnPlans, BackwardInPartsGivesTheSame) {
  for (const std::int64_t parts : {1, 2, 4, 8}) {
    SCOPED_TRACE(parts);
    cudnn::state().proposals = {that_fits_in(parts)};
    compare(*device_, Op::attention_backward, grouped.dtype, both_ways(grouped, true));
    // The last runs are those of the plan; each computes a part.
    const std::vector<cudnn::Run>& runs = cudnn::state().runs;
    std::int64_t backwards = 0;
    while (runs[runs.size() - 1 - static_cast<std::size_t>(backwards)].operations == 23u) ++backwards;
    EXPECT_EQ(backwards, parts);
  }
}

}  // namespace
}  // namespace tw::test
