// The two 8-bit floats and the scale under which a tensor is stored in them (Micikevicius et al., arXiv 2209.05433),
// shared by host and device code.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "models/compute/dtype.hpp"

namespace tw::models {

/// 4 exponent bits (bias 7), 3 fraction bits, no infinity; finite up to 448.
struct e4m3 {
  std::uint8_t bits;
  static constexpr int fraction_bits = 3, bias = 7;
  static constexpr float largest = 448.0f;
  static constexpr std::uint8_t nan = 0x7f;
};
/// 5 exponent bits (bias 15), 2 fraction bits; finite up to 57344.
struct e5m2 {
  std::uint8_t bits;
  static constexpr int fraction_bits = 2, bias = 15;
  static constexpr float largest = 57344.0f;
  static constexpr std::uint8_t nan = 0x7e;
};

/// Round to nearest, ties to even; magnitudes above the largest finite one become it, NaN stays NaN.
template <class F>
TW_HOST_DEVICE static inline F to_fp8(float value) {
  constexpr int dropped = 23 - F::fraction_bits;
  constexpr std::uint32_t first_normal = static_cast<std::uint32_t>(128 - F::bias) << 23;  // 2^(1 − bias)
  constexpr std::uint32_t magic = static_cast<std::uint32_t>(127 + 24 - F::bias - F::fraction_bits) << 23;
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value), sign = (all >> 24) & 0x80u;
  float magnitude = std::bit_cast<float>(all & 0x7fffffffu);
  const bool is_nan = magnitude != magnitude;
  const float largest = F::largest;
  magnitude = magnitude > largest ? largest : magnitude;
  const auto bits = std::bit_cast<std::uint32_t>(magnitude);
  const std::uint32_t normal = ((bits + (1u << (dropped - 1)) - 1u + ((bits >> dropped) & 1u)) >> dropped) -
                               (static_cast<std::uint32_t>(127 - F::bias) << F::fraction_bits);
  // Beside the magic number a unit in the last place is the smallest denormal, so that the addition itself rounds.
  const std::uint32_t denormal = std::bit_cast<std::uint32_t>(magnitude + std::bit_cast<float>(magic)) - magic;
  const std::uint32_t nan = F::nan, result = is_nan ? nan : bits < first_normal ? denormal : normal;
  return F{static_cast<std::uint8_t>(sign | result)};
}

template <class F>
TW_HOST_DEVICE static inline float fp8_to_float(F value) {
  constexpr std::uint32_t fraction_mask = (1u << F::fraction_bits) - 1u;
  constexpr float unit = std::bit_cast<float>(static_cast<std::uint32_t>(128 - F::bias - F::fraction_bits) << 23);
  constexpr std::uint32_t greatest_exponent = 0x7fu >> F::fraction_bits;
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x80u) << 24, bits = value.bits & 0x7fu;
  const std::uint32_t exponent = bits >> F::fraction_bits, nan = F::nan;
  const std::uint32_t normal = (bits << (23 - F::fraction_bits)) + (static_cast<std::uint32_t>(127 - F::bias) << 23);
  const auto denormal = std::bit_cast<std::uint32_t>(static_cast<float>(bits & fraction_mask) * unit);
  std::uint32_t result = exponent == 0 ? denormal : normal;
  if constexpr (F::fraction_bits == 3) {
    result = bits == nan ? 0x7fc00000u : result;
  } else {
    result = exponent == greatest_exponent ? 0x7f800000u | (bits & fraction_mask) << 21 : result;
  }
  return std::bit_cast<float>(sign | result);
}

namespace formula {

/// The greatest power of two that keeps `greatest` (a magnitude) within `largest`; 1 where there is nothing to go by. A
/// power of two: multiplying by it and by its inverse rounds nothing.
TW_HOST_DEVICE static inline float fp8_scale(float greatest, float largest) {
  if (!(greatest > 1e-30f) || !(greatest < 3e38f)) return 1.0f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(largest / greatest) & 0x7f800000u);
}

}  // namespace formula

/// The scale of one fp8 tensor; starts as zeros. It follows the greatest magnitudes of the last calls.
struct alignas(16) Fp8Scale {
  static constexpr int length = 16;
  float history[length] = {};  ///< greatest magnitudes, 0: none yet
  float inverse = 0;           ///< a product is multiplied by it; cuBLASLt refuses one that is not 16-byte aligned
  float scale = 0;             ///< stored = value · scale
  std::uint32_t greatest = 0;  ///< max |x| of the call that runs, as the bits of a float32
  std::int32_t position = 0;   ///< the next place in `history`
};
static_assert(offsetof(Fp8Scale, inverse) % 16 == 0);

namespace formula {

/// `greatest` goes into the history, the scale follows. `largest` of the format.
TW_HOST_DEVICE static inline void next_fp8_scale(Fp8Scale& s, float largest) {
  s.history[s.position] = std::bit_cast<float>(s.greatest);
  s.position = (s.position + 1) % Fp8Scale::length;
  s.greatest = 0;
  float greatest = 0;
  for (int i = 0; i < Fp8Scale::length; ++i) {
    const float value = s.history[i];
    greatest = value > greatest && value < 3e38f ? value : greatest;  // a step with infinities says nothing
  }
  s.scale = fp8_scale(greatest, largest);
  s.inverse = 1.0f / s.scale;
}

}  // namespace formula
}  // namespace tw::models
