// What only the cpu device promises: nothing is allocated while it runs, packed weights follow a refresh, and the
// instruction set can be capped. A cap is read once in a process, so those cases run in one of their own.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <thread>
#include <vector>

#include "models/compute/cpu/context.hpp"
#include "models/compute/cpu/products.hpp"
#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"

namespace tw {

using namespace models;

namespace {

/// Tensors on one device, filled with numbers that depend on nothing but the order of creation.
class Desk {
 public:
  explicit Desk(Device& device) : device_(device), stream_(device.create_stream()) {}
  Stream& stream() { return *stream_; }
  Tensor make(DType type, const Dims& dims) {
    Tensor tensor{nullptr, type, dims};
    buffers_.emplace_back(device_, tensor.bytes());
    tensor.data = buffers_.back().data();
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      const float value = static_cast<float>(state_ >> 40) / 8388608.0f - 1.0f;
      if (type == DType::bf16) {
        tensor.as<bf16>()[i] = to_bf16(value);
      } else {
        tensor.as<float>()[i] = value;
      }
    }
    return tensor;
  }
  Tensor indices(const Dims& dims, int below) {
    Tensor tensor = make(DType::float32, dims);
    tensor.dtype = DType::int32;
    for (std::int64_t i = 0; i < tensor.count(); ++i) tensor.as<std::int32_t>()[i] = static_cast<int>(i * 7 % below);
    return tensor;
  }

