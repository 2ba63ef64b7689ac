// Layer norm with its fused residual.
#include <cmath>

#include "tests/support/comparison.hpp"
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(LayerNorm);

const std::vector<Dims> sizes = {{1, 2},    {3, 17},   {17, 31}, {31, 33},  {33, 127},
                                 {5, 1024}, {64, 768}, {7, 200}, {3, 1600}, {2, 4096},
                                 {2, 1023}, {2, 8200}};

enum class Sum { none, own, over_x, over_residual };

Case forward(DType type, const Dims& s, Sum sum, double offset) {
  return [=](Lab& lab) {
    Floats x = normal(s.count(), 1);
    for (float& value : x) value += static_cast<float>(offset);
    const Floats residual = normal(s.count(), 2);
    LayerNormForward args;
    args.x = sum == Sum::over_x ? lab.in_out("sum", type, s, x, 0) : lab.in(type, s, x);
    if (sum != Sum::none) {
      args.residual = sum == Sum::over_residual ? lab.in_out("sum", type, s, residual, 0) : lab.in(type, s, residual);
      args.sum = sum == Sum::over_x ? args.x : sum == Sum::over_residual ? args.residual : lab.out("sum", type, s, 0);
    }
    const int roundings = sum == Sum::none ? 0 : -1;
    args.gamma = lab.in(type, {s[1]}, uniform(s[1], 3, 0.5, 1.5));
    args.beta = lab.in(type, {s[1]}, normal(s[1], 4));
    args.y = lab.out("y", type, s, roundings);
    args.mean = lab.out("mean", DType::float32, {s[0]}, roundings);
    args.rstd = lab.out("rstd", DType::float32, {s[0]}, roundings);
    lab.device.layer_norm_forward(*lab.stream, args);
  };
}

enum class Residual { none, own, over_dx };

Case backward(DType type, const Dims& s, Residual residual, bool accumulate) {
  return [=](Lab& lab) {
    const Floats x = normal(s.count(), 1);
    Floats mean(static_cast<std::size_t>(s[0])), rstd(mean.size());
    for (std::int64_t i = 0; i < s[0]; ++i) {  // of the values as stored
      double sum = 0, squares = 0;
      for (std::int64_t j = 0; j < s[1]; ++j) {
        const double value = as_stored(type, x[i * s[1] + j]);
        sum += value;
        squares += value * value;
      }
      mean[i] = static_cast<float>(sum / s[1]);
      rstd[i] = static_cast<float>(1 / std::sqrt(squares / s[1] - sum / s[1] * sum / s[1] + 1e-5));
    }
    const auto gradient = [&](const char* name) {
      return accumulate ? lab.in_out(name, DType::float32, {s[1]}, normal(s[1], 7))
                        : lab.out(name, DType::float32, {s[1]});
    };
    LayerNormBackward args;
    args.x = lab.in(type, s, x);
    args.dy = lab.in(type, s, normal(s.count(), 5));
    args.gamma = lab.in(type, {s[1]}, uniform(s[1], 3, 0.5, 1.5));
    args.mean = lab.in(DType::float32, {s[0]}, mean);
    args.rstd = lab.in(DType::float32, {s[0]}, rstd);
    if (residual == Residual::over_dx) {
      args.dx = args.d_residual = lab.in_out("dx", type, s, normal(s.count(), 6));
    } else {
      if (residual == Residual::own) args.d_residual = lab.in(type, s, normal(s.count(), 6));
      args.dx = lab.out("dx", type, s);
    }
    args.d_gamma = gradient("d_gamma");
    args.d_beta = gradient("d_beta");
    args.accumulate = accumulate;
    lab.device.layer_norm_backward(*lab.stream, args);
  };
}

TEST_P(LayerNorm, Forward) {
  TW_NEEDS(Op::layer_norm_forward);
  for (const Dims& s : sizes) {
    SCOPED_TRACE(s.str());
    for (const Sum sum : {Sum::none, Sum::own, Sum::over_x, Sum::over_residual}) {
      SCOPED_TRACE(static_cast<int>(sum));
      compare(device(), Op::layer_norm_forward, dtype(), forward(dtype(), s, sum, 0));
    }
  }
}

