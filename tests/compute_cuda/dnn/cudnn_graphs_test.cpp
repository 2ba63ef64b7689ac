// Every graph of the networks against the real cuDNN, without a GPU: its heuristics are asked for one that is described
// in a file, and a plan is finalised. With the toolkit's stub as libcuda.so.1, an engine that is compiled at run time
// goes through all but the loading of its code, which is the one error that is accepted.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "models/catalog/description.hpp"
#include "models/compute/cuda/dnn/graphs.hpp"
#include "tests/embedded/device_json.hpp"

namespace tw::models::cuda::dnn {
namespace {

constexpr int status_driver_failed = 5001;  // CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER

class CudnnGraphs : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    library_ = Library::open(&why);
    if (!library_) GTEST_SKIP() << "no cuDNN: " << why;
    target_ = std::make_unique<Target>(library_, embedded::device_json);
  }

  /// The library takes milliseconds for each proposal, so the first few are asked for first.
  static constexpr std::pair<Heuristics, std::int64_t> asked[] = {
      {Heuristics::a, 3}, {Heuristics::a, 64}, {Heuristics::fallback, 64}};

  /// "built" or "compiled" by the first engine that obeys; else what went wrong.
  std::string finalised(const Graph& graph, const Demands& demands) {
    std::string why;
    for (const auto& [mode, most] : asked) {
      for (const Candidate& candidate : candidates(graph, mode, most, &why)) {
        if (why = why_not(candidate, demands); !why.empty()) continue;
        int status = 0;
        const auto plan = ExecutionPlan::make(*target_, candidate, &status, &why);
        if (plan) {
          EXPECT_EQ(plan->workspace_bytes(), candidate.workspace_bytes) << "engine " << candidate.engine;
        }
        if (plan && plan->workspace_bytes() <= std::size_t{1} << 30) return "built";
        const bool only_loading = status == status_driver_failed && why.find("cuLibraryLoadData") != std::string::npos;
        if (only_loading && candidate.compiled_at_run_time) return "compiled";
        return "engine " + std::to_string(candidate.engine) + ": " + (plan ? "too much workspace" : why);
      }
    }
    return "no engine: " + why;
  }

  /// As finalised(), but "proposed" before the plan is made: an engine that is compiled takes seconds for that.
  std::string proposed(const Graph& graph, const Demands& demands) {
    std::string why;
    for (const auto& [mode, most] : asked) {
      for (const Candidate& candidate : candidates(graph, mode, most, &why)) {
        if (why = why_not(candidate, demands); why.empty()) return "proposed";
      }
    }
    return "no engine: " + why;
  }

  std::shared_ptr<const Library> library_;
  std::unique_ptr<Target> target_;
};

TEST_F(CudnnGraphs, the_device_is_the_one_of_the_file) {
  const std::string json = target_->device_json();
  EXPECT_NE(json.find("\"deviceVer\""), std::string::npos) << json;
  EXPECT_NE(json.find("900"), std::string::npos) << json;
  EXPECT_NE(json.find("132"), std::string::npos) << json;
}

struct Precision {
  const char* name;
  DType dtype;
  Math math;
};
struct Case {
  const char* network;
  Precision precision;
};
void PrintTo(const Case& c, std::ostream* stream) { *stream << c.network << " " << c.precision.name; }

class CudnnConvolutions : public CudnnGraphs, public testing::WithParamInterface<Case> {
 protected:
  /// All convolutions of the network, equal shapes once.
  std::vector<ConvolutionShape> shapes() const {
    const NetworkDescription network = find_network(GetParam().network);
    std::vector<ConvolutionShape> list;
    for (const Product& p : products(network, 32, 0)) {
      if (p.kind != Product::Kind::convolution) continue;
      const auto by_axis = [](const Product::PerAxis& sizes) { return PerAxis(sizes.height, sizes.width); };
      list.push_back({p.batch, p.height, p.width, p.in_channels, p.out_channels, by_axis(p.kernel), by_axis(p.stride),
                      by_axis(p.padding), GetParam().precision.dtype, GetParam().precision.math, p.groups});
    }
    return list;
  }
  static std::string text(const ConvolutionShape& s) {
    return std::to_string(s.in_channels) + " → " + std::to_string(s.out_channels) + " at " + std::to_string(s.height) +
           ", kernel " + s.kernel.str() + ", stride " + s.stride.str();
  }
};