 private:
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> buffers_;
  std::uint64_t state_ = 1;
};

/// Every plan, forward and backward; the outputs as floats. `check` is given a way to run one more round.
template <class Check>
std::vector<float> run_plans(Device& device, DType type, Check&& check) {
  Desk desk(device);
  Stream& stream = desk.stream();
  constexpr int rows = 37, in = 48, out = 80, classes = 1031, batch = 2, size = 9, seq = 70, heads = 2, width = 16;
  const Tensor x = desk.make(type, {rows, in}), w = desk.make(type, {out, in}), bias = desk.make(type, {out});
  const Tensor pre = desk.make(type, {rows, out}), y = desk.make(type, {rows, out}), dx = desk.make(type, {rows, in});
  const Tensor dw = desk.make(DType::float32, {out, in}), db = desk.make(DType::float32, {out});
  const auto linear = device.plan(LinearShape{rows, in, out, type, Activation::gelu});
  linear->bind(w);
  const ConvolutionShape convolution_shape{batch, size, size, 16, 32, 3, 2, 1, type};
  const Tensor image = desk.make(type, {batch, size, size, 16}), filter = desk.make(type, {32, 3, 3, 16});
  const Tensor features = desk.make(type, {batch, 5, 5, 32}), d_image = desk.make(type, image.dims);
  const Tensor d_filter = desk.make(DType::float32, filter.dims);
  const auto convolution = device.plan(convolution_shape);
  convolution->bind(filter);
  const auto attention = device.plan(AttentionShape{batch, seq, heads, width, true, type});
  const Tensor qkv = desk.make(type, {batch, seq, 3 * heads, width}),
               mixed = desk.make(type, {batch, seq, heads, width});
  const Tensor d_qkv = desk.make(type, qkv.dims), level = desk.make(DType::float32, {batch, heads, seq});
  const auto grouped = device.plan(AttentionShape{batch, seq, 2 * heads, width, true, type, Math::standard, heads});
  const Tensor few = desk.make(type, {batch, seq, 4 * heads, width}),
               grouped_out = desk.make(type, {batch, seq, 2 * heads, width}), d_few = desk.make(type, few.dims),
               grouped_level = desk.make(DType::float32, {batch, 2 * heads, seq});
  const auto classifier = device.plan(ClassifierShape{rows, in, classes, 0.1f, type});
  const Tensor head = desk.make(type, {classes, in}), targets = desk.indices({rows}, classes);
  const Tensor loss = desk.make(DType::float32, {1}), d_input = desk.make(type, {rows, in});
  const Tensor d_head = desk.make(DType::float32, {classes, in});
  classifier->bind(head);
  const auto round = [&] {
    linear->refresh(stream);
    convolution->refresh(stream);
    classifier->refresh(stream);
    linear->forward(stream, {x, bias, {}, pre, y});
    linear->backward_input(stream, {y, {}, dx});
    linear->backward_weights(stream, {x, y, dw, db, false});
    linear->backward_weights(stream, {x, y, dw, db, true});
    convolution->forward(stream, {image, features});
    convolution->backward_input(stream, {features, d_image});
    convolution->backward_weights(stream, {image, features, d_filter, false});
    convolution->backward_weights(stream, {image, features, d_filter, true});
    attention->forward(stream, {qkv, mixed, level});
    attention->backward(stream, {mixed, qkv, mixed, level, d_qkv});
    grouped->forward(stream, {few, grouped_out, grouped_level});
    grouped->backward(stream, {grouped_out, few, grouped_out, grouped_level, d_few});
    ClassifierForwardBackward args;
    args.x = x;
    args.targets = targets;
    args.loss = loss;
    args.dx = d_input;
    args.d_weight = d_head;
    classifier->forward_backward(stream, args);
  };
  round();
  check(round);
  std::vector<float> values;
  for (const Tensor& tensor :
       {y, dx, dw, db, features, d_image, d_filter, mixed, d_qkv, grouped_out, d_few, loss, d_input, d_head}) {
    for (std::int64_t i = 0; i < tensor.count(); ++i) {
      values.push_back(tensor.dtype == DType::bf16 ? to_float(tensor.as<bf16>()[i]) : tensor.as<float>()[i]);
    }
  }
  return values;
}

std::vector<DType> types_of(const Device& device) {
  std::vector<DType> types{DType::float32};
  if (device.supports(Op::linear_forward, DType::bf16)) types.push_back(DType::bf16);
  return types;
}

TEST(CpuDevice, OlderOrOtherLibrariesAreRefused) {
  constexpr int major = DNNL_VERSION_MAJOR, minor = DNNL_VERSION_MINOR;
  EXPECT_EQ(cpu::library_fault(major, minor), "");
  EXPECT_EQ(cpu::library_fault(major, minor + 1), "");
  for (const auto& [other_major, other_minor] : {std::pair(major, minor - 1), {major - 1, 9}, {major + 1, 0}})
    EXPECT_TRUE(cpu::library_fault(other_major, other_minor).starts_with("oneDNN " + std::to_string(other_major)));
}

TEST(CpuDevice, HoldsNoMoreMemoryAfterAStep) {
  const auto device = make_cpu_device({.threads = 2});
  for (const DType type : types_of(*device)) {
    run_plans(*device, type, [&](const auto& round) {
      const std::size_t held = device->allocated_bytes(), peak = device->peak_allocated_bytes();
      round();
      EXPECT_EQ(device->allocated_bytes(), held);
      EXPECT_EQ(device->peak_allocated_bytes(), peak);
    });
  }
  const std::size_t before = device->allocated_bytes();
  {
    const Buffer block(*device, 5 << 20);
    EXPECT_EQ(device->allocated_bytes(), before + (5 << 20));
  }
  EXPECT_EQ(device->allocated_bytes(), before);
}

TEST(CpuDevice, TheSameStepGivesTheSameBits) {
  const auto device = make_cpu_device({.threads = 2});
  for (const DType type : types_of(*device)) {
    const std::vector<float> first = run_plans(*device, type, [](const auto&) {});
    const std::vector<float> second = run_plans(*device, type, [](const auto& round) { round(); });
    EXPECT_EQ(first, second);
  }
}

int threads_of_this_process() {
  int count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

// On a thread that may use more threads than the device: nothing that a plan does may wake them.
TEST(CpuDevice, LinearWeightsAreRepackedByTheDevicesThreadsOnly) {
  const auto device = make_cpu_device({.threads = 1});
  for (const DType type : types_of(*device)) {
    cpu::Context context(*device, 1);
    Desk desk(*device);
    constexpr int rows = 64, in = 1024, out = 1024;
    for (const char* pass : {"linear forward", "linear input"}) {  // the second candidate is far ahead: packed
      context.fastest(cpu::choice_key(pass, rows, in, out, type), 0, [] {
        return std::vector<std::function<void()>>{[] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); },
                                                  [] {}};
      });
    }
    const auto plan = cpu::make_linear(context, LinearShape{rows, in, out, type});
    ASSERT_NE(plan->description().find("forward packed"), std::string::npos) << plan->description();
    plan->bind(desk.make(type, {out, in}));
    int before = 0, after = 0;
    std::thread([&] {  // a new thread has no workers of its own yet
      omp_set_num_threads(4);
      before = threads_of_this_process();
      plan->refresh(desk.stream());
      after = threads_of_this_process();
    })
        .join();
    EXPECT_EQ(after, before) << to_string(type);
  }
}

