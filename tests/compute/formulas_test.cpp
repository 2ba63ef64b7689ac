// Scalar formulas and rounding, which all devices share. Host only.
#include "models/compute/formulas.hpp"
#include "models/compute/fp8.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "models/compute/reference/reference.hpp"
#include "tests/support/fills.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST(Formulas, ExponentialIsGoodTo2e7) {
  double worst = 0;
  for (int i = 0; i <= 1'000'000; ++i) {
    const float x = -87.0f + 175.0f * static_cast<float>(i) / 1'000'000;
    const double exact = std::exp(static_cast<double>(x));
    worst = std::fmax(worst, std::fabs(formula::exponential(x) - exact) / exact);
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_GT(worst, 1e-9);  // the float version was measured, not the double one
  EXPECT_EQ(formula::exponential(0.0f), 1.0f);
}

TEST(Formulas, ExponentialIsClamped) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float x : {-87.5f, -100.0f, -1e30f, -infinity})
    EXPECT_EQ(formula::exponential(x), formula::exponential(-87.0f));
  for (const float x : {88.5f, 100.0f, 1e30f, infinity})
    EXPECT_EQ(formula::exponential(x), formula::exponential(88.0f));
  EXPECT_TRUE(std::isnormal(formula::exponential(-1e30f)));
  EXPECT_TRUE(std::isfinite(formula::exponential(1e30f)));
}

TEST(Formulas, GeluAgreesWithTanh) {
  for (int i = -1200; i <= 1200; ++i) {
    const double x = i / 100.0;
    const double u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    EXPECT_NEAR(formula::gelu(x), 0.5 * x * (1 + std::tanh(u)), 1e-14 * (1 + std::fabs(x))) << x;
    const float y = formula::gelu(static_cast<float>(x));
    EXPECT_NEAR(y, formula::gelu(x), 1e-6 * (0.1 + std::fabs(x))) << x;
  }
  EXPECT_EQ(formula::gelu(0.0f), 0);
  EXPECT_NEAR(formula::gelu(1.0), 0.8411919906082768, 1e-12);  // PyTorch: gelu(1, approximate="tanh")
}

TEST(Formulas, GeluDerivativeIsTheSlope) {
  for (int i = -800; i <= 800; ++i) {
    const double x = i / 100.0, h = 1e-5;
    const double slope = (formula::gelu(x + h) - formula::gelu(x - h)) / (2 * h);
    EXPECT_NEAR(formula::gelu_derivative(x), slope, 1e-9) << x;
    EXPECT_NEAR(formula::gelu_derivative(static_cast<float>(x)), slope, 3e-6) << x;
  }
}

TEST(Formulas, ErrorFunction) {
  for (int i = -60'000; i <= 60'000; ++i) {
    const double x = i / 10'000.0;
    const auto narrow = static_cast<float>(x);
    const double want = std::erf(static_cast<double>(narrow));
    ASSERT_NEAR(formula::error_function(narrow), want, 4e-7 * std::fabs(want)) << x;
  }
  EXPECT_EQ(formula::error_function(4.5f), 1.0f);
  EXPECT_EQ(formula::error_function(-4.5f), -1.0f);
  EXPECT_EQ(formula::error_function(0.0f), 0.0f);
}

TEST(Formulas, GeluErfAndItsDerivative) {
  for (int i = -800; i <= 800; ++i) {
    const double x = i / 100.0, h = 1e-5;
    EXPECT_NEAR(formula::gelu_erf(x), x * 0.5 * std::erfc(-x / std::sqrt(2.0)), 1e-14 * (1 + std::fabs(x))) << x;
    EXPECT_NEAR(formula::gelu_erf(static_cast<float>(x)), formula::gelu_erf(x), 1e-6) << x;
    const double slope = (formula::gelu_erf(x + h) - formula::gelu_erf(x - h)) / (2 * h);
    EXPECT_NEAR(formula::gelu_erf_derivative(x), slope, 1e-9) << x;
    EXPECT_NEAR(formula::gelu_erf_derivative(static_cast<float>(x)), slope, 1e-6) << x;
  }
  EXPECT_NEAR(formula::gelu_erf(1.0), 0.8413447460685429, 1e-14);  // Φ(1)
  EXPECT_GT(std::fabs(formula::gelu_erf(1.0) - formula::gelu(1.0)), 1e-4) << "the tanh form is another function";
}

