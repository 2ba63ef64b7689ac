// Rows by index, and activations as operators of their own.
#include <algorithm>
#include <cmath>

#include "tests/support/comparison.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/usage_error.hpp"

namespace tw::test {

using namespace models;

namespace {

using Rows = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, Rows, testing::ValuesIn(device_cases()), device_case_name);
using Activations = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, Activations, testing::ValuesIn(device_cases()), device_case_name);

/// `count` of `rows`, each once, in no order.
Ints some_rows(std::int64_t count, std::int64_t rows) {
  Ints all(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) all[static_cast<std::size_t>(i)] = static_cast<int>((i * 7 + 3) % rows);
  std::sort(all.begin(), all.end(), [rows](int a, int b) { return a * 5 % rows < b * 5 % rows; });
  all.resize(static_cast<std::size_t>(count));
  return all;
}

struct Size {
  std::int64_t rows, count, width;
};
const std::vector<Size> sizes = {{1, 1, 1},    {4, 3, 17},    {11, 11, 31}, {64, 9, 128},
                                 {33, 5, 127}, {96, 17, 256}, {16, 3, 4100}};

TEST_P(Rows, Gather) {
  TW_NEEDS(Op::gather_rows);
  for (const Size& s : sizes) {
    SCOPED_TRACE(Dims({s.rows, s.count, s.width}).str());
    const Case run = [&](Lab& lab) {
      lab.device.gather_rows(
          *lab.stream, {lab.in(dtype(), {s.rows, s.width}, normal(s.rows * s.width, 1)),
                        lab.in({s.count}, some_rows(s.count, s.rows)), lab.out("y", dtype(), {s.count, s.width})});
    };
    compare(device(), Op::gather_rows, dtype(), run, Exactness::exact);
  }
}

TEST_P(Rows, GatherTakesARowMoreThanOnce) {
  TW_NEEDS(Op::gather_rows);
  Lab lab(device());
  const Tensor y = lab.out("y", dtype(), {3, 2});
  device().gather_rows(*lab.stream, {lab.in(dtype(), {2, 2}, {1, 2, 3, 4}), lab.in({3}, {1, 0, 1}), y});
  EXPECT_EQ(lab.read(y), (Floats{3, 4, 1, 2, 3, 4}));
  lab.finish();
}

TEST_P(Rows, Scatter) {
  TW_NEEDS(Op::scatter_rows);
  for (const Size& s : sizes) {
    SCOPED_TRACE(Dims({s.rows, s.count, s.width}).str());
    const Case run = [&](Lab& lab) {
      lab.device.scatter_rows(
          *lab.stream, {lab.in(dtype(), {s.count, s.width}, normal(s.count * s.width, 1)),
                        lab.in({s.count}, some_rows(s.count, s.rows)), lab.out("dx", dtype(), {s.rows, s.width})});
    };
    compare(device(), Op::scatter_rows, dtype(), run, Exactness::exact);
  }
}

TEST_P(Rows, ScatterClearsTheOtherRows) {
  TW_NEEDS(Op::scatter_rows);
  Lab lab(device());
  const Tensor dx = lab.out("dx", dtype(), {4, 2});  // NaN before
  device().scatter_rows(*lab.stream, {lab.in(dtype(), {2, 2}, {1, 2, 3, 4}), lab.in({2}, {3, 1}), dx});
  EXPECT_EQ(lab.read(dx), (Floats{0, 0, 3, 4, 0, 0, 1, 2}));
  lab.finish();
}

TEST_P(Rows, RefuseWrongArguments) {
  TW_NEEDS(Op::scatter_rows);
  Lab lab(device());
  const Tensor x = lab.out("x", dtype(), {4, 3}), y = lab.out("y", dtype(), {2, 3}),
               wide = lab.out("w", dtype(), {2, 4}), few = lab.out("few", dtype(), {1, 3}), which = lab.in({2}, {0, 1});
  expect_usage_error([&] { device().gather_rows(*lab.stream, {x, which, wide}); }, "y");
  expect_usage_error([&] { device().gather_rows(*lab.stream, {x, x, y}); }, "indices");
  expect_usage_error([&] { device().scatter_rows(*lab.stream, {wide, which, x}); }, "dy");
  expect_usage_error([&] { device().scatter_rows(*lab.stream, {y, which, few}); }, "rows of dx");
}

