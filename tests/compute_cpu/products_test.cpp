// Each way of a product is exercised here by name: which one a plan takes is measured, and differs between machines.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "models/compute/cpu/convolution.hpp"
#include "models/compute/cpu/products.hpp"
#include "models/compute/registry.hpp"

namespace tw::models::cpu {
namespace {

std::vector<DType> types_of(const Device& device) {
  std::vector<DType> types{DType::float32};
  if (device.supports(Op::linear_forward, DType::bf16)) types.push_back(DType::bf16);
  return types;
}

/// Values in ±1, exact in `type`.
class Values {
 public:
  Values(Device& device, DType type, Index count) : type_(type), count_(count), buffer_(device, bytes_of(count, type)) {
    static std::uint64_t state = 1;
    for (Index i = 0; i < count; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      put(i, static_cast<float>(state >> 40) / 8388608.0f - 1.0f);
    }
  }
  static std::size_t bytes_of(Index count, DType type) { return static_cast<std::size_t>(count) * size_of(type); }
  void* data() const { return buffer_.data(); }
  Index count() const { return count_; }
  void put(Index i, float value) {
    type_ == DType::bf16 ? void(static_cast<bf16*>(data())[i] = to_bf16(value))
                         : void(static_cast<float*>(data())[i] = value);
  }
  double operator[](Index i) const {
    return static_cast<double>(type_ == DType::bf16 ? to_float(static_cast<const bf16*>(data())[i])
                                                    : static_cast<const float*>(data())[i]);
  }

