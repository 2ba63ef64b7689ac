// Products of few rows, columns and terms, with and without gaps between rows: where a release of the library computes
// them wrong, the failure names the release and the shapes. Operands are small integers, so that every sum is exact.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/compute/cpu/context.hpp"
#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"

namespace tw::models::cpu {
namespace {

using dnnl::memory;
using Sum = Product::Sum;

constexpr float gap = 1000;  // stands between rows: a product that reads or writes it is wrong

struct Matrix {
  memory::desc layout;
  Index rows = 0, columns = 0;
  std::vector<float> values;             // in memory's order, gaps included
  std::vector<std::uint16_t> as_stored;  // bf16

  Matrix() = default;
  Matrix(const memory::desc& taken, int seed) : layout(taken) {
    const onednn::Strided strided = *onednn::strided(layout);
    rows = strided.dims[0], columns = strided.dims[1];
    row_stride_ = strided.strides[0], column_stride_ = strided.strides[1];
    type_ = strided.type;
    values.assign(static_cast<std::size_t>((rows - 1) * row_stride_ + (columns - 1) * column_stride_ + 1), gap);
    for (Index i = 0; i < rows; ++i)
      for (Index j = 0; j < columns; ++j) at(i, j) = static_cast<float>((i * 5 + j * 3 + seed * (i + j + 1)) % 7 - 3);
    store();
  }
  float& at(Index i, Index j) { return values[static_cast<std::size_t>(i * row_stride_ + j * column_stride_)]; }
  void* data() { return type_ == memory::data_type::bf16 ? static_cast<void*>(as_stored.data()) : values.data(); }
  /// What a product has written, as floats.
  std::vector<float> result() const {
    if (type_ != memory::data_type::bf16) return values;
    std::vector<float> read;
    for (const std::uint16_t bits : as_stored) read.push_back(to_float(bf16{bits}));
    return read;
  }

 private:
  void store() {
    if (type_ != memory::data_type::bf16) return;
    for (const float value : values) as_stored.push_back(to_bf16(value).bits);
  }
  Index row_stride_ = 0, column_stride_ = 0;
  memory::data_type type_ = memory::data_type::f32;
};

enum Order : int { by_rows, by_rows_apart, by_columns, by_columns_apart, orders };
const char* name(int order) {
  constexpr const char* names[] = {"rows", "rows with gaps", "columns", "columns with gaps", "the library's order"};
  return names[order];
}
memory::desc ordered(DType type, Index rows, Index columns, int order) {
  const Index apart = order == by_rows_apart || order == by_columns_apart ? 3 : 0;
  return order < by_columns ? strided_matrix(type, rows, columns, columns + apart)
                            : memory::desc({rows, columns}, library_type(type), memory::dims{1, rows + apart});
}

/// How products end, in turn: every kind of shape meets each.
struct Ending {
  Sum sum;
  bool bias;
  float scale;
};
constexpr Ending endings[] = {{Sum::none, false, 1}, {Sum::into_c, false, 1}, {Sum::none, true, 1},
                              {Sum::other, true, 1}, {Sum::none, false, 0.5}, {Sum::into_c, false, 0.5},
                              {Sum::other, false, 1}};

class Degenerate : public testing::TestWithParam<std::pair<DType, DType>> {};  // of a and b, of c

TEST_P(Degenerate, ProductsAreRight) {
  const auto [type, result_type] = GetParam();
  const auto device = make_cpu_device({.threads = 2});
  if (!device->supports(Op::linear_forward, type)) GTEST_SKIP() << "no bf16 on cpu: " << device->why_unsupported(type);
  const ThreadScope scope(2);
  Context context(*device, 2);
  constexpr Index sizes[] = {1, 2, 16, 17};
  int tried = 0, wrong = 0, avoided = 0, turn = 0;
  std::string found;
  const auto try_product = [&](Index m, Index n, Index k, int order_a, int order_b, int order_c) {
    const Ending& ending = endings[turn++ % std::size(endings)];
    Matrix a(ordered(type, m, k, order_a), 1), c(ordered(result_type, m, n, order_c), 2), other(c.layout, 4);
    Matrix b(ordered(type, k, n, order_b == orders ? static_cast<int>(by_rows) : order_b), 3), bias;
    if (ending.bias) bias = Matrix(matrix(type, 1, n), 5);
    Product product{a.layout,   order_b == orders ? any_matrix(type, k, n) : b.layout,
                    c.layout,   bias.layout,
                    ending.sum, ending.scale};
    MadeProduct made;
    try {
      made = make_product(context, product);
    } catch (const Error& error) {
      ASSERT_TRUE(is_miscomputed(product)) << error.what();
      ++avoided;
      return;
    }
    context.reserve_scratchpad(made.call.scratchpad_bytes());
    Matrix want = c;
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        float sum = ending.bias ? bias.at(0, j) : 0;
        for (Index l = 0; l < k; ++l) sum += a.at(i, l) * b.at(l, j);
        sum *= ending.scale;
        want.at(i, j) = sum + (ending.sum == Sum::into_c ? c.at(i, j) : ending.sum == Sum::other ? other.at(i, j) : 0);
      }
    Buffer packed;
    void* b_data = b.data();
    if (made.b != b.layout) {
      Reorder pack(context, b.layout, made.b);
      context.reserve_scratchpad(pack.scratchpad_bytes());
      packed = Buffer(*device, made.b.get_size());
      pack.run(context, b_data, packed.data());
      b_data = packed.data();
    }
    dnnl::stream& stream = context.stream();
    void *scratchpad = context.scratchpad(), *x = a.data(), *y = c.data();
    if (ending.sum == Sum::other) {
      ending.bias ? made.call.run(stream, scratchpad, x, b_data, y, bias.data(), other.data())
                  : made.call.run(stream, scratchpad, x, b_data, y, other.data());
    } else {
      ending.bias ? made.call.run(stream, scratchpad, x, b_data, y, bias.data())
                  : made.call.run(stream, scratchpad, x, b_data, y);
    }
    ++tried;
    if (c.result() == want.values) return;
    if (++wrong > 10) return;
    found += "\n  " + std::to_string(m) + " x " + std::to_string(k) + " by " + name(order_a) + ", times " +
             std::to_string(k) + " x " + std::to_string(n) + " by " + name(order_b) + ", into " + name(order_c) + ": " +
             made.implementation;
  };
  for (const Index m : sizes)
    for (const Index n : sizes)
      for (const Index k : sizes)
        for (int order_a = 0; order_a < orders; ++order_a)
          for (int order_b = 0; order_b <= orders; ++order_b)
            for (const int order_c : {by_rows, by_rows_apart}) try_product(m, n, k, order_a, order_b, order_c);
  EXPECT_EQ(wrong, 0) << device->info().libraries.at(0) << " computes " << wrong << " of " << tried << " products of "
                      << to_string(type) << " into " << to_string(result_type) << " wrong, the first:" << found;
  EXPECT_GT(tried, 2000);
  EXPECT_GT(avoided, 0);
}
INSTANTIATE_TEST_SUITE_P(Types, Degenerate,
                         testing::Values(std::pair(DType::float32, DType::float32),
                                         std::pair(DType::bf16, DType::float32), std::pair(DType::bf16, DType::bf16)),
                         [](const auto& instance) {
                           return std::string(to_string(instance.param.first)) + "_into_" +
                                  std::string(to_string(instance.param.second));
                         });

}  // namespace
}  // namespace tw::models::cpu
