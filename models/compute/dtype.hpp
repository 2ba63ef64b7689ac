// Element types and their rounding, shared by host and device code.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__CUDACC__)
#define TW_HOST_DEVICE __host__ __device__
#else
#define TW_HOST_DEVICE
#endif

namespace tw::models {

/// Element type of a tensor, chosen at run time. `byte`: what only the device that wrote it can read.
enum class DType : std::uint8_t { float32, bf16, fp16, int32, byte };

constexpr bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::fp16; }  ///< a float of two bytes
constexpr bool is_float(DType dtype) { return dtype == DType::float32 || is_half(dtype); }
constexpr std::size_t size_of(DType dtype) { return is_half(dtype) ? 2 : dtype == DType::byte ? 1 : 4; }
constexpr std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::float32: return "float32";
    case DType::bf16: return "bf16";
    case DType::fp16: return "fp16";
    case DType::int32: return "int32";
    case DType::byte: return "byte";
  }
  return "?";
}

/// bfloat16: the upper half of an IEEE-754 binary32 (8 exponent bits, 7 fraction bits).
struct bf16 {
  std::uint16_t bits;
};

/// IEEE-754 binary16: 5 exponent bits, 10 fraction bits; finite up to 65504, denormal below 2^-14.
struct fp16 {
  std::uint16_t bits;
};

// Internal linkage (`static`): kernels are compiled several times with different instruction sets, and the linker must
// never pick the AVX-512 copy of a shared inline function for a machine that lacks AVX-512.
//
// On a GPU a rounding is one instruction, of the same bits but for a NaN's payload.

/// Round to nearest, ties to even; NaN stays NaN (quietened).
TW_HOST_DEVICE static inline bf16 to_bf16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet_nan = (bits >> 16) | 0x40u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return bf16{static_cast<std::uint16_t>(is_nan ? quiet_nan : rounded)};
#endif
}

TW_HOST_DEVICE static inline float to_float(bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}
TW_HOST_DEVICE static inline float to_float(float value) { return value; }

/// Round to nearest, ties to even, from 65520 on to infinity; denormals are kept, NaN stays NaN (quietened).
TW_HOST_DEVICE static inline fp16 to_fp16(float value) {
#if defined(__CUDA_ARCH__)
  fp16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  // Normal: the exponent moves from bias 127 to 15, 13 fraction bits go. A carry out of the fraction is the next
  // exponent.
  const std::uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  // Denormal: beside 0.5 a unit in the last place is 2^-24, so that the addition itself rounds.
  const std::uint32_t denormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  std::uint32_t result = magnitude < (113u << 23) ? denormal : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : result;
  return fp16{static_cast<std::uint16_t>(sign | result)};
#endif
}

TW_HOST_DEVICE static inline float to_float(fp16 value) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16, magnitude = value.bits & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + (112u << 23), special = (magnitude << 13) | 0x7f800000u;
  const auto denormal = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 5.9604644775390625e-8f);  // 2^-24
  const std::uint32_t result = magnitude >= 0x7c00u ? special : magnitude < 0x400u ? denormal : normal;
  return std::bit_cast<float>(sign | result);
#endif
}

/// Unit roundoff (half a unit in the last place): 2^-24 for float32, 2^-8 for bf16, 2^-11 for fp16.
constexpr double unit_roundoff(DType dtype) {
  return dtype == DType::bf16 ? 1.0 / 256 : dtype == DType::fp16 ? 1.0 / 2048 : 1.0 / 16777216;
}

}  // namespace tw::models