/// A layout of the library comes out with the library's bytes, padding included.
TEST(CpuDevice, PacksTheBytesThatTheLibraryPacks) {
  using Tag = dnnl::memory::format_tag;
  const auto device = make_cpu_device({.threads = 2});
  cpu::Context context(*device, 2);
  dnnl::stream stream(context.engine());
  struct Case {
    cpu::Index rows, columns, extra;  // of the leading dimension
    Tag packed;
    bool own;
  };
  const Case cases[] = {
      {32, 64, 0, Tag::BA16a64b2a, true},   {32, 64, 3, Tag::BA16a64b2a, true},   {96, 192, 0, Tag::BA16a64b2a, true},
      {96, 192, 7, Tag::BA16a64b2a, true},  {768, 512, 0, Tag::BA16a64b2a, true}, {512, 768, 64, Tag::BA16a64b2a, true},
      {352, 48, 0, Tag::BA16a48b2a, true},  {1024, 96, 5, Tag::BA16a48b2a, true}, {160, 96, 0, Tag::BA16a32b2a, true},
      {64, 144, 1, Tag::BA16a16b2a, true},  {48, 64, 0, Tag::BA16a64b2a, false},  {31, 64, 0, Tag::BA16a64b2a, false},
      {768, 81, 0, Tag::BA16a64b2a, false}, {64, 96, 2, Tag::BA16a64b2a, false},  {37, 1031, 0, Tag::BA16a48b2a, false},
      {1, 1, 0, Tag::BA16a16b2a, false}};
  const auto bf16_data = dnnl::memory::data_type::bf16;
  for (const Case& c : cases) {
    for (const bool by_columns : {false, true}) {
      const cpu::Index ld = (by_columns ? c.rows : c.columns) + c.extra;
      const dnnl::memory::desc from({c.rows, c.columns}, bf16_data,
                                    by_columns ? dnnl::memory::dims{1, ld} : dnnl::memory::dims{ld, 1});
      const dnnl::memory::desc to({c.rows, c.columns}, bf16_data, c.packed);
      std::vector<std::uint16_t> x(static_cast<std::size_t>((by_columns ? c.columns : c.rows) * ld));
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint16_t>(i * 40503 + (i >> 16));
      std::vector<std::uint16_t> want(to.get_size() / 2, 0xAAAA), got(want.size() + 64, 0x5555);
      dnnl::memory source(from, context.engine(), x.data()), packed(to, context.engine(), want.data());
      dnnl::reorder(source, packed).execute(stream, source, packed);
      cpu::Reorder reorder(context, from, to);
      context.reserve_scratchpad(reorder.scratchpad_bytes());
      reorder.run(context, x.data(), got.data());
      want.resize(got.size(), 0x5555);  // nothing behind the end is touched
      EXPECT_EQ(reorder.is_own(), c.own);
      EXPECT_TRUE(got == want) << c.rows << " x " << c.columns << ", by columns " << by_columns << ", ld " << ld;
      if (!c.own) continue;
      std::fill(got.begin(), got.end(), std::uint16_t{0x5555});
      cpu::baseline::table.pack_row_pairs(2, x.data(), by_columns, c.rows, c.columns, ld, reorder.width(), got.data());
      EXPECT_TRUE(got == want) << "baseline: " << c.rows << " x " << c.columns << ", by columns " << by_columns;
    }
  }
  // Other layouts, and sums, are the library's.
  const dnnl::memory::desc plain = cpu::matrix(DType::bf16, 64, 64), single = cpu::matrix(DType::float32, 64, 64);
  const dnnl::memory::desc packed({64, 64}, bf16_data, Tag::BA16a64b2a);
  EXPECT_FALSE(cpu::Reorder(context, plain, packed, true).is_own());
  EXPECT_FALSE(cpu::Reorder(context, single, packed).is_own());
  EXPECT_FALSE(cpu::Reorder(context, packed, plain).is_own());
  EXPECT_FALSE(cpu::Reorder(context, plain, cpu::transposed_matrix(DType::bf16, 64, 64)).is_own());
}