TEST_P(CudnnConvolutions, forward) {
  for (const ConvolutionShape& s : shapes()) {
    EXPECT_EQ(finalised(convolution_graph(*target_, s, Op::convolution_forward), demands_of(s)), "built") << text(s);
  }
}

TEST_P(CudnnConvolutions, backward_input) {
  for (const ConvolutionShape& s : shapes()) {
    EXPECT_EQ(finalised(convolution_graph(*target_, s, Op::convolution_backward_input), demands_of(s)), "built")
        << text(s);
  }
}

TEST_P(CudnnConvolutions, backward_weights) {
  const bool half = is_half(GetParam().precision.dtype);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (half && !driver) GTEST_SKIP() << "no libcuda.so.1, not even the toolkit's stub";
  const bool compiles = GetParam().network == std::string("resnet-50") && GetParam().precision.dtype == DType::bf16;
  std::set<std::string> compiled;  // one of each kernel and stride
  for (ConvolutionShape s : shapes()) {
    if (half && s.in_channels % 2 == 1) {
      EXPECT_EQ(proposed(added_weights_graph(*target_, s), demands_of(s)).find("no engine"), 0u) << text(s);
    }
    if (half && s.in_channels < 8 && s.out_channels % 8 == 0) s.in_channels = 8;  // padded, as the first layer must be
    if (half && s.in_channels % 8 == 0) {
      const Graph graph = added_weights_graph(*target_, s);
      EXPECT_EQ(proposed(graph, demands_of(s)), "proposed") << text(s);
      if (compiles && compiled.insert(s.kernel.str() + " " + s.stride.str()).second) {
        EXPECT_EQ(finalised(graph, demands_of(s)), "compiled") << text(s);
      }
      continue;
    }
    if (half) {  // widened
      s.dtype = DType::float32;
      s.math = Math::tf32;
    }
    EXPECT_EQ(finalised(convolution_graph(*target_, s, Op::convolution_backward_weights), demands_of(s)), "built")
        << text(s);
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, CudnnConvolutions, testing::ValuesIn([] {
                           std::vector<Case> cases;
                           for (const char* network : {"resnet-50", "resnet-tiny", "inception-v3", "inception-tiny"}) {
                             for (const Precision& precision : {Precision{"float32", DType::float32, Math::standard},
                                                                Precision{"tf32", DType::float32, Math::tf32},
                                                                Precision{"bf16", DType::bf16, Math::standard},
                                                                Precision{"fp16", DType::fp16, Math::standard}}) {
                               cases.push_back({network, precision});
                             }
                           }
                           return cases;
                         }()),
                         [](const testing::TestParamInfo<Case>& one) {
                           std::string name = std::string(one.param.network) + "_" + one.param.precision.name;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

class CudnnAttention : public CudnnGraphs, public testing::WithParamInterface<const char*> {};

TEST_P(CudnnAttention, both_directions) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) GTEST_SKIP() << "no libcuda.so.1, not even the toolkit's stub";
  for (const Product& p : products(find_network(GetParam()), 4, 1024)) {
    if (p.kind != Product::Kind::attention) continue;
    for (const AttentionShape& s : {AttentionShape{p.batch, p.seq, p.heads, p.head_dim, true, DType::bf16},
                                    AttentionShape{p.batch, p.seq, p.heads, p.head_dim, false, DType::fp16}}) {
      EXPECT_EQ(finalised(attention_forward_graph(*target_, s), {}), "compiled");
      EXPECT_EQ(finalised(attention_backward_graph(*target_, s, DqSums::kept), {}), "compiled");
      EXPECT_EQ(finalised(attention_backward_graph(*target_, s, DqSums::any_order), {.deterministic = false}),
                "compiled");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, CudnnAttention, testing::Values("gpt2-124m", "gpt2-1558m"),
                         [](const testing::TestParamInfo<const char*>& network) {
                           return std::string(network.param).substr(5);
                         });

// Grouped convolutions: several channels in a group, and one (depthwise).
TEST_F(CudnnGraphs, groups) {
  const std::set<std::string> usable = {"built",
                                        "compiled"};  // by an engine of the library, or by one made for the graph
  for (const std::int64_t groups : {4, 64}) {
    ConvolutionShape s{32, 28, 28, 64, 64, 3, 1, 1, DType::float32, Math::standard, groups};
    for (const Op pass : {Op::convolution_forward, Op::convolution_backward_input, Op::convolution_backward_weights})
      EXPECT_TRUE(usable.contains(finalised(convolution_graph(*target_, s, pass), demands_of(s))))
          << to_string(pass) << groups;
    s.dtype = DType::bf16;
    for (const Op pass : {Op::convolution_forward, Op::convolution_backward_input})
      EXPECT_TRUE(usable.contains(finalised(convolution_graph(*target_, s, pass), demands_of(s))))
          << to_string(pass) << groups;
  }
}

TEST_F(CudnnGraphs, attention_at_odd_sizes) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) GTEST_SKIP() << "no libcuda.so.1, not even the toolkit's stub";
  for (const AttentionShape& s :
       {AttentionShape{3, 31, 2, 32, true, DType::bf16}, AttentionShape{1, 127, 3, 128, true, DType::fp16}}) {
    EXPECT_EQ(finalised(attention_forward_graph(*target_, s), {}), "compiled");
    EXPECT_EQ(finalised(attention_backward_graph(*target_, s, DqSums::kept), {}), "compiled");
  }
}

// Attention over all positions at the sizes of bert-base and bert-large.
TEST_F(CudnnGraphs, bidirectional_attention) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) GTEST_SKIP() << "no libcuda.so.1, not even the toolkit's stub";
  constexpr bool causal = false;
  for (const std::int64_t heads : {12, 16}) {
    for (const std::int64_t seq : {128, 512}) {
      for (const std::int64_t batch : {1, 8, 64}) {
        const AttentionShape s{batch, seq, heads, 64, causal, DType::bf16};
        EXPECT_EQ(proposed(attention_forward_graph(*target_, s), {}), "proposed") << s.packed().str();
        for (const bool deterministic : {true, false}) {
          const Demands demands{.deterministic = deterministic};
          EXPECT_EQ(proposed(attention_backward_graph(*target_, s, deterministic ? DqSums::kept : DqSums::any_order),
                             demands),
                    "proposed")
              << s.packed().str();
        }
      }
    }
  }
  for (const AttentionShape& s :
       {AttentionShape{32, 512, 16, 64, causal, DType::bf16}, AttentionShape{1, 512, 16, 64, causal, DType::fp16}}) {
    EXPECT_EQ(finalised(attention_forward_graph(*target_, s), {}), "compiled");
    EXPECT_EQ(finalised(attention_backward_graph(*target_, s, DqSums::kept), {}), "compiled");
    EXPECT_EQ(finalised(attention_backward_graph(*target_, s, DqSums::any_order), {.deterministic = false}),
              "compiled");
  }
}