TEST_P(LayerNorm, ForwardKeepsTheVarianceOfValuesFarFromZero) {
  TW_NEEDS(Op::layer_norm_forward);
  // A variance taken as E[x²] − E[x]² in float32 loses 10^6·2^-24 = 6 % here. What remains is the rounding of the mean.
  const Dims s{7, 256};
  const Case far = [&](Lab& lab) {
    Floats x = integers(s.count(), 1, -3, 3);
    for (float& value : x) value += 1024;
    if (dtype() == DType::bf16) {
      for (float& value : x) value = 1024 + 8 * (value - 1024);  // steps that bf16 can tell apart there
    }
    lab.device.layer_norm_forward(*lab.stream, {.x = lab.in(dtype(), s, x),
                                                .gamma = lab.in(dtype(), {s[1]}, Floats(256, 1.0f)),
                                                .beta = lab.in(dtype(), {s[1]}, Floats(256, 0.0f)),
                                                .y = lab.out("y", dtype(), s, 0),
                                                .mean = lab.out("mean", DType::float32, {s[0]}, 0),
                                                .rstd = lab.out("rstd", DType::float32, {s[0]}, 0)});
  };
  const std::vector<Output> got = run_on(device(), far), want = run_on(reference_device(), far);
  const double half_unit_of_mean = 1024 * 0x1p-24;
  for (std::size_t i = 0; i < want[0].values.size(); ++i) {
    EXPECT_NEAR(got[0].values[i], want[0].values[i], is_half(dtype()) ? 0x1p-6 : 4 * half_unit_of_mean);
  }
  for (std::size_t i = 0; i < want[2].values.size(); ++i) EXPECT_NEAR(got[2].values[i] / want[2].values[i], 1, 1e-5);
}

TEST_P(LayerNorm, ForwardOfManyRows) {  // more than the cuda device has warps
  TW_NEEDS(Op::layer_norm_forward);
  compare(device(), Op::layer_norm_forward, dtype(), forward(dtype(), {8460, 8}, Sum::none, 0));
}

TEST_P(LayerNorm, Backward) {
  TW_NEEDS(Op::layer_norm_backward);
  for (const Dims& s : sizes) {
    if (s[1] == 2) continue;  // dx of two values cancels to nearly nothing
    SCOPED_TRACE(s.str());
    for (const Residual residual : {Residual::none, Residual::own, Residual::over_dx}) {
      for (const bool accumulate : {false, true}) {
        compare(device(), Op::layer_norm_backward, dtype(), backward(dtype(), s, residual, accumulate));
      }
    }
  }
}

TEST_P(LayerNorm, ByHand) {
  TW_NEEDS(Op::layer_norm_backward);
  Lab lab(device());
  // Rows (1, 3) and (-4, 4): means 2 and 0, variances 1 and 16; with ε = 0 both normalise to (-1, 1).
  const Tensor y = lab.out("y", dtype(), {2, 2}), mean = lab.out("mean", DType::float32, {2}),
               rstd = lab.out("rstd", DType::float32, {2});
  const Tensor x = lab.in(dtype(), {2, 2}, {1, 3, -4, 4}), gamma = lab.in(dtype(), {2}, {2, 4});
  device().layer_norm_forward(*lab.stream, {.x = x,
                                            .gamma = gamma,
                                            .beta = lab.in(dtype(), {2}, {10, 20}),
                                            .epsilon = 0,
                                            .y = y,
                                            .mean = mean,
                                            .rstd = rstd});
  EXPECT_EQ(lab.read(y), (Floats{8, 24, 8, 24}));
  EXPECT_EQ(lab.read(mean), (Floats{2, 0}));
  EXPECT_EQ(lab.read(rstd), (Floats{1, 0.25f}));
  // Two values normalise to ±1 whatever they are: dx = 0, and only the by-passing gradient is left.
  const Tensor dx = lab.out("dx", dtype(), {2, 2}), d_gamma = lab.out("d_gamma", DType::float32, {2}),
               d_beta = lab.out("d_beta", DType::float32, {2});
  device().layer_norm_backward(*lab.stream, {.dy = lab.in(dtype(), {2, 2}, {1, 2, 3, 4}),
                                             .x = x,
                                             .gamma = gamma,
                                             .mean = mean,
                                             .rstd = rstd,
                                             .d_residual = lab.in(dtype(), {2, 2}, {5, 6, 7, 8}),
                                             .dx = dx,
                                             .d_gamma = d_gamma,
                                             .d_beta = d_beta});
  EXPECT_EQ(lab.read(dx), (Floats{5, 6, 7, 8}));
  EXPECT_EQ(lab.read(d_gamma), (Floats{-4, 6}));
  EXPECT_EQ(lab.read(d_beta), (Floats{4, 6}));
}

TEST_P(LayerNorm, OfEqualValuesIsBeta) {
  TW_NEEDS(Op::layer_norm_forward);
  Lab lab(device());
  const Tensor y = lab.out("y", dtype(), {3, 32});
  const Floats beta = integers(32, 4, -9, 9);
  device().layer_norm_forward(*lab.stream, {.x = lab.in(dtype(), {3, 32}, Floats(96, 1.5f)),
                                            .gamma = lab.in(dtype(), {32}, Floats(32, 2.0f)),
                                            .beta = lab.in(dtype(), {32}, beta),
                                            .y = y,
                                            .mean = lab.out("mean", DType::float32, {3}),
                                            .rstd = lab.out("rstd", DType::float32, {3})});
  const Floats values = lab.read(y);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], beta[i % 32]);
}

}  // namespace
}  // namespace tw::test
