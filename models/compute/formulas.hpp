// Scalar formulas shared by every device: the reference evaluates them in double, the CPU and CUDA kernels in float.
// All have internal linkage (see dtype.hpp) and no branches that stop a compiler from vectorising them.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "models/compute/dtype.hpp"
#include "models/compute/operators.hpp"

namespace tw::models::formula {

/// e^x. In double: the library's. In float: 2^n · p(r), |r| ≤ ln2/2, degree-6 minimax polynomial (Cephes expf),
/// relative error < 2e-7 on [-87, 88]; clamped outside, so that it never yields inf or a denormal.
TW_HOST_DEVICE static inline double exponential(double x) { return ::exp(x); }
TW_HOST_DEVICE static inline float exponential(float x) {
  const float upper = 88.0f, lower = -87.0f;
  x = x > upper ? upper : x;
  x = x < lower ? lower : x;
  // Adding 1.5·2^23 rounds to nearest and leaves n in the low mantissa bits.
  const float magic = 12582912.0f;
  const float shifted = x * 1.44269504088896341f + magic;
  const float n = shifted - magic;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(magic) + 127u)
                                 << 23;
  return p * std::bit_cast<float>(exponent);
}

template <class T>
TW_HOST_DEVICE static inline T sigmoid(T x) {
  return T(1) / (T(1) + exponential(-x));
}

/// GELU, tanh form (Hendrycks & Gimpel, arXiv 1606.08415, eq. 2; GPT-2's): 0.5·x·(1 + tanh(u)) = x·sigmoid(2u),
/// u = sqrt(2/π)·(x + 0.044715·x³).
template <class T>
TW_HOST_DEVICE static inline T gelu(T x) {
  const T two_u = T(1.5957691216057308) * (x + T(0.044715) * x * x * x);
  return x * sigmoid(two_u);
}

/// d gelu(x) / dx = s + x·s·(1 − s)·2u', s = sigmoid(2u).
template <class T>
TW_HOST_DEVICE static inline T gelu_derivative(T x) {
  const T two_u = T(1.5957691216057308) * (x + T(0.044715) * x * x * x);
  const T s = sigmoid(two_u);
  const T slope = T(1.5957691216057308) * (T(1) + T(3 * 0.044715) * x * x);
  return s + x * s * (T(1) - s) * slope;
}

/// erf(x). In double: the library's. In float: x·P(x²)/Q(x²) on |x| ≤ 4, beyond which erf rounds to ±1; degrees 5 and
/// 5, fitted for the least relative error, which is below 4e-7 in float.
TW_HOST_DEVICE static inline double error_function(double x) { return ::erf(x); }
TW_HOST_DEVICE static inline float error_function(float x) {
  x = x > 4.0f ? 4.0f : x;
  x = x < -4.0f ? -4.0f : x;
  const float z = x * x;
  float p = 1.986764118555584e-6f;
  p = p * z + 2.8456185827963054e-4f;
  p = p * z + 3.883268451318145e-3f;
  p = p * z + 5.310150608420372e-2f;
  p = p * z + 0.19354364275932312f;
  p = p * z + 1.1283791065216064f;
  float q = 3.741976979654282e-5f;
  q = q * z + 1.1855483753606677e-3f;
  q = q * z + 1.520710252225399e-2f;
  q = q * z + 0.11534936726093292f;
  q = q * z + 0.5048561692237854f;
  q = q * z + 1.0f;
  const float value = x * p / q;
  return value > 1.0f ? 1.0f : value < -1.0f ? -1.0f : value;
}

/// GELU, exact form (arXiv 1606.08415, eq. 1; BERT's): x·Φ(x), Φ(x) = (1 + erf(x/√2)) / 2; and its derivative
/// Φ(x) + x·φ(x), φ(x) = exp(−x²/2)/√(2π).
template <class T>
TW_HOST_DEVICE static inline T gelu_erf(T x) {
  return T(0.5) * x * (T(1) + error_function(x * T(0.70710678118654752)));
}
template <class T>
TW_HOST_DEVICE static inline T gelu_erf_derivative(T x) {
  return T(0.5) * (T(1) + error_function(x * T(0.70710678118654752))) +
         x * T(0.39894228040143268) * exponential(T(-0.5) * x * x);
}

/// tanh(x): the library's, in both types. Its derivative is 1 − tanh²(x).
TW_HOST_DEVICE static inline double hyperbolic_tangent(double x) { return ::tanh(x); }
TW_HOST_DEVICE static inline float hyperbolic_tangent(float x) { return ::tanhf(x); }
template <class T>
TW_HOST_DEVICE static inline T hyperbolic_tangent_derivative(T x) {
  const T y = hyperbolic_tangent(x);
  return (T(1) - y) * (T(1) + y);
}

/// An activation as an operator of its own (ActivationForward), and its derivative.
struct GeluErf {
  template <class T>
  TW_HOST_DEVICE static inline T value(T x) {
    return gelu_erf(x);
  }
  template <class T>
  TW_HOST_DEVICE static inline T derivative(T x) {
    return gelu_erf_derivative(x);
  }
};
struct HyperbolicTangent {
  template <class T>
  TW_HOST_DEVICE static inline T value(T x) {
    return hyperbolic_tangent(x);
  }
  template <class T>
  TW_HOST_DEVICE static inline T derivative(T x) {
    return hyperbolic_tangent_derivative(x);
  }
};
struct RectifiedLinear {
  template <class T>
  TW_HOST_DEVICE static inline T value(T x) {
    return x > T(0) ? x : x != x ? x : T(0);  // a NaN stays
  }
  template <class T>
  TW_HOST_DEVICE static inline T derivative(T x) {
    return x > T(0) ? T(1) : T(0);
  }
};
/// body(GeluErf{}), body(RectifiedLinear{}) or body(HyperbolicTangent{}): those that ActivationForward takes.
template <class Body>
static inline void with_activation(Activation activation, Body&& body) {
  if (activation == Activation::gelu_erf) {
    body(GeluErf{});
  } else if (activation == Activation::relu) {
    body(RectifiedLinear{});
  } else {
    body(HyperbolicTangent{});
  }
}