TEST(RowsOfTheReference, MustBeThereAndOnce) {
  Lab lab(reference_device());
  const Tensor x = lab.in(DType::float32, {3, 1}, {1, 2, 3}), y = lab.out("y", DType::float32, {2, 1}),
               dx = lab.out("dx", DType::float32, {3, 1});
  for (const int row : {-1, 3})
    expect_usage_error([&] { reference_device().gather_rows(*lab.stream, {x, lab.in({2}, {0, row}), y}); }, "indices");
  const Tensor dy = lab.in(DType::float32, {2, 1}, {1, 2});
  expect_usage_error([&] { reference_device().scatter_rows(*lab.stream, {dy, lab.in({2}, {1, 1}), dx}); }, "twice");
}

const std::vector<Dims> extents = {{1}, {3}, {33}, {31, 33}, {2, 127}, {4, 8, 16, 32}};

TEST_P(Activations, Forward) {
  TW_NEEDS(Op::activation_forward);
  for (const Activation activation : {Activation::gelu_erf, Activation::tanh, Activation::relu}) {
    for (const Dims& s : extents) {
      for (const bool in_place : {false, true}) {
        compare(device(), Op::activation_forward, dtype(), [&](Lab& lab) {
          const Floats values = normal(s.count(), 1, 2);
          const Tensor x = in_place ? lab.in_out("y", dtype(), s, values) : lab.in(dtype(), s, values);
          lab.device.activation_forward(*lab.stream, {x, in_place ? x : lab.out("y", dtype(), s), activation});
        });
      }
    }
  }
}

TEST_P(Activations, Backward) {
  TW_NEEDS(Op::activation_backward);
  for (const Activation activation : {Activation::gelu_erf, Activation::tanh, Activation::relu}) {
    for (const Dims& s : extents) {
      for (const bool in_place : {false, true}) {
        compare(device(), Op::activation_backward, dtype(), [&](Lab& lab) {
          const Floats values = normal(s.count(), 2);
          const Tensor dy = in_place ? lab.in_out("dx", dtype(), s, values) : lab.in(dtype(), s, values);
          lab.device.activation_backward(*lab.stream, {dy, lab.in(dtype(), s, normal(s.count(), 1, 2)),
                                                       in_place ? dy : lab.out("dx", dtype(), s), activation});
        });
      }
    }
  }
}

TEST_P(Activations, FarFromZero) {
  TW_NEEDS(Op::activation_backward);
  Lab lab(device());
  const Dims s{4};
  const Tensor x = lab.in(dtype(), s, {-100, 100, 0, 8}), ones = lab.in(dtype(), s, {1, 1, 1, 1});
  const auto both = [&](Activation activation) {
    const Tensor y = lab.out("y", dtype(), s), dx = lab.out("dx", dtype(), s);
    device().activation_forward(*lab.stream, {x, y, activation});
    device().activation_backward(*lab.stream, {ones, x, dx, activation});
    return std::pair(lab.read(y), lab.read(dx));
  };
  const auto [gelu, d_gelu] = both(Activation::gelu_erf);
  EXPECT_EQ(gelu, (Floats{0, 100, 0, 8}));
  EXPECT_NEAR(d_gelu[0], 0, 1e-30);
  EXPECT_EQ((Floats{d_gelu[1], d_gelu[2], d_gelu[3]}), (Floats{1, 0.5f, 1}));
  const auto [y, dx] = both(Activation::tanh);
  EXPECT_EQ(y[0], -1);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ((Floats{dx[0], dx[1], dx[2]}), (Floats{0, 0, 1}));
  const auto [relu, d_relu] = both(Activation::relu);
  EXPECT_EQ(relu, (Floats{0, 100, 0, 8}));
  EXPECT_EQ(d_relu, (Floats{0, 1, 0, 1}));
}

TEST_P(Activations, ReluKeepsNaN) {
  TW_NEEDS(Op::activation_forward);
  Lab lab(device());
  const Tensor y = lab.out("y", dtype(), {2});
  device().activation_forward(*lab.stream, {lab.in(dtype(), {2}, {std::nanf(""), -1}), y, Activation::relu});
  EXPECT_TRUE(std::isnan(lab.read(y)[0]));
  EXPECT_EQ(lab.read(y)[1], 0);
}

TEST_P(Activations, RefuseWrongArguments) {
  TW_NEEDS(Op::activation_backward);
  Lab lab(device());
  const Tensor x = lab.out("x", dtype(), {4}), y = lab.out("y", dtype(), {4}), few = lab.out("few", dtype(), {3});
  expect_usage_error([&] { device().activation_forward(*lab.stream, {x, y, Activation::gelu}); }, "activation");
  expect_usage_error([&] { device().activation_forward(*lab.stream, {x, y}); }, "activation");
  expect_usage_error([&] { device().activation_forward(*lab.stream, {x, few, Activation::tanh}); }, "y");
  expect_usage_error([&] { device().activation_backward(*lab.stream, {y, x, x, Activation::tanh}); }, "dx");
}

}  // namespace
}  // namespace tw::test