TEST(Formulas, HyperbolicTangentAndItsDerivative) {
  for (int i = -800; i <= 800; ++i) {
    const double x = i / 100.0, h = 1e-5;
    const double slope = (std::tanh(x + h) - std::tanh(x - h)) / (2 * h);
    EXPECT_NEAR(formula::hyperbolic_tangent(static_cast<float>(x)), std::tanh(x), 2e-7) << x;
    EXPECT_NEAR(formula::hyperbolic_tangent_derivative(x), slope, 1e-9) << x;
  }
}

TEST(Formulas, SiluAndItsDerivative) {
  for (int i = -800; i <= 800; ++i) {
    const double x = i / 100.0, h = 1e-5;
    EXPECT_NEAR(formula::silu(x), x / (1 + std::exp(-x)), 1e-14 * (1 + std::fabs(x))) << x;
    const double slope = (formula::silu(x + h) - formula::silu(x - h)) / (2 * h);
    EXPECT_NEAR(formula::silu_derivative(x), slope, 1e-9) << x;
    EXPECT_NEAR(formula::silu_derivative(static_cast<float>(x)), slope, 3e-6) << x;
  }
  EXPECT_NEAR(formula::silu(1.0), 0.7310585786300049, 1e-14);  // PyTorch: silu(1)
}

TEST(Rounding, Bf16IsNearestEven) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_float(to_bf16(1.0f)), 1.0f);
  EXPECT_EQ(to_float(to_bf16(1 + 0x1p-8f)), 1.0f);             // tie: even mantissa below
  EXPECT_EQ(to_float(to_bf16(1 + 3 * 0x1p-8f)), 1 + 0x1p-6f);  // tie: even mantissa above
  EXPECT_EQ(to_float(to_bf16(1 + 0x1p-8f + 0x1p-23f)), 1 + 0x1p-7f);
  EXPECT_EQ(to_float(to_bf16(1 + 0x1p-8f - 0x1p-23f)), 1.0f);
  EXPECT_EQ(to_float(to_bf16(infinity)), infinity);
  EXPECT_EQ(to_float(to_bf16(-infinity)), -infinity);
  EXPECT_EQ(to_float(to_bf16(std::numeric_limits<float>::max())), infinity);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(nan))));
  EXPECT_TRUE(
      std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));  // a NaN whose payload would be cut off
  EXPECT_TRUE(std::signbit(to_float(to_bf16(-0.0f))));
  for (const float value : normal(10000, 1)) {
    const double error = std::fabs(static_cast<double>(to_float(to_bf16(value))) - value);
    EXPECT_LE(error, unit_roundoff(DType::bf16) * std::fabs(value));
  }
}

TEST(Rounding, ReferenceRoundsOnce) {
  // Just above a tie of bf16, by less than a float can tell: over float it would fall on the tie and go down to 1.
  const double value = 1 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(to_float(to_bf16(static_cast<float>(value))), 1.0f);
  EXPECT_EQ(to_float(reference::round_to_bf16(value)), 1 + 0x1p-7f);
  EXPECT_EQ(to_float(reference::round_to_bf16(-value)), -1 - 0x1p-7f);
  EXPECT_EQ(to_float(reference::round_to_bf16(1 + 0x1p-8 - 0x1p-40)), 1.0f);
  EXPECT_EQ(to_float(reference::round_to_bf16(1 + 0x1p-8)), 1.0f);
  EXPECT_TRUE(std::isinf(to_float(reference::round_to_bf16(1e300))));
  EXPECT_EQ(to_float(reference::round_to_bf16(1e-300)), 0.0f);
  EXPECT_TRUE(std::isnan(to_float(reference::round_to_bf16(std::nan("")))));
  for (const float v : normal(10000, 2)) EXPECT_EQ(to_float(reference::round_to_bf16(v)), to_float(to_bf16(v)));
}

