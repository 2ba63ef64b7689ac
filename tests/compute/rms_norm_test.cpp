// RMS norm with its fused residual.
#include <cmath>

#include "models/compute/error.hpp"
#include "tests/support/comparison.hpp"
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(RmsNorm);

const std::vector<Dims> sizes = {{1, 2},    {3, 17},   {17, 31},  {31, 33},  {33, 127}, {5, 1024},
                                 {64, 768}, {7, 2048}, {2, 4096}, {2, 1023}, {2, 8200}};

enum class Sum { none, own, over_x, over_residual };

Case forward(DType type, const Dims& s, Sum sum) {
  return [=](Lab& lab) {
    const Floats x = normal(s.count(), 1), residual = normal(s.count(), 2);
    RmsNormForward args;
    args.x = sum == Sum::over_x ? lab.in_out("sum", type, s, x, 0) : lab.in(type, s, x);
    if (sum != Sum::none) {
      args.residual = sum == Sum::over_residual ? lab.in_out("sum", type, s, residual, 0) : lab.in(type, s, residual);
      args.sum = sum == Sum::over_x ? args.x : sum == Sum::over_residual ? args.residual : lab.out("sum", type, s, 0);
    }
    const int roundings = sum == Sum::none ? 0 : -1;
    args.gamma = lab.in(type, {s[1]}, uniform(s[1], 3, 0.5, 1.5));
    args.y = lab.out("y", type, s, roundings);
    args.rstd = lab.out("rstd", DType::float32, {s[0]}, roundings);
    lab.device.rms_norm_forward(*lab.stream, args);
  };
}

enum class Residual { none, own, over_dx };

Case backward(DType type, const Dims& s, Residual residual, bool accumulate) {
  return [=](Lab& lab) {
    const Floats x = normal(s.count(), 1);
    Floats rstd(static_cast<std::size_t>(s[0]));
    for (std::int64_t i = 0; i < s[0]; ++i) {  // of the values as stored
      double squares = 0;
      for (std::int64_t j = 0; j < s[1]; ++j) {
        const double value = as_stored(type, x[i * s[1] + j]);
        squares += value * value;
      }
      rstd[i] = static_cast<float>(1 / std::sqrt(squares / s[1] + 1e-5));
    }
    RmsNormBackward args;
    args.x = lab.in(type, s, x);
    args.dy = lab.in(type, s, normal(s.count(), 5));
    args.gamma = lab.in(type, {s[1]}, uniform(s[1], 3, 0.5, 1.5));
    args.rstd = lab.in(DType::float32, {s[0]}, rstd);
    if (residual == Residual::over_dx) {
      args.dx = args.d_residual = lab.in_out("dx", type, s, normal(s.count(), 6));
    } else {
      if (residual == Residual::own) args.d_residual = lab.in(type, s, normal(s.count(), 6));
      args.dx = lab.out("dx", type, s);
    }
    args.d_gamma = accumulate ? lab.in_out("d_gamma", DType::float32, {s[1]}, normal(s[1], 7))
                              : lab.out("d_gamma", DType::float32, {s[1]});
    args.accumulate = accumulate;
    lab.device.rms_norm_backward(*lab.stream, args);
  };
}

TEST_P(RmsNorm, Forward) {
  TW_NEEDS(Op::rms_norm_forward);
  for (const Dims& s : sizes) {
    SCOPED_TRACE(s.str());
    for (const Sum sum : {Sum::none, Sum::own, Sum::over_x, Sum::over_residual}) {
      SCOPED_TRACE(static_cast<int>(sum));
      compare(device(), Op::rms_norm_forward, dtype(), forward(dtype(), s, sum));
    }
  }
}

TEST_P(RmsNorm, ForwardOfManyRows) {  // more than the cuda device has warps
  TW_NEEDS(Op::rms_norm_forward);
  compare(device(), Op::rms_norm_forward, dtype(), forward(dtype(), {8460, 8}, Sum::none));
}

