// cuDNN on a real GPU, beyond what the tests of all devices say of every convolution and attention: TF32, the sizes of
// the networks, that the fused engines are the ones in use, and the properties that the tests without a GPU rest on.
#include <iostream>
#include <regex>
#include <set>

#include "models/compute/cuda/cuda_device.hpp"
#include "models/compute/cuda/dnn/graph.hpp"
#include "models/compute/error.hpp"
#include "tests/embedded/device_json.hpp"
#include "tests/support/comparison.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/require_gpu.hpp"

namespace tw::test {
namespace {

class CudnnOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (count_cuda_devices() == 0) TW_SKIP_WITHOUT_GPU("no CUDA device: " + why_no_cuda_device());
    std::string why;
    if (!cuda::dnn::Library::open(&why)) TW_SKIP_WITHOUT_GPU("no cuDNN: " + why);
    device_ = make_cuda_device({});
  }
  std::unique_ptr<Device> device_;
};

Dims image_in(const ConvolutionShape& s) { return {s.batch, s.height, s.width, s.in_channels}; }
Dims image_out(const ConvolutionShape& s) { return {s.batch, s.out_height(), s.out_width(), s.out_channels}; }
Dims kernel(const ConvolutionShape& s) { return {s.out_channels, s.kernel, s.kernel, s.in_channels}; }

/// All passes on small integers, which each precision holds: sums of few are exact.
test::Case all_passes(ConvolutionShape s) {
  return [s](Lab& lab) {
    ConvolutionShape on_device = s;
    if (lab.device.info().kind == DeviceKind::reference) on_device.math = Math::standard;
    const auto plan = lab.device.plan(on_device);
    plan->bind(lab.in(s.dtype, kernel(s), integers(kernel(s).count(), 2, -1, 1)));
    plan->refresh(*lab.stream);
    const Tensor x = lab.in(s.dtype, image_in(s), integers(image_in(s).count(), 1, 0, 1));
    const Tensor dy = lab.in(s.dtype, image_out(s), integers(image_out(s).count(), 3, 0, 1));
    plan->forward(*lab.stream, {.x = x, .y = lab.out("y", s.dtype, image_out(s))});
    plan->backward_input(*lab.stream, {.dy = dy, .dx = lab.out("dx", s.dtype, image_in(s))});
    for (const bool accumulate : {false, true}) {
      const Dims k = kernel(s);
      plan->backward_weights(*lab.stream, {.x = x,
                                           .dy = dy,
                                           .d_weight = accumulate ? lab.in_out("d_weight +=", DType::float32, k,
                                                                               integers(k.count(), 4, -9, 9))
                                                                  : lab.out("d_weight", DType::float32, k),
                                           .accumulate = accumulate});
    }
  };
}

TEST_F(CudnnOnGpu, ConvolutionsOfANetworkAreExactOnIntegers) {
  struct Precision {
    DType dtype;
    Math math;
  };
  for (const Precision& precision : {Precision{DType::float32, Math::standard}, Precision{DType::float32, Math::tf32},
                                     Precision{DType::bf16, Math::standard}, Precision{DType::fp16, Math::standard}}) {
    // Kernel, stride and channels as in ResNet-50, on smaller images: at most 256 terms, which bf16 counts.
    for (ConvolutionShape s :
         {ConvolutionShape{4, 28, 28, 3, 64, 7, 2, 3}, ConvolutionShape{4, 14, 14, 64, 64, 1, 1, 0},
          ConvolutionShape{4, 14, 14, 16, 64, 3, 1, 1}, ConvolutionShape{4, 14, 14, 16, 64, 3, 2, 1},
          ConvolutionShape{4, 14, 14, 64, 128, 1, 2, 0}}) {
      s.dtype = precision.dtype;
      s.math = precision.math;
      SCOPED_TRACE(std::string(to_string(s.dtype)) + " " + to_string(s.math) + " " + kernel(s).str());
      compare(*device_, Op::convolution_forward, s.dtype, all_passes(s), Exactness::exact);
      std::cout << to_string(s.dtype) << " " << to_string(s.math) << " " << kernel(s).str() << ": "
                << device_->plan(s)->description() << "\n";
    }
  }
}

/// Attention forward and backward.
Case both_ways(const AttentionShape& s) {
  return [s](Lab& lab) {
    const Dims packed{s.batch, s.seq, 3, s.heads, s.head_dim}, out{s.batch, s.seq, s.heads, s.head_dim},
        rows{s.batch, s.heads, s.seq};
    const auto plan = lab.device.plan(s);
    const Tensor qkv = lab.in(s.dtype, packed, normal(packed.count(), 1));
    const Tensor y = lab.out("out", s.dtype, out, 1), sums = lab.out("log_sum_exp", DType::float32, rows, 0);
    plan->forward(*lab.stream, {.qkv = qkv, .out = y, .log_sum_exp = sums});
    plan->backward(*lab.stream, {.d_out = lab.in(s.dtype, out, normal(out.count(), 2)),
                                 .qkv = qkv,
                                 .out = y,
                                 .log_sum_exp = sums,
                                 .d_qkv = lab.out("d_qkv", s.dtype, packed)});
  };
}

TEST_F(CudnnOnGpu, AttentionIsFusedAtTheSizesOfNetworks) {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    for (AttentionShape s : {AttentionShape{2, 512, 3, 64, true}, AttentionShape{1, 384, 2, 64, false},
                             AttentionShape{1, 257, 2, 128, true}}) {
      s.dtype = dtype;
      const std::string description = device_->plan(s)->description();
      std::cout << to_string(dtype) << " " << s.seq << ": " << description << "\n";
      EXPECT_NE(description.find("cuDNN, fused"), std::string::npos) << description;
      compare(*device_, Op::attention_backward, dtype, both_ways(s));
    }
  }
}

TEST_F(CudnnOnGpu, AttentionThatAddsInAnyOrderFollowsTheReference) {
  device_ = make_cuda_device({.deterministic = false});
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const AttentionShape s{2, 512, 3, 64, true, dtype};
    const Case run = both_ways(s);
    EXPECT_NE(device_->plan(s)->description().find("cuDNN, fused"), std::string::npos);
    const std::vector<Output> want = run_on(reference_device(), run), got = run_on(*device_, run);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(normalised_error(got[i].values, want[i].values),
                tolerance(Op::attention_backward, dtype, got[i].dtype, got[i].values.size(), got[i].roundings))
          << got[i].name;
    }
  }
}

/// The names in a flat JSON object.
std::set<std::string> names(const std::string& json) {
  static const std::regex name("\"([A-Za-z0-9_]+)\"\\s*:");
  std::set<std::string> found;
  for (std::sregex_iterator at(json.begin(), json.end(), name), end; at != end; ++at) found.insert((*at)[1]);
  return found;
}

TEST_F(CudnnOnGpu, DevicePropertiesHaveTheNamesOfTheCommittedFile) {
  std::string why;
  const cuda::dnn::Target target(cuda::dnn::Library::open(&why));
  const std::string here = target.device_json();
  std::cout << here << "\n";
  EXPECT_EQ(names(here), names(embedded::device_json));
}

}  // namespace
}  // namespace tw::test
