// Element types and their rounding, shared by host and device code.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#if defined(__CUDACC__)
#define TW_HOST_DEVICE __host__ __device__
#else
#define TW_HOST_DEVICE
#endif

namespace tw {

/// Element type of a tensor, chosen at run time.
enum class DType : std::uint8_t { float32, bf16, int32 };

constexpr std::size_t size_of(DType dtype) { return dtype == DType::bf16 ? 2 : 4; }
constexpr std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::float32: return "float32";
    case DType::bf16: return "bf16";
    case DType::int32: return "int32";
  }
  return "?";
}

/// bfloat16: the upper half of an IEEE-754 binary32 (8 exponent bits, 7 fraction bits).
struct bf16 {
  std::uint16_t bits;
};

// Internal linkage (`static`): kernels are compiled several times with different instruction sets, and the linker must
// never pick the AVX-512 copy of a shared inline function for a machine that lacks AVX-512.

/// Round to nearest, ties to even; NaN stays NaN (quietened).
TW_HOST_DEVICE static inline bf16 to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return bf16{static_cast<std::uint16_t>(is_nan ? quiet_nan : rounded)};
}

TW_HOST_DEVICE static inline float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
TW_HOST_DEVICE static inline float to_float(float value) { return value; }

/// Unit roundoff (half a unit in the last place): 2^-24 for float32, 2^-8 for bf16.
constexpr double unit_roundoff(DType dtype) { return dtype == DType::bf16 ? 1.0 / 256 : 1.0 / 16777216; }

}  // namespace tw