// Grouped queries at the sizes of the llama networks: the library takes keys and values of fewer heads, and sums their
// gradients itself.
TEST_F(CudnnGraphs, grouped_attention) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) GTEST_SKIP() << "no libcuda.so.1, not even the toolkit's stub";
  struct Heads {
    std::int64_t heads, kv_heads, head_dim;
  };
  for (const Heads& h : {Heads{32, 8, 64}, Heads{24, 8, 128}, Heads{32, 8, 128}, Heads{64, 8, 128}, Heads{4, 1, 16}}) {
    for (const std::int64_t seq : {512, 2048, 4096, 8192}) {
      for (const std::int64_t batch : {1, 32}) {
        const AttentionShape s{batch, seq, h.heads, h.head_dim, true, DType::bf16, Math::standard, h.kv_heads};
        EXPECT_EQ(proposed(attention_forward_graph(*target_, s), {}), "proposed") << s.packed().str();
        for (const bool deterministic : {true, false}) {
          const Demands demands{.deterministic = deterministic};
          EXPECT_EQ(proposed(attention_backward_graph(*target_, s, deterministic ? DqSums::kept : DqSums::any_order),
                             demands),
                    "proposed")
              << s.packed().str();
        }
      }
    }
  }
  for (const AttentionShape& s : {AttentionShape{4, 4096, 32, 64, true, DType::bf16, Math::standard, 8},
                                  AttentionShape{2, 9, 4, 16, false, DType::fp16, Math::standard, 1}}) {
    EXPECT_EQ(finalised(attention_forward_graph(*target_, s), {}), "compiled");
    EXPECT_EQ(finalised(attention_backward_graph(*target_, s, DqSums::kept), {}), "compiled");
    EXPECT_EQ(finalised(attention_backward_graph(*target_, s, DqSums::any_order), {.deterministic = false}),
              "compiled");
  }
}

