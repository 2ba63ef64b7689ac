// The precisions that a network can train in: what is stored, and how products multiply it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include "models/compute/dtype.hpp"
#include "models/compute/operators.hpp"

namespace tw::models {

/// Activations and the copy of the weights that a step works with; parameters, gradients and optimizer state are
/// float32 in each.
enum class Precision : std::uint8_t {
  float32,
  tf32,          ///< float32 stored, products in tf32
  float32_bf16,  ///< float32 stored, products in bf16 where the library has them
  bf16,
  fp16,  ///< with dynamic loss scaling
  fp8,   ///< bf16 stored, linear layers in fp8
};
inline constexpr std::array all_precisions = {Precision::float32, Precision::tf32, Precision::float32_bf16,
                                              Precision::bf16,    Precision::fp16, Precision::fp8};

constexpr DType storage(Precision precision) {
  if (precision == Precision::fp16) return DType::fp16;
  return precision == Precision::bf16 || precision == Precision::fp8 ? DType::bf16 : DType::float32;
}
constexpr Math math(Precision precision) {
  switch (precision) {
    case Precision::tf32:
      return Math::tf32;
    case Precision::float32_bf16:
      return Math::bf16;
    case Precision::fp8:
      return Math::fp8;
    default:
      return Math::standard;
  }
}
/// Of attention and of the output head, which have no fp8.
constexpr Math math_beside_linear(Precision precision) {
  return precision == Precision::fp8 ? Math::standard : math(precision);
}
/// Whether gradients would underflow without a scaled loss.
constexpr bool scales_loss(Precision precision) { return precision == Precision::fp16; }

/// As --precision writes them.
inline constexpr std::string_view precision_names[] = {"float32", "tf32", "float32_bf16", "bf16", "fp16", "fp8"};
constexpr std::string_view to_string(Precision precision) {
  return precision_names[static_cast<std::size_t>(precision)];
}
constexpr std::optional<Precision> parse_precision(std::string_view text) {
  for (std::size_t i = 0; i < std::size(precision_names); ++i)
    if (text == precision_names[i]) return static_cast<Precision>(i);
  return std::nullopt;
}

}  // namespace tw::models