TEST_P(RmsNorm, Backward) {
  TW_NEEDS(Op::rms_norm_backward);
  for (const Dims& s : sizes) {
    SCOPED_TRACE(s.str());
    for (const Residual residual : {Residual::none, Residual::own, Residual::over_dx}) {
      for (const bool accumulate : {false, true}) {
        compare(device(), Op::rms_norm_backward, dtype(), backward(dtype(), s, residual, accumulate));
      }
    }
  }
}

TEST_P(RmsNorm, ByHand) {
  TW_NEEDS(Op::rms_norm_backward);
  Lab lab(device());
  // Rows (1, 7) and (-2, 14): mean squares 25 and 100; with ε = 0 both normalise to (±0.2, 1.4).
  const Tensor x = lab.in(dtype(), {2, 2}, {1, 7, -2, 14}), gamma = lab.in(dtype(), {2}, {5, 10});
  const Tensor y = lab.out("y", dtype(), {2, 2}), rstd = lab.out("rstd", DType::float32, {2});
  device().rms_norm_forward(*lab.stream, {.x = x, .gamma = gamma, .epsilon = 0, .y = y, .rstd = rstd});
  const double unit = unit_roundoff(dtype());
  const auto expect_near = [&](const Tensor& tensor, const Floats& wanted) {
    const Floats values = lab.read(tensor);
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(values[i], wanted[i], 4 * unit * std::fabs(wanted[i]));
  };
  expect_near(y, {1, 14, -1, 14});
  expect_near(rstd, {0.2f, 0.1f});
  // dx = rstd·(g − normal·mean(g·normal)), g = dy·gamma = (5, 0) and (0, 10): means 0.5 and 7.
  const Tensor dx = lab.out("dx", dtype(), {2, 2}), d_gamma = lab.out("d_gamma", DType::float32, {2});
  device().rms_norm_backward(*lab.stream, {.dy = lab.in(dtype(), {2, 2}, {1, 0, 0, 1}),
                                           .x = x,
                                           .gamma = gamma,
                                           .rstd = rstd,
                                           .d_residual = lab.in(dtype(), {2, 2}, {1, 1, 1, 1}),
                                           .dx = dx,
                                           .d_gamma = d_gamma});
  expect_near(dx, {1 + 0.98f, 1 - 0.14f, 1 + 0.14f, 1 + 0.02f});
  expect_near(d_gamma, {0.2f, 1.4f});
}

TEST_P(RmsNorm, RefusesWrongArguments) {
  TW_NEEDS(Op::rms_norm_backward);
  Lab lab(device());
  const Tensor a = lab.out("a", dtype(), {4, 6}), b = lab.out("b", dtype(), {4, 6}), row = lab.out("row", dtype(), {6}),
               rows = lab.out("rows", DType::float32, {4}), wide = lab.out("wide", DType::float32, {6});
  const auto fails = [](auto&& call, const char* argument) {
    try {
      call();
      ADD_FAILURE() << argument << ": nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::usage);
      EXPECT_NE(std::string(error.what()).find(argument), std::string::npos) << error.what();
    }
  };
  Device& d = device();
  fails([&] { d.rms_norm_forward(*lab.stream, {.x = a, .gamma = row, .y = b, .rstd = wide}); }, "rstd");
  fails([&] { d.rms_norm_forward(*lab.stream, {.x = a, .gamma = row, .y = a, .rstd = rows}); }, "y");
  fails([&] { d.rms_norm_forward(*lab.stream, {.x = a, .residual = b, .gamma = row, .y = b, .rstd = rows}); }, "sum");
  fails(
      [&] {
        d.rms_norm_backward(*lab.stream, {.dy = a, .x = b, .gamma = row, .rstd = rows, .dx = b, .d_gamma = wide});
      },
      "dx");
}

}  // namespace
}  // namespace tw::test
