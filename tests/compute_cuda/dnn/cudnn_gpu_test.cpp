// cuDNN on a real GPU, beyond what the tests of all devices say of every convolution and attention: TF32, the sizes of
// the networks, that the fused engines are the ones in use, and the properties that the tests without a GPU rest on.
#include <cstring>
#include <iostream>
#include <regex>
#include <set>

#include "models/compute/cuda/dnn/graphs.hpp"
#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"
#include "tests/embedded/device_json.hpp"
#include "tests/support/comparison.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/require_gpu.hpp"

namespace tw::test {

using namespace models;

namespace {

class CudnnOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (count_cuda_devices() == 0) TW_SKIP_WITHOUT_GPU("no CUDA device: " + why_no_cuda_device());
    std::string why;
    const auto library = cuda::dnn::Library::open(&why);
    if (!library) TW_SKIP_WITHOUT_GPU("no cuDNN: " + why);
    version_ = library->version();
    device_ = make_cuda_device({});
  }
  /// Whether there is a deterministic backward of attention whose workspace does not grow with the tokens' square.
  bool has_linear_workspace() const {
    const int architecture = std::stoi(device_->info().instruction_set.substr(std::string("sm_").size()));
    const std::vector<cuda::dnn::DqSums> sums = cuda::dnn::dq_sums(true, architecture, version_);
    return !sums.empty() && sums.back() != cuda::dnn::DqSums::kept;
  }
  /// At which plain products would want 51 GB.
  static constexpr AttentionShape long_sequence{1, 65536, 2, 64, true, DType::bf16, Math::standard, 1};
  std::size_t version_ = 0;
  std::unique_ptr<Device> device_;
};

Dims image_in(const ConvolutionShape& s) { return s.in(); }
Dims image_out(const ConvolutionShape& s) { return s.out(); }
Dims kernel(const ConvolutionShape& s) { return s.weight(); }

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

// The engines that are taken say that they are deterministic. At the sizes at which a gradient of weights is summed in
// parts, which a note that is wrong would show.
TEST_F(CudnnOnGpu, GradientsOfWeightsAreTheSameBitsEachTime) {
  constexpr int runs = 10;
  for (const ConvolutionShape& s : {ConvolutionShape{256, 56, 56, 64, 64, 3, 1, 1, DType::bf16},
                                    ConvolutionShape{256, 14, 14, 1024, 512, 1, 1, 0, DType::bf16}}) {
    const auto plan = device_->plan(s);
    SCOPED_TRACE(plan->description());
    const std::unique_ptr<Stream> stream = device_->create_stream();
    const auto filled = [&](Buffer& buffer, const Dims& dims, std::uint64_t seed) {
      const Floats some = normal(1 << 20, seed);
      std::vector<bf16> values(static_cast<std::size_t>(dims.count()));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_bf16(some[i % some.size()]);
      device_->copy_from_host(*stream, buffer.data(), values.data(), values.size() * sizeof(bf16));
      stream->synchronize();
      return Tensor{buffer.data(), DType::bf16, dims};
    };
    const auto count = static_cast<std::size_t>(kernel(s).count());
    Buffer x_memory(*device_, static_cast<std::size_t>(image_in(s).count()) * sizeof(bf16)),
        dy_memory(*device_, static_cast<std::size_t>(image_out(s).count()) * sizeof(bf16)),
        sum(*device_, count * sizeof(float));
    const Tensor x = filled(x_memory, image_in(s), 1), dy = filled(dy_memory, image_out(s), 2);
    std::vector<std::uint32_t> first(count), bits(count);
    for (int run = 0; run < runs; ++run) {
      plan->backward_weights(*stream, {.x = x, .dy = dy, .d_weight = {sum.data(), DType::float32, kernel(s)}});
      device_->copy_to_host(*stream, bits.data(), sum.data(), sum.bytes());
      stream->synchronize();
      if (run == 0) first = bits;
      EXPECT_EQ(bits, first) << "run " << run;
    }
  }
}