// The deterministic backward wants memory that grows with the square of the sequence: what the library says of it
// before anything is compiled, for the whole and for parts.
TEST_F(CudnnGraphs, attention_in_parts) {
  const std::size_t gib = std::size_t{1} << 30;
  const AttentionShape s{32, 8192, 64, 128, true, DType::bf16, Math::standard, 8};
  const auto bytes = [&](bool deterministic, const AttentionPart& part) {
    return least_workspace_bytes(
        attention_backward_graph(*target_, s, deterministic ? DqSums::kept : DqSums::any_order, part),
        {.deterministic = deterministic});
  };
  EXPECT_GT(bytes(true, {}), 256 * gib);
  EXPECT_GT(bytes(true, {1, 8}), 8 * gib);
  EXPECT_GT(bytes(true, {1, 4}), 4 * gib);
  EXPECT_LT(bytes(true, {1, 4}), 5 * gib);
  EXPECT_LT(bytes(true, {1, 1}), 2 * gib);
  EXPECT_LT(bytes(false, {1, 8}), gib);
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver) GTEST_SKIP() << "no libcuda.so.1, not even the toolkit's stub";
  EXPECT_EQ(finalised(attention_backward_graph(*target_, s, DqSums::kept, {1, 4}), {}), "compiled");
}

TEST_F(CudnnGraphs, a_head_dim_that_8_does_not_divide_has_no_engine) {
  const std::string got = finalised(attention_forward_graph(*target_, {1, 64, 2, 20, true, DType::bf16}), {});
  EXPECT_EQ(got.find("no engine"), 0u) << got;
}

// What the convolutions of a step would silently become: engines that the demands keep out are among the proposals.
TEST_F(CudnnGraphs, demands_keep_engines_out) {
  const ConvolutionShape s{32, 56, 56, 64, 64, 3, 1, 1, DType::float32, Math::standard};
  std::set<std::string> reasons;
  std::string why;
  for (const Op pass : {Op::convolution_forward, Op::convolution_backward_weights}) {
    for (const Heuristics mode : {Heuristics::a, Heuristics::fallback}) {
      for (const Candidate& candidate : candidates(convolution_graph(*target_, s, pass), mode, 64, &why)) {
        reasons.insert(why_not(candidate, demands_of(s)));
      }
    }
  }
  EXPECT_TRUE(reasons.count("")) << "none obeys";
  EXPECT_TRUE(reasons.count("is not deterministic"));
  EXPECT_TRUE(reasons.count("rounds float32 for tensor cores"));
}

}  // namespace
}  // namespace tw::models::cuda::dnn
