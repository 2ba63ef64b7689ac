// The engines of attention's backward that are asked for by number, of the real cuDNN for GPUs that are described in
// files: that it has them, with these settings, and what workspace they want. That their sums are the same bits each
// time only a GPU shows (cudnn_gpu_test).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/compute/cuda/dnn/graphs.hpp"
#include "tests/embedded/device_json.hpp"

namespace tw::models::cuda::dnn {
namespace {

constexpr int status_driver_failed = 5001;  // CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER

class CudnnEngines : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    library_ = Library::open(&why);
    if (!library_) GTEST_SKIP() << "no cuDNN: " << why;
  }

  void describe(const char* json) {
    nlohmann::json device = nlohmann::json::parse(json);
    device.erase("source");
    target_ = std::make_unique<Target>(library_, device.dump());
  }

  /// The workspace of the one candidate, after what holds for each; 0 and a failure where there is none.
  std::size_t bytes(const AttentionShape& s, DqSums sums, std::int64_t engine) {
    std::string why;
    const Graph graph = attention_backward_graph(*target_, s, sums);
    const std::vector<Candidate> found = candidates(graph, Heuristics::a, most_proposals, &why);
    EXPECT_EQ(found.size(), 1u) << s.packed().str() << ": " << why;
    if (found.size() != 1) return 0;
    EXPECT_EQ(found[0].engine, engine);
    EXPECT_TRUE(found[0].has(NumericalNote::tensor_core));
    EXPECT_TRUE(found[0].compiled_at_run_time);
    EXPECT_EQ(why_not(found[0], {}), "");
    EXPECT_TRUE(candidates(graph, Heuristics::fallback, most_proposals, &why).empty());
    return found[0].workspace_bytes;
  }

  /// That the sequence twice as long wants about twice as much.
  void expect_linear(AttentionShape s, DqSums sums, std::int64_t engine) {
    const std::size_t once = bytes(s, sums, engine);
    s.seq *= 2;
    EXPECT_LE(bytes(s, sums, engine), 2 * once + (std::size_t{1} << 20)) << s.packed().str();
  }

  /// "compiled", or what went wrong. It takes seconds.
  std::string compiled(const AttentionShape& s, DqSums sums) {
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) return "no libcuda.so.1, not even the toolkit's stub";
    std::string why;
    const std::vector<Candidate> found =
        candidates(attention_backward_graph(*target_, s, sums), Heuristics::a, most_proposals, &why);
    if (found.empty()) return why;
    int status = 0;
    if (ExecutionPlan::make(*target_, found[0], &status, &why)) return "compiled";
    const bool only_loading = status == status_driver_failed && why.find("cuLibraryLoadData") != std::string::npos;
    return only_loading ? "compiled" : why;
  }

  std::shared_ptr<const Library> library_;
  std::unique_ptr<Target> target_;
};

TEST_F(CudnnEngines, several_kernels_on_sm_100) {
  if (dq_sums(true, 100, library_->version()).empty()) GTEST_SKIP() << library_->version_text() << " has none";
  describe(embedded::b200_sxm);
  constexpr std::int64_t engine = 5;
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (AttentionShape s :
         {AttentionShape{32, 1024, 25, 64, true}, AttentionShape{32, 512, 16, 64, false},
          AttentionShape{8, 8192, 32, 128, true, DType::bf16, Math::standard, 8}, AttentionShape{3, 31, 2, 32, true},
          AttentionShape{1, 257, 2, 128, true}, AttentionShape{2, 9, 4, 16, false, DType::bf16, Math::standard, 1}}) {
      s.dtype = dtype;
      expect_linear(s, DqSums::several_kernels, engine);
    }
  }
  EXPECT_EQ(compiled({1, 1024, 25, 64, true, DType::bf16}, DqSums::several_kernels), "compiled");
  EXPECT_EQ(compiled({1, 512, 8, 128, true, DType::fp16, Math::standard, 2}, DqSums::several_kernels), "compiled");
}

TEST_F(CudnnEngines, sums_in_turn_on_sm_90) {
  if (dq_sums(true, 90, library_->version()).size() < 2) GTEST_SKIP() << library_->version_text() << " has none";
  describe(embedded::h200_sxm);
  constexpr std::int64_t engine = 6;
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (AttentionShape s : {AttentionShape{1, 65536, 32, 128, true, DType::bf16, Math::standard, 8},
                             AttentionShape{1, 65536, 2, 64, false}, AttentionShape{3, 31, 2, 32, true}}) {
      s.dtype = dtype;
      expect_linear(s, DqSums::in_turn, engine);
    }
  }
  EXPECT_EQ(compiled({1, 1024, 25, 64, true, DType::bf16}, DqSums::in_turn), "compiled");
}

// What another version does not have ends in a refusal, from which the plain products follow, and in no error.
TEST_F(CudnnEngines, numbers_and_settings_that_are_not_there_are_refused) {
  describe(embedded::b200_sxm);
  for (const EngineChoice& choice : {EngineChoice{12345, {{Knob::stages, 2}}}, EngineChoice{-7, {}},
                                     EngineChoice{5, {{Knob::kernel_config, 31}, {Knob::stages, 1000}}},
                                     EngineChoice{5, {{Knob::tile_m, 1000}, {Knob::stages, 2}}}}) {
    Graph graph = attention_backward_graph(*target_, {1, 1024, 25, 64, true, DType::bf16}, DqSums::kept);
    graph.ask_for(choice);
    std::string why;
    EXPECT_TRUE(candidates(graph, Heuristics::a, most_proposals, &why).empty()) << choice.engine;
    EXPECT_EQ(why.find("engine " + std::to_string(choice.engine) + " is refused: "), 0u) << why;
  }
}

TEST(CudnnDqSums, are_those_of_the_device_and_the_version) {
  using Sums = std::vector<DqSums>;
  for (const int architecture : {80, 90, 100, 103, 120})
    EXPECT_EQ(dq_sums(false, architecture, 92600), Sums{DqSums::any_order}) << architecture;
  EXPECT_EQ(dq_sums(true, 80, 92600), Sums{DqSums::kept});
  EXPECT_EQ(dq_sums(true, 89, 92600), Sums{DqSums::kept});
  EXPECT_EQ(dq_sums(true, 90, 92499), Sums{DqSums::kept});
  EXPECT_EQ(dq_sums(true, 90, 92500), (Sums{DqSums::kept, DqSums::in_turn}));
  for (const int architecture : {100, 103}) {
    EXPECT_EQ(dq_sums(true, architecture, 91800), Sums{}) << architecture;
    EXPECT_EQ(dq_sums(true, architecture, 91801), Sums{DqSums::several_kernels}) << architecture;
  }
  for (const int architecture : {107, 110, 120}) EXPECT_EQ(dq_sums(true, architecture, 92600), Sums{}) << architecture;
}

}  // namespace
}  // namespace tw::models::cuda::dnn