TEST(Rounding, Fp16IsTheCompilersOwn) {
  // Every fp16, and what lies around and between neighbours.
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const fp16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    const auto want = static_cast<float>(std::bit_cast<_Float16>(value.bits));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(wide)) << bits;
      EXPECT_TRUE(std::isnan(to_float(to_fp16(wide)))) << bits;
      continue;
    }
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide), std::bit_cast<std::uint32_t>(want)) << bits;
    ASSERT_EQ(to_fp16(wide).bits, bits);
    const float next = to_float(fp16{static_cast<std::uint16_t>(bits + 1)});
    if (!std::isfinite(wide) || !std::isfinite(next)) continue;
    const float middle = wide + (next - wide) / 2;
    for (const float x : {middle, std::nextafter(middle, wide), std::nextafter(middle, next)}) {
      ASSERT_EQ(to_fp16(x).bits, std::bit_cast<std::uint16_t>(static_cast<_Float16>(x))) << x;
    }
  }
  for (const float x : {65519.996f, 65520.0f, 1e30f, -1e30f, 1e-30f, -1e-30f, 0x1p-25f, 0x1.000002p-25f}) {
    EXPECT_EQ(to_fp16(x).bits, std::bit_cast<std::uint16_t>(static_cast<_Float16>(x))) << x;
  }
}

/// Nearest value of F by search, ties to the even bit pattern.
template <class F>
int nearest_fp8(float x) {
  int best = 0;
  for (int bits = 1; bits < 0x80; ++bits) {
    const float value = fp8_to_float(F{static_cast<std::uint8_t>(bits)});
    if (!std::isfinite(value)) continue;
    const double now = std::fabs(static_cast<double>(fp8_to_float(F{static_cast<std::uint8_t>(best)})) - x),
                 other = std::fabs(static_cast<double>(value) - x);
    if (other < now || (other == now && bits % 2 == 0)) best = bits;
  }
  return best;
}

template <class F>
void expect_fp8() {
  for (int bits = 0; bits < 0x7f; ++bits) {
    const float value = fp8_to_float(F{static_cast<std::uint8_t>(bits)});
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(static_cast<int>(to_fp8<F>(value).bits), bits);
    EXPECT_EQ(static_cast<int>(to_fp8<F>(-value).bits), bits | 0x80);
    for (const float factor : {1.01f, 1.03f, 1.0625f, 1.125f, 1.24f}) {
      const float x = value * factor;
      EXPECT_EQ(static_cast<int>(to_fp8<F>(x).bits), nearest_fp8<F>(x)) << x;
    }
  }
  const float largest = F::largest;
  for (const float beyond : {largest * 1.001f, largest * 100, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(fp8_to_float(to_fp8<F>(beyond)), largest) << "saturates";
    EXPECT_EQ(fp8_to_float(to_fp8<F>(-beyond)), -largest);
  }
  EXPECT_TRUE(std::isnan(fp8_to_float(to_fp8<F>(std::nanf("")))));
}

TEST(Rounding, Fp8) {
  expect_fp8<e4m3>();
  expect_fp8<e5m2>();
  EXPECT_EQ(fp8_to_float(e4m3{0x01}), 0x1p-9f);
  EXPECT_EQ(fp8_to_float(e4m3{0x7e}), 448.0f);
  EXPECT_EQ(fp8_to_float(e5m2{0x01}), 0x1p-16f);
  EXPECT_EQ(fp8_to_float(e5m2{0x7b}), 57344.0f);
}

TEST(Rounding, Fp8ScaleFollowsTheGreatestOfItsCalls) {
  Fp8Scale scale;
  const auto call = [&](float greatest) {
    scale.greatest = std::bit_cast<std::uint32_t>(greatest);
    formula::next_fp8_scale(scale, e4m3::largest);
    return scale.scale;
  };
  EXPECT_EQ(call(0), 1.0f);
  EXPECT_EQ(call(3.5f), 128.0f);  // 448 / 3.5, exact
  EXPECT_EQ(call(3.6f), 64.0f);   // the power of two below
  EXPECT_EQ(call(100.0f), 4.0f);
  for (int i = 0; i < Fp8Scale::length - 1; ++i) EXPECT_EQ(call(3.5f), 4.0f) << i;
  EXPECT_EQ(call(3.5f), 128.0f) << "the 17th call has forgotten";
  EXPECT_EQ(call(std::numeric_limits<float>::infinity()), 128.0f);
  EXPECT_EQ(scale.inverse, 1 / 128.0f);
}

}  // namespace
}  // namespace tw::test
