// The reference device's backward passes against finite differences of its own forward passes. A device cannot pass its
// comparison with the reference by sharing a wrong formula.
//
// L(x) = Σ c·y(x) with fixed random c. Along a direction d of ±1, dL = Σ dx·d must equal the five-point difference
// (8·(L(h) − L(−h)) − (L(2h) − L(−2h))) / 12h. Inputs lie on a grid of 2^-12 and h = 2^-6, so that x ± 2h·d is exact in
// float32; L is summed in float64. Errors left: outputs rounded to 2^-24 over h (4e-6 relative), and h⁴·f⁽⁵⁾/30
// (2e-9·f⁽⁵⁾).
#pragma once

#include <cmath>

#include "tests/support/devices.hpp"

namespace tw::test {

constexpr models::DType f32 = models::DType::float32;
constexpr double difference_step = 0x1p-6;
constexpr double relative_limit = 1e-4;

inline Floats on_grid(Floats values) {
  for (float& value : values) value = std::round(value * 4096) / 4096;
  return values;
}
inline Floats grid_normal(std::int64_t count, std::uint64_t seed) { return on_grid(normal(count, seed)); }

inline double weighted_sum(const Floats& y, const Floats& c) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += static_cast<double>(y[i]) * c[i];
  return sum;
}

/// `loss` of one input, all others fixed; `gradient` as backward gives it.
inline void check_gradient(const std::string& name, const Floats& x, const std::function<double(const Floats&)>& loss,
                           const Floats& gradient) {
  ASSERT_EQ(gradient.size(), x.size()) << name;
  double norm = 0;
  for (const float g : gradient) norm += static_cast<double>(g) * g;
  norm = std::sqrt(norm);
  EXPECT_GT(norm, 0) << name;
  for (std::uint64_t trial = 0; trial < 4; ++trial) {
    Floats direction = integers(static_cast<std::int64_t>(x.size()), 100 + trial, 0, 1);
    double analytic = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      direction[i] = 2 * direction[i] - 1;
      analytic += static_cast<double>(gradient[i]) * direction[i];
    }
    const auto at = [&](double step) {
      Floats moved = x;
      for (std::size_t i = 0; i < x.size(); ++i) moved[i] += static_cast<float>(step) * direction[i];
      return loss(moved);
    };
    const double difference =
        (8 * (at(difference_step) - at(-difference_step)) - (at(2 * difference_step) - at(-2 * difference_step))) /
        (12 * difference_step);
    EXPECT_NEAR(difference, analytic, relative_limit * norm) << name << ", direction " << trial;
  }
}

}  // namespace tw::test