/// Attention forward and backward.
Case both_ways(const AttentionShape& s) {
  return [s](Lab& lab) {
    const Dims packed{s.batch, s.seq, 3 * s.heads, s.head_dim}, out{s.batch, s.seq, s.heads, s.head_dim},
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

/// The tensors of one shape's forward and backward, on the device.
class AttentionOnDevice {
 public:
  AttentionOnDevice(Device& device, const AttentionShape& s)
      : device_(device), s_(s), stream_(device.create_stream()), plan_(device.plan(s)) {
    fill(qkv_, s.packed().count(), 1);
    fill(d_out_, s.unpacked().count(), 2);
    out_ = std::make_unique<Buffer>(device, bytes(s.unpacked()));
    sums_ = std::make_unique<Buffer>(device, static_cast<std::size_t>(s.row_values().count()) * sizeof(float));
    d_qkv_ = std::make_unique<Buffer>(device, bytes(s.packed()));
    plan_->forward(*stream_,
                   {.qkv = tensor(qkv_, s.packed()), .out = tensor(out_, s.unpacked()), .log_sum_exp = rows()});
  }
  std::string description() const { return plan_->description(); }
  /// The gradient of q, k and v, computed anew.
  std::vector<bf16> backward() {
    plan_->backward(*stream_, {.d_out = tensor(d_out_, s_.unpacked()),
                               .qkv = tensor(qkv_, s_.packed()),
                               .out = tensor(out_, s_.unpacked()),
                               .log_sum_exp = rows(),
                               .d_qkv = tensor(d_qkv_, s_.packed())});
    std::vector<bf16> values(static_cast<std::size_t>(s_.packed().count()));
    device_.copy_to_host(*stream_, values.data(), d_qkv_->data(), d_qkv_->bytes());
    stream_->synchronize();
    return values;
  }

 private:
  static std::size_t bytes(const Dims& dims) { return static_cast<std::size_t>(dims.count()) * sizeof(bf16); }
  static Tensor tensor(const std::unique_ptr<Buffer>& buffer, const Dims& dims) {
    return {buffer->data(), DType::bf16, dims};
  }
  Tensor rows() const { return {sums_->data(), DType::float32, s_.row_values()}; }
  void fill(std::unique_ptr<Buffer>& buffer, std::int64_t count, std::uint64_t seed) {
    const Floats some = normal(1 << 20, seed);
    std::vector<bf16> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = to_bf16(some[i % some.size()]);
    buffer = std::make_unique<Buffer>(device_, values.size() * sizeof(bf16));
    device_.copy_from_host(*stream_, buffer->data(), values.data(), buffer->bytes());
    stream_->synchronize();
  }

  Device& device_;
  AttentionShape s_;
  std::unique_ptr<Stream> stream_;
  std::shared_ptr<AttentionPlan> plan_;
  std::unique_ptr<Buffer> qkv_, out_, sums_, d_out_, d_qkv_;
};

// On any architecture. On sm_100 the engine is asked for by number and nothing but this shows that it keeps its order;
// so it is on sm_90 with sequences for which no part of the kept probabilities fits.
TEST_F(CudnnOnGpu, AttentionsGradientsAreTheSameBitsEachTime) {
  constexpr int runs = 10;
  std::vector<AttentionShape> shapes = {{32, 1024, 12, 64, true, DType::bf16},
                                        {2, 4096, 32, 64, true, DType::bf16, Math::standard, 8},
                                        {1, 8192, 8, 128, true, DType::bf16, Math::standard, 2},
                                        {16, 512, 16, 64, false, DType::bf16}};
  if (has_linear_workspace()) shapes.push_back(long_sequence);
  for (const AttentionShape& s : shapes) {
    AttentionOnDevice attention(*device_, s);
    SCOPED_TRACE(s.packed().str() + ": " + attention.description());
    std::cout << s.packed().str() << ": " << attention.description() << "\n";
    const std::vector<bf16> first = attention.backward();
    for (int run = 1; run < runs; ++run) {
      const std::vector<bf16> again = attention.backward();
      ASSERT_EQ(std::memcmp(again.data(), first.data(), first.size() * sizeof(bf16)), 0) << "run " << run;
    }
  }
}

// A sequence that is too long for the reference, against the engine that adds in any order.
TEST_F(CudnnOnGpu, GradientsOfALongSequenceFollowThoseOfAnyOrder) {
  if (!has_linear_workspace()) GTEST_SKIP() << "no such engine here";
  const AttentionShape s = long_sequence;
  const auto floats = [](const std::vector<bf16>& values) {
    Floats list(values.size());
    for (std::size_t i = 0; i < list.size(); ++i) list[i] = to_float(values[i]);
    return list;
  };
  AttentionOnDevice fixed(*device_, s);
  EXPECT_NE(fixed.description().find("cuDNN, fused"), std::string::npos) << fixed.description();
  const std::unique_ptr<Device> any = make_cuda_device({.deterministic = false});
  AttentionOnDevice other(*any, s);
  const std::vector<bf16> values = fixed.backward();
  // Each may be that far from the true values.
  EXPECT_LE(normalised_error(floats(values), floats(other.backward())),
            2 * tolerance(Op::attention_backward, s.dtype, s.dtype, values.size()))
      << fixed.description();
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
