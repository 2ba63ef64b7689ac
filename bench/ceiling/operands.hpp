// Operands of measurements: their values, how large those are that the timed products of the ceiling share, and into
// which tiles an output head is cut.
#pragma once

#include <cstdint>
#include <vector>

#include "models/catalog/description.hpp"
#include "models/compute/device.hpp"

namespace tw::bench {

/// Speed and power depend on values, and zeros are the cheapest (models/README.md): values in ±scale, float32 or bf16
/// as the tensor's dtype: one seeded block of 1 MiB over and over. Synchronises.
void fill_random(models::Device& device, models::Stream& stream, const models::Tensor& tensor, float scale = 1);

/// Of an output head: classes that a tile is a multiple of, classes of a tile, classes of a head that is run whole.
inline constexpr std::int64_t class_padding = 64, smallest_tile = 1024, large_tile = 4096,
                              widest_whole = 4 * large_tile;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }

inline constexpr models::Op linear_passes[] = {models::Op::linear_forward, models::Op::linear_backward_input,
                                               models::Op::linear_backward_weights};
inline constexpr models::Op convolution_passes[] = {
    models::Op::convolution_forward, models::Op::convolution_backward_input, models::Op::convolution_backward_weights};

models::ConvolutionShape convolution_shape(const models::Product& product, models::DType dtype, models::Math math);

/// Elements of the operands that serve all products: as large as the largest needs. A layout may round features and
/// channels up.
struct OperandSizes {
  std::int64_t input = 0, output = 0, weight = 0;
  std::int64_t rows = 0;  ///< of an output head; 0 without
};
OperandSizes operand_sizes(const std::vector<models::Product>& products, std::int64_t rounded_to = 1);

}  // namespace tw::bench
