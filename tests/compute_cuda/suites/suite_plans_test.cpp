// Every product of the suites, asked of a device's library: which algorithm does it, or why none does. On a GPU,
// gpu-validate keeps the answers; on the CPU they are of the suite quick. Attention and convolutions by cuDNN have a
// test of their own, which needs no GPU: cudnn_suites_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"
#include "tests/compute_cuda/suites/suite_shapes.hpp"
#include "tests/support/require_gpu.hpp"

namespace tw::test {

using namespace models;

namespace {

struct Asked {
  std::string device, suite;
};
void PrintTo(const Asked& asked, std::ostream* stream) { *stream << asked.suite << " on " << asked.device; }

class SuitePlans : public testing::TestWithParam<Asked> {
 protected:
  void SetUp() override {
    const auto backend = std::ranges::find(backends(), GetParam().device, &Backend::name);
    ASSERT_NE(backend, backends().end());
    if (backend->count() == 0) {
      const std::string why = "no " + GetParam().device + " device: " + backend->why_none();
      if (backend->kind == DeviceKind::cuda) TW_SKIP_WITHOUT_GPU(why);
      GTEST_SKIP() << why;
    }
    static std::map<std::string, std::unique_ptr<Device>> devices;
    std::unique_ptr<Device>& device = devices[GetParam().device];
    if (!device) device = backend->create({.time_algorithms = false});
    device_ = device.get();
  }

  /// Prints the answer for a shape that no suite has asked for yet. What has no algorithm at all is a failure.
  template <class Shape>
  void ask(const std::string& kind, const Shape& shape) {
    static std::set<std::string> known;
    const std::string name = kind + " " + text_of(shape);
    ++asked_;
    if (!known.insert(GetParam().device + name).second) return;
    std::string answer = device_->why_unsupported(shape.dtype);
    if (answer.empty()) answer = device_->why_no_math(shape.math);
    if (answer.empty()) {
      try {
        answer = device_->plan(shape)->description();
      } catch (const Error& error) {
        if (error.failure() != Failure::unsupported) throw;
        answer = "refused: " + std::string(error.what());
        ADD_FAILURE() << name << ": " << error.what();
      }
    } else {
      answer = "unsupported: " + answer;
    }
    std::cout << "answer | " << name << " | " << answer << "\n" << std::flush;
  }

  Device* device_ = nullptr;
  int asked_ = 0;
};

TEST_P(SuitePlans, EveryProductHasAnAlgorithm) {
  const PlannedShapes shapes = suite_shapes(GetParam().suite, GetParam().device, device_->info().memory_bytes);
  for (const LinearShape& shape : shapes.linear) ask("linear", shape);
  for (const ClassifierShape& shape : shapes.classifier) ask("classifier", shape);
  for (const AttentionShape& shape : shapes.attention) {
    if (shape.dtype == DType::float32) ask("attention", shape);  // by products on every device
  }
  EXPECT_GT(asked_, 0);
}

INSTANTIATE_TEST_SUITE_P(Suites, SuitePlans, testing::ValuesIn([] {
                           std::vector<Asked> list;
                           for (const Backend& backend : backends()) {
                             if (backend.kind == DeviceKind::cpu) list.push_back({backend.name, "quick"});
                             if (backend.kind != DeviceKind::cuda) continue;
                             for (const std::string& suite : planning_suites()) list.push_back({backend.name, suite});
                           }
                           return list;
                         }()),
                         [](const testing::TestParamInfo<Asked>& one) {
                           std::string name = one.param.device + "_" + one.param.suite;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(SuiteShapes, AreOfTheLargeNetworksAtTheirSizes) {
  constexpr std::size_t gib = std::size_t{1} << 30;
  PlannedShapes all;
  for (const std::string& suite : planning_suites()) add(all, suite_shapes(suite, "cuda", 79 * gib));
  std::set<std::string> attention;
  for (const AttentionShape& shape : all.attention) attention.insert(text_of(shape));
  EXPECT_TRUE(attention.contains("1 x 8192, 32 heads of 128, 8 of keys and values, causal, bf16")) << "llama3.1-8b";
  EXPECT_TRUE(attention.contains("32 x 1024, 25 heads of 64, causal, bf16")) << "gpt2-1558m";
  EXPECT_TRUE(attention.contains("32 x 512, 16 heads of 64, fp16")) << "bert-large";
  for (const std::int64_t batch : {128, 256}) {  // of the suites, of gpu-validate
    const ConvolutionShape stem{batch, 224, 224, 3, 64, 7, 2, 3, DType::bf16};
    EXPECT_EQ(std::ranges::count(all.convolution, stem), 1) << batch;
  }
  const LinearShape qkv{32 * 1024, 1600, 4800, DType::bf16, Activation::none, Math::fp8};
  EXPECT_EQ(std::ranges::count(all.linear, qkv), 1);
  EXPECT_GT(suite_shapes("standard", "cuda", 160 * gib).attention.size(),
            suite_shapes("standard", "cuda", 20 * gib).attention.size())
      << "more memory, larger micro-batches";
}

}  // namespace
}  // namespace tw::test