 private:
  DType type_;
  Index count_;
  Buffer buffer_;
};

double error(const std::vector<double>& want, const Values& got) {
  double difference = 0, norm = 0;
  for (Index i = 0; i < got.count(); ++i) {
    const double w = want[static_cast<std::size_t>(i)];
    difference += (got[i] - w) * (got[i] - w);
    norm += w * w;
  }
  return std::sqrt(difference / norm);
}

TEST(Choices, AreFixedWhereTheyAreNotToBeTimed) {
  const auto device = make_cpu_device({.threads = 1});
  const auto fail = []() -> std::vector<std::function<void()>> {
    ADD_FAILURE() << "candidates were made, to be timed";
    return {[] {}};
  };
  Context fixed(*device, 1, false);
  EXPECT_EQ(fixed.fastest("a product", 2, fail), 2);
  EXPECT_EQ(fixed.fastest("a product", 2, fail), 2);
  int made = 0;
  Context timed(*device, 1);
  const auto two = [&made]() -> std::vector<std::function<void()>> {
    ++made;
    return {[] {}, [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }};
  };
  EXPECT_EQ(timed.fastest("a product", 1, two), 0);
  EXPECT_EQ(timed.fastest("a product", 1, two), 0);
  EXPECT_EQ(made, 1) << "once for each key";
}

/// Makes candidate `way` of `count` by far the fastest under `key`.
void choose(Context& context, const std::string& key, int way, int count) {
  const int chosen = context.fastest(key, 0, [&] {
    std::vector<std::function<void()>> candidates;
    for (int i = 0; i < count; ++i)
      candidates.push_back([i, way] {
        if (i != way) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      });
    return candidates;
  });
  ASSERT_EQ(chosen, way);
}

struct GradientCase {
  Index rows, in, out;
  int threads;
};

class Gradients : public testing::TestWithParam<GradientCase> {};

// dW in float32 of exact operands: only the order of the sums differs between the ways, whatever the type.
TEST_P(Gradients, EveryWayGivesTheSameSum) {
  const auto [rows, in, out, threads] = GetParam();
  const auto device = make_cpu_device({.threads = threads});
  const ThreadScope scope(threads);
  for (const DType type : types_of(*device)) {
    const Values x(*device, type, rows * in), dy(*device, type, rows * out);
    std::vector<double> once(static_cast<std::size_t>(out * in)), twice(once.size());
    for (Index r = 0; r < rows; ++r)
      for (Index o = 0; o < out; ++o)
        for (Index i = 0; i < in; ++i) once[static_cast<std::size_t>(o * in + i)] += dy[r * out + o] * x[r * in + i];
    for (std::size_t i = 0; i < once.size(); ++i) twice[i] = 2 * once[i];
    const std::vector<int> ways = gradient_ways(Context(*device, threads), {type, rows, in, out});
    ASSERT_EQ(ways.back() == sliced, rows >= 256 * threads);
    for (std::size_t choice = 0; choice < ways.size(); ++choice) {
      const int way = ways[choice];
      for (const bool gathered : {false, true}) {
        Context context(*device, threads);
        const Index measured = std::min(rows, ways.back() == sliced ? measured_slices_rows : measured_rows);
        choose(context, choice_key("test", measured, in, out, type), static_cast<int>(choice),
               static_cast<int>(ways.size()));
        GradientProduct::Shape shape{type, rows, in, out};
        if (gathered) {
          shape.source = rows * in;
          shape.gather = [&, in = in](int, const void* from, Index first, Index count, void* to) {
            std::copy_n(static_cast<const char*>(from) + Values::bytes_of(first * in, type),
                        Values::bytes_of(count * in, type), static_cast<char*>(to));
          };
        }
        const auto product = make_gradient_product(context, "test", shape);
        Values dw(*device, DType::float32, out * in);
        const std::string what =
            product->description() + (gathered ? ", gathered, " : ", ") + std::string(to_string(type));
        EXPECT_EQ(way == sliced, what.find("chunks of") != std::string::npos) << what;
        EXPECT_EQ((way & transpose_dy) != 0, what.find("dy transposed") != std::string::npos) << what;
        EXPECT_EQ((way & clear) != 0, what.find("cleared") != std::string::npos) << what;
        product->run(x.data(), dy.data(), dw.data(), false);
        EXPECT_LT(error(once, dw), 1e-6) << what;
        product->run(x.data(), dy.data(), dw.data(), true);
        EXPECT_LT(error(twice, dw), 1e-6) << what;
      }
    }
  }
}
// Rows of a whole number of chunks, with a shorter last one, odd; fewer than slices need.
INSTANTIATE_TEST_SUITE_P(Shapes, Gradients,
                         testing::Values(GradientCase{2048, 64, 32, 2}, GradientCase{2085, 64, 48, 2},
                                         GradientCase{3137, 16, 16, 3}, GradientCase{515, 40, 24, 2},
                                         GradientCase{700, 81, 33, 1}, GradientCase{100, 64, 64, 2}));

class Convolutions : public testing::TestWithParam<ConvolutionShape> {};

TEST_P(Convolutions, AProductOfRowsIsTheConvolution) {
  const auto device = make_cpu_device({.threads = 2});
  const ThreadScope scope(2);
  for (const DType type : types_of(*device)) {
    ConvolutionShape s = GetParam();
    s.dtype = type;
    const Index x_count = s.in().count(), y_count = s.out().count(), w_count = s.weight().count();
    for (const Op op : {Op::convolution_forward, Op::convolution_backward_input, Op::convolution_backward_weights}) {
      ASSERT_EQ(convolves_by_product(s, op),
                (s.kernel == 1 && s.padding == 0) || op == Op::convolution_backward_weights);
      if (!convolves_by_product(s, op)) continue;
      const Values x(*device, type, x_count), y(*device, type, y_count), w(*device, type, w_count);
      std::vector<std::vector<double>> results;
      for (const ConvolutionWay way : {ConvolutionWay::library, ConvolutionWay::product}) {
        Context context(*device, 2);
        const auto pass = make_convolution_pass(context, s, op, way);
        // What is written holds something else before: nothing of it may stay, borders included.
        Values dx(*device, type, x_count), forward(*device, type, y_count), dw(*device, DType::float32, w_count);
        pass->refresh(w.data());
        const bool to_y = op == Op::convolution_forward, to_x = op == Op::convolution_backward_input;
        for (const bool accumulate : {false, true})
          pass->run({w.data(), to_x ? dx.data() : x.data(), to_y ? forward.data() : y.data(), dw.data(), accumulate});
        const Values& result = to_y ? forward : to_x ? dx : dw;
        if (results.empty()) {
          results.emplace_back();
          for (Index i = 0; i < result.count(); ++i) results[0].push_back(result[i]);
        } else {
          const double allowed = type == DType::bf16 && (to_y || to_x) ? 5e-3 : 1e-6;  // a rounding of bf16: 2⁻⁹
          EXPECT_LT(error(results[0], result), allowed)
              << to_string(op) << ' ' << to_string(type) << ' ' << pass->description();
        }
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, Convolutions,
                         testing::Values(ConvolutionShape{3, 14, 14, 64, 32, 1, 1, 0, DType::float32},
                                         ConvolutionShape{2, 14, 14, 32, 64, 1, 2, 0, DType::float32},
                                         ConvolutionShape{2, 15, 13, 16, 48, 1, 2, 0, DType::float32},
                                         ConvolutionShape{2, 9, 9, 16, 32, 3, 1, 1, DType::float32},
                                         ConvolutionShape{2, 12, 12, 32, 16, 1, 1, 1, DType::float32},
                                         ConvolutionShape{5, 15, 14, 32, 16, 3, 2, 1, DType::float32},
                                         ConvolutionShape{2, 17, 17, 3, 8, 7, 2, 3, DType::float32},
                                         ConvolutionShape{2, 11, 9, 16, 32, {1, 7}, 1, {0, 3}, DType::float32},
                                         ConvolutionShape{2, 11, 9, 16, 32, {3, 1}, {2, 1}, {1, 0}, DType::float32}));

// The ceiling rests on them: the library's plain layout must be the product that it is named after.
TEST(LibraryProducts, ThePlainLayoutIsTheProduct) {
  constexpr Index rows = 64, in = 96, out = 48;
  const auto device = make_cpu_device({.threads = 2});
  const auto stream = device->create_stream();
  for (const DType type : types_of(*device)) {
    const LinearShape shape{rows, in, out, type, Activation::none};
    const Values x(*device, type, rows * in), w(*device, type, out * in), y(*device, type, rows * out);
    std::vector<double> forward(rows * out), dx(rows * in), dw(out * in);
    for (Index r = 0; r < rows; ++r)
      for (Index o = 0; o < out; ++o)
        for (Index i = 0; i < in; ++i) {
          forward[static_cast<std::size_t>(r * out + o)] += x[r * in + i] * w[o * in + i];
          dx[static_cast<std::size_t>(r * in + i)] += y[r * out + o] * w[o * in + i];
          dw[static_cast<std::size_t>(o * in + i)] += y[r * out + o] * x[r * in + i];
        }
    for (const Op op : {Op::linear_forward, Op::linear_backward_input, Op::linear_backward_weights}) {
      int plain = 0;
      for (const LibraryProduct& product : device->library_products(shape, op)) {
        if (product.layout != "plain") continue;
        ++plain;
        const Values new_x(*device, type, rows * in), new_y(*device, type, rows * out),
            new_w(*device, DType::float32, out * in);
        const bool to_y = op == Op::linear_forward, to_x = op == Op::linear_backward_input;
        EXPECT_EQ(product.bytes[0], Values::bytes_of(rows * in, type));
        EXPECT_EQ(product.bytes[1], Values::bytes_of(out * in, to_y || to_x ? type : DType::float32));
        EXPECT_EQ(product.bytes[2], Values::bytes_of(rows * out, type));
        product.run(*stream, to_x ? new_x.data() : x.data(), to_y || to_x ? w.data() : new_w.data(),
                    to_y ? new_y.data() : y.data());
        EXPECT_LT(error(to_y   ? forward
                        : to_x ? dx
                               : dw,
                        to_y   ? new_y
                        : to_x ? new_x
                               : new_w),
                  type == DType::bf16 && (to_y || to_x) ? 5e-3 : 1e-6)
            << to_string(op) << ' ' << product.implementation;
      }
      EXPECT_EQ(plain, 1);
    }
  }
}

/// An operand of so many bytes in a layout of the library's, all of one value, with a guard behind it.
class Uniform {
 public:
  Uniform(Device& device, DType type, std::size_t bytes, float value)
      : type_(type), bytes_(bytes), buffer_(device, bytes + guard) {
    const Index count = static_cast<Index>(bytes / size_of(type));
    for (Index i = 0; i < count; ++i)
      type == DType::bf16 ? void(static_cast<bf16*>(data())[i] = to_bf16(value))
                          : void(static_cast<float*>(data())[i] = value);
    std::memset(static_cast<char*>(data()) + bytes, 0x5a, guard);
  }
  void* data() const { return buffer_.data(); }
  /// Values but for the zeros of padding, sorted.
  std::vector<float> values() const {
    std::vector<float> found;
    for (std::size_t i = 0; i < bytes_ / size_of(type_); ++i) {
      const float value =
          type_ == DType::bf16 ? to_float(static_cast<const bf16*>(data())[i]) : static_cast<const float*>(data())[i];
      if (value != 0) found.push_back(value);
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  bool is_guard_whole() const {
    const char* end = static_cast<const char*>(data()) + bytes_;
    return std::all_of(end, end + guard, [](char byte) { return byte == 0x5a; });
  }

 private:
  static constexpr std::size_t guard = 4096;
  DType type_;
  std::size_t bytes_;
  Buffer buffer_;
};

/// Of uniform operands the result has the same values in every layout, each exact: `want`, sorted.
template <class Shape>
void expect_each_layout(Device& device, const Shape& shape, Op op, bool to_x, bool to_weight,
                        const std::vector<float>& want, std::set<std::string>& layouts) {
  const auto stream = device.create_stream();
  for (const LibraryProduct& product : device.library_products(shape, op)) {
    SCOPED_TRACE(std::string(to_string(op)) + ' ' + std::string(to_string(shape.dtype)) + ' ' + product.layout + ' ' +
                 product.implementation);
    layouts.insert(product.layout);
    constexpr float poison = 7;
    const bool to_y = !to_x && !to_weight;
    const Uniform x(device, shape.dtype, product.bytes[0], to_x ? poison : 1);
    const Uniform w(device, to_weight ? DType::float32 : shape.dtype, product.bytes[1], to_weight ? poison : 2);
    const Uniform y(device, shape.dtype, product.bytes[2], to_y ? poison : 3);
    for (int repeat = 0; repeat < 2; ++repeat) product.run(*stream, x.data(), w.data(), y.data());
    EXPECT_EQ((to_x ? x : to_weight ? w : y).values(), want);
    for (const Uniform* operand : {&x, &w, &y}) EXPECT_TRUE(operand->is_guard_whole());
    const auto is_only = [](const Uniform& operand, float value) {
      const std::vector<float> values = operand.values();
      return std::all_of(values.begin(), values.end(), [value](float one) { return one == value; });
    };
    EXPECT_TRUE(to_x || is_only(x, 1));
    EXPECT_TRUE(to_weight || is_only(w, 2));
    EXPECT_TRUE(to_y || is_only(y, 3));
  }
}

// Their inner orders are the library's affair; that each is the product of its name, within its bytes, is ours.
TEST(LibraryProducts, EveryLayoutOfALinearLayerIsTheProduct) {
  constexpr Index rows = 10, in = 21, out = 35;  // results below 256 are exact in bf16
  const auto device = make_cpu_device({.threads = 2});
  for (const DType type : types_of(*device)) {
    const LinearShape shape{rows, in, out, type, Activation::none};
    std::set<std::string> layouts;
    const auto all = [](Index count, Index value) {
      return std::vector<float>(static_cast<std::size_t>(count), static_cast<float>(value));
    };
    expect_each_layout(*device, shape, Op::linear_forward, false, false, all(rows * out, 2 * in), layouts);
    expect_each_layout(*device, shape, Op::linear_backward_input, true, false, all(rows * in, 3 * 2 * out), layouts);
    expect_each_layout(*device, shape, Op::linear_backward_weights, false, true, all(out * in, 3 * rows), layouts);
    EXPECT_GE(layouts.size(), 2u);
  }
}

TEST(LibraryProducts, EveryLayoutOfAConvolutionIsTheConvolution) {
  const auto device = make_cpu_device({.threads = 2});
  const ThreadScope scope(2);
  for (const DType type : types_of(*device)) {
    std::set<std::string> layouts;
    // Channels that fill the library's blocks: what stands in a layout's padding would be the caller's affair.
    for (const ConvolutionShape& s :
         {ConvolutionShape{2, 9, 8, 16, 32, 3, 1, 1, type}, ConvolutionShape{1, 11, 9, 32, 16, 3, 2, 1, type},
          ConvolutionShape{1, 11, 9, 32, 16, {7, 1}, 1, {3, 0}, type},
          ConvolutionShape{2, 9, 8, 64, 32, 3, 1, 1, type, Math::standard, 2},
          ConvolutionShape{2, 6, 6, 64, 32, 1, 1, 0, type}}) {
      const Index x_count = s.in().count(), y_count = s.out().count(), w_count = s.weight().count();
      for (const Op op : {Op::convolution_forward, Op::convolution_backward_input, Op::convolution_backward_weights}) {
        const bool to_x = op == Op::convolution_backward_input, to_weight = op == Op::convolution_backward_weights;
        const auto bytes = [&](Index count) { return Values::bytes_of(count, type); };
        const Uniform x(*device, type, bytes(x_count), 1), w(*device, type, bytes(w_count), 2);
        const Uniform y(*device, type, bytes(y_count), 3);
        const Uniform dw(*device, DType::float32, Values::bytes_of(w_count, DType::float32), 0);
        Context context(*device, 2);
        const auto pass = make_convolution_pass(context, s, op, ConvolutionWay::library);
        pass->refresh(w.data());
        pass->run({w.data(), x.data(), y.data(), dw.data(), false});
        const std::vector<float> want = (to_x ? x : to_weight ? dw : y).values();
        ASSERT_EQ(want.size(), static_cast<std::size_t>(to_x ? x_count : to_weight ? w_count : y_count));
        for (const float value : {want.front(), want.back()})
          ASSERT_TRUE(to_weight || to_float(to_bf16(value)) == value) << "exact in bf16";
        expect_each_layout(*device, s, op, to_x, to_weight, want, layouts);
      }
    }
    EXPECT_GE(layouts.size(), 2u);
  }
}

}  // namespace
}  // namespace tw::models::cpu