/// SiLU: x·sigmoid(x) (arXiv 1606.08415 §4), and d silu(x) / dx = s + x·s·(1 − s), s = sigmoid(x).
template <class T>
TW_HOST_DEVICE static inline T silu(T x) {
  return x * sigmoid(x);
}
template <class T>
TW_HOST_DEVICE static inline T silu_derivative(T x) {
  const T s = sigmoid(x);
  return s + x * s * (T(1) - s);
}

/// Gradients of y = silu(gate)·up (SwiGLU; Shazeer, arXiv 2002.05202) under dy.
template <class T>
struct SwigluGradient {
  T gate, up;
};
template <class T>
TW_HOST_DEVICE static inline SwigluGradient<T> swiglu_gradient(T gate, T up, T dy) {
  return {dy * up * silu_derivative(gate), dy * silu(gate)};
}

/// RMSNorm (Zhang & Sennrich, arXiv 1910.07467) of a row: its factor, and dx of y = x·rstd·gamma with g = dy·gamma,
/// `normal` = x·rstd and `mean` that of g·normal over the row.
template <class T>
TW_HOST_DEVICE static inline T rms_norm_rstd(T mean_square, T epsilon) {
  return T(1) / std::sqrt(mean_square + epsilon);
}
template <class T>
TW_HOST_DEVICE static inline T rms_norm_gradient(T g, T normal, T mean, T rstd) {
  return rstd * (g - normal * mean);
}

/// The pair turned by the angle of `cosine` and `sine` (rotary positions; Su et al., arXiv 2104.09864, eq. 13); turned
/// back with −sine.
template <class T>
struct Pair {
  T first, second;
};
template <class T>
TW_HOST_DEVICE static inline Pair<T> rotated(Pair<T> x, T cosine, T sine) {
  return {x.first * cosine - x.second * sine, x.second * cosine + x.first * sine};
}

/// State of one parameter element under AdamW (Loshchilov & Hutter, arXiv 1711.05101, algorithm 2; PyTorch's form:
/// decay θ ← θ·(1 − lr·λ) first, ε outside the bias-corrected root).
template <class T>
struct AdamWState {
  T master, first_moment, second_moment;
};

/// `gradient` is already scaled and clipped. bias_correction_k = 1 − beta_k^step.
template <class T>
TW_HOST_DEVICE static inline AdamWState<T> adamw(AdamWState<T> s, T gradient, T learning_rate, T beta1, T beta2,
                                                 T epsilon, T weight_decay, T bias_correction1, T bias_correction2) {
  s.first_moment = beta1 * s.first_moment + (T(1) - beta1) * gradient;
  s.second_moment = beta2 * s.second_moment + (T(1) - beta2) * gradient * gradient;
  const T root = std::sqrt(s.second_moment / bias_correction2) + epsilon;
  s.master =
      s.master * (T(1) - learning_rate * weight_decay) - learning_rate * (s.first_moment / bias_correction1) / root;
  return s;
}

/// SGD with momentum in PyTorch's form: v ← μ·v + (g + λ·θ); θ ← θ − lr·v (Nesterov off, dampening 0).
template <class T>
struct SgdState {
  T master, momentum;
};
template <class T>
TW_HOST_DEVICE static inline SgdState<T> sgd(SgdState<T> s, T gradient, T learning_rate, T momentum, T weight_decay) {
  s.momentum = momentum * s.momentum + gradient + weight_decay * s.master;
  s.master = s.master - learning_rate * s.momentum;
  return s;
}

/// Dynamic loss scaling (Micikevicius et al., arXiv 1710.03740, §3.2; constants of PyTorch's GradScaler): halved, not
/// below 1, where a gradient was not finite; doubled after `growth_interval` steps without, not above 2^24.
constexpr float first_loss_scale = 65536.0f;
struct LossScale {
  float scale;
  std::int32_t good_steps;  // since the scale last changed
};
TW_HOST_DEVICE static inline LossScale next_loss_scale(LossScale s, bool found_non_finite,
                                                       std::int32_t growth_interval) {
  if (found_non_finite) return {s.scale > 2.0f ? s.scale * 0.5f : 1.0f, 0};
  if (s.good_steps + 1 < growth_interval) return {s.scale, s.good_steps + 1};
  return {s.scale < 8388608.0f ? s.scale * 2.0f : 16777216.0f, 0};
}

/// What UpdateLossScale does with the step's scalars.
TW_HOST_DEVICE static inline void update_loss_scale(StepScalars& step, std::int32_t growth_interval, float beta1,
                                                    float beta2) {
  const bool skipped = step.found_non_finite != 0;
  const LossScale next = next_loss_scale({step.loss_scale, step.good_steps}, skipped, growth_interval);
  step.loss_scale = next.scale;
  step.good_steps = next.good_steps;
  step.skipped_steps += skipped ? 1 : 0;
  step.taken_steps += skipped ? 0 : 1;
  step.found_non_finite = 0;
  const double t = static_cast<double>(step.taken_steps) + 1;
  step.bias_correction1 = static_cast<float>(1 - ::pow(static_cast<double>(beta1), t));
  step.bias_correction2 = static_cast<float>(1 - ::pow(static_cast<double>(beta2), t));
}

}  // namespace tw::models::formula