// One head: its products are made for one thread, and run on one where the device has more.
TEST(CpuDevice, ASingleHeadWakesNoWorkers) {
  const auto device = make_cpu_device({.threads = 4});
  for (const DType type : types_of(*device)) {
    Desk desk(*device);
    constexpr int seq = 256, width = 64;
    const auto plan = device->plan(AttentionShape{1, seq, 1, width, true, type});
    const Tensor qkv = desk.make(type, {1, seq, 3, width}), out = desk.make(type, {1, seq, 1, width});
    const Tensor log_sum_exp = desk.make(DType::float32, {1, 1, seq});
    int before = 0, after = 0;
    std::thread([&] {
      omp_set_num_threads(4);
      before = threads_of_this_process();
      plan->forward(desk.stream(), {qkv, out, log_sum_exp});
      after = threads_of_this_process();
    }).join();
    EXPECT_EQ(after, before) << to_string(type);
  }
}

TEST(CpuDevice, SaysHowManyBytesWereWanted) {
  const auto device = make_cpu_device({.threads = 1});
  for (const std::size_t bytes : {std::numeric_limits<std::size_t>::max(), std::size_t{1} << 60}) {
    try {
      device->allocate(bytes);
      FAIL() << "allocated " << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::environment);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(device->allocated_bytes() > 0, true);  // the device's own scratch, nothing of the failed blocks
  EXPECT_LT(device->peak_allocated_bytes(), std::size_t{1} << 30);
}

TEST(CpuDevice, RefusesANegativeNumberOfThreads) {
  EXPECT_THROW(make_cpu_device({.threads = -1}), Error);
  EXPECT_EQ(make_cpu_device({.threads = 3})->info().threads, 3);
  EXPECT_GE(make_cpu_device({})->info().threads, 1);
}

/// Normalised difference of two runs; the reference of a lower instruction set is the default one.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double distance = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    distance += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(distance / norm);
}

class Capped : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

/// Runs in a process of its own: 0 where the capped kernels agree with float64 sums and bf16 is refused by name.
[[noreturn]] void run_capped(const char* cap) {
  setenv("ONEDNN_MAX_CPU_ISA", cap, 1);
  const auto device = make_cpu_device({.threads = 2});
  const std::string set = device->info().instruction_set;
  const bool wide = set.rfind("avx512", 0) == 0;
  bool good = std::string(cap) == "AVX512_CORE" || !wide;
  if (device->supports(Op::linear_forward, DType::bf16) || device->why_unsupported(DType::bf16).empty()) good = false;
  try {
    device->plan(LinearShape{4, 4, 4, DType::bf16});
    good = false;
  } catch (const Error& error) {
    if (error.failure() != Failure::unsupported) good = false;
  }
  if (device->why_no_math(Math::bf16).empty()) good = false;  // float32 in bf16 takes AMX
  // y = x·Wᵀ + b, gelu; and a layer norm, against sums in float64.
  Desk desk(*device);
  constexpr int rows = 19, in = 67, out = 45;
  const Tensor x = desk.make(DType::float32, {rows, in}), w = desk.make(DType::float32, {out, in});
  const Tensor bias = desk.make(DType::float32, {out}), pre = desk.make(DType::float32, {rows, out});
  const Tensor y = desk.make(DType::float32, {rows, out}), normal = desk.make(DType::float32, {rows, in});
  const Tensor gamma = desk.make(DType::float32, {in}), beta = desk.make(DType::float32, {in});
  const Tensor mean = desk.make(DType::float32, {rows}), rstd = desk.make(DType::float32, {rows});
  const auto plan = device->plan(LinearShape{rows, in, out, DType::float32, Activation::gelu});
  plan->bind(w);
  plan->refresh(desk.stream());
  plan->forward(desk.stream(), {x, bias, {}, pre, y});
  device->layer_norm_forward(desk.stream(), {x, {}, {}, gamma, beta, 1e-5f, normal, mean, rstd});
  std::vector<float> got, want;
  for (int r = 0; r < rows; ++r) {
    for (int o = 0; o < out; ++o) {
      double sum = bias.as<float>()[o];
      for (int i = 0; i < in; ++i) sum += static_cast<double>(x.as<float>()[r * in + i]) * w.as<float>()[o * in + i];
      const double inner = std::sqrt(2 / M_PI) * (sum + 0.044715 * sum * sum * sum);
      got.push_back(y.as<float>()[r * out + o]);
      want.push_back(static_cast<float>(0.5 * sum * (1 + std::tanh(inner))));
    }
    double sum = 0, squares = 0;
    for (int i = 0; i < in; ++i) sum += x.as<float>()[r * in + i];
    for (int i = 0; i < in; ++i) squares += std::pow(x.as<float>()[r * in + i] - sum / in, 2);
    for (int i = 0; i < in; ++i) {
      got.push_back(normal.as<float>()[r * in + i]);
      want.push_back(static_cast<float>((x.as<float>()[r * in + i] - sum / in) / std::sqrt(squares / in + 1e-5) *
                                            gamma.as<float>()[i] +
                                        beta.as<float>()[i]));
    }
  }
  if (!(difference(got, want) < 2e-6)) good = false;
  for (const float value : run_plans(*device, DType::float32, [](const auto&) {})) {
    if (!std::isfinite(value)) good = false;
  }
  std::fprintf(stderr, "kernels: %s, difference %g\n", set.c_str(), difference(got, want));
  std::_Exit(good ? 0 : 1);
}

TEST_P(Capped, ComputesTheSameAndRefusesBf16) {
  EXPECT_EXIT(run_capped(GetParam()), testing::ExitedWithCode(0), "kernels: ");
}
/// One element of a product of (256, 256) matrices whose elements bf16 does not have, as a layer and as the library
/// alone: 256.5, or 256 where they were rounded to bf16.
std::pair<float, float> product_of_wide_numbers(Device& device, Math math) {
  Desk desk(device);
  constexpr int size = 256;
  const auto make = [&] {
    const Tensor tensor = desk.make(DType::float32, {size, size});
    std::fill_n(tensor.as<float>(), tensor.count(), 1 + 1.0f / 1024);
    return tensor;
  };
  const Tensor x = make(), w = make(), y = make(), alone = make();
  LinearShape shape{size, size, size, DType::float32};
  shape.math = math;
  const auto plan = device.plan(shape);
  plan->bind(w);
  plan->refresh(desk.stream());
  plan->forward(desk.stream(), {x, {}, {}, {}, y});
  for (const LibraryProduct& product : device.library_products(shape, Op::linear_forward))
    if (product.layout == "plain") product.run(desk.stream(), x.data, w.data, alone.data);
  return {*y.as<float>(), *alone.as<float>()};
}

TEST(CpuDevice, MultipliesFloat32InBf16WhereItSaysSo) {
  const auto device = make_cpu_device({.threads = 2});
  const auto [y, alone] = product_of_wide_numbers(*device, Math::standard);
  EXPECT_GT(y, 256.4f);
  EXPECT_GT(alone, 256.4f);
  if (device->why_no_math(Math::bf16).empty()) {
    const auto [rounded, rounded_alone] = product_of_wide_numbers(*device, Math::bf16);
    EXPECT_EQ(rounded, 256);
    EXPECT_EQ(rounded_alone, 256);
  } else {
    EXPECT_THROW(product_of_wide_numbers(*device, Math::bf16), Error);
  }
}

/// Runs in a process of its own: the library reads its environment once.
[[noreturn]] void run_with_bf16_by_default() {
  setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16", 1);
  const auto device = make_cpu_device({.threads = 2});
  const auto [y, alone] = product_of_wide_numbers(*device, Math::standard);
  std::fprintf(stderr, "products: %g, %g\n", static_cast<double>(y), static_cast<double>(alone));
  std::_Exit(y > 256.4f && alone > 256.4f ? 0 : 1);
}

TEST(CpuDevice, Float32StaysFloat32WhateverTheEnvironmentSays) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(run_with_bf16_by_default(), testing::ExitedWithCode(0), "products: ");
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, Capped, testing::Values("SSE41", "AVX2", "AVX512_CORE"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace tw
