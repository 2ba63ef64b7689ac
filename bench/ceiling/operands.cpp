#include "bench/ceiling/operands.hpp"

#include <algorithm>

#include "bench/ceiling/ceiling.hpp"
#include "models/workspace_estimate.hpp"

namespace tw::bench {

void fill_random(models::Device& device, models::Stream& stream, const models::Tensor& tensor, float scale) {
  const std::size_t block_bytes = std::min<std::size_t>(tensor.bytes(), 1 << 20);
  std::vector<unsigned char> block(block_bytes);
  std::uint64_t state = 0x9e3779b97f4a7c15u;
  const auto next = [&] {  // xorshift64*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return scale * static_cast<float>(static_cast<std::int64_t>(state * 0x2545f4914f6cdd1du)) * 0x1p-63f;
  };
  const auto fill = [&]<class T>(T (*rounded)(float)) {
    auto* values = reinterpret_cast<T*>(block.data());
    for (std::size_t i = 0; i < block_bytes / sizeof(T); ++i) values[i] = rounded(next());
  };
  if (tensor.dtype == models::DType::bf16)
    fill(models::to_bf16);
  else if (tensor.dtype == models::DType::fp16)
    fill(models::to_fp16);
  else
    fill(+[](float value) { return value; });
  for (std::size_t done = 0; done < tensor.bytes(); done += block_bytes)
    device.copy_from_host(stream, static_cast<char*>(tensor.data) + done, block.data(),
                          std::min(block_bytes, tensor.bytes() - done));
  stream.synchronize();
}

models::ConvolutionShape convolution_shape(const models::Product& p, models::DType dtype, models::Math math) {
  const auto by_axis = [](const models::Product::PerAxis& sizes) { return models::PerAxis(sizes.height, sizes.width); };
  return {p.batch,           p.height,           p.width, p.in_channels, p.out_channels, by_axis(p.kernel),
          by_axis(p.stride), by_axis(p.padding), dtype,   math,          p.groups};
}

OperandSizes operand_sizes(const std::vector<models::Product>& products, std::int64_t rounded_to) {
  OperandSizes most;
  const auto cover = [&](std::int64_t input, std::int64_t output, std::int64_t weight) {
    most.input = std::max(most.input, input);
    most.output = std::max(most.output, output);
    most.weight = std::max(most.weight, weight);
  };
  for (const models::Product& p : products) {
    if (p.kind == models::Product::Kind::convolution) {
      const models::ConvolutionShape shape = convolution_shape(p, models::DType::float32, models::Math::standard);
      const std::int64_t in = round_up(p.in_channels, rounded_to), out = round_up(p.out_channels, rounded_to);
      cover(p.batch * p.height * p.width * in, p.batch * shape.out_height() * shape.out_width() * out,
            out * p.kernel.area() * in / p.groups);
    } else if (p.kind != models::Product::Kind::attention && p.kind != models::Product::Kind::interaction) {
      const bool head = p.kind == models::Product::Kind::classifier;
      // Each tile of classes may overhang by its padding.
      const std::int64_t overhang = head ? (p.out_features / smallest_tile + 2) * class_padding : 0;
      const std::int64_t in = round_up(p.in_features, rounded_to);
      const std::int64_t out = round_up(p.out_features, rounded_to) + overhang;
      cover(p.rows * in, p.rows * out, out * in);
      if (head) most.rows = std::max(most.rows, p.rows);
    }
  }
  return most;
}

std::size_t ceiling_bytes(const models::NetworkDescription& network, models::Precision precision,
                          std::int64_t micro_batch, std::int64_t seq_len, int threads) {
  constexpr std::int64_t widest_block = 16;  // to which a layout of the library's rounds channels up
  const std::vector<models::Product> all = models::products(network, micro_batch, seq_len);
  const OperandSizes most = operand_sizes(all, widest_block);
  const auto bytes = [](std::int64_t count, std::size_t size) { return static_cast<std::size_t>(count) * size; };
  const std::size_t element = models::size_of(models::storage(precision));
  // Twice x and y, a weight for the plans, one for the library, a gradient.
  std::size_t total = 2 * bytes(most.input + most.output + most.weight, element) + bytes(most.weight, sizeof(float)) +
                      bytes(most.rows, sizeof(std::int32_t));
  std::size_t head = 0;  // run as a linear layer, whole or in tiles, it copies both operands of its gradient
  for (const models::Product& p :
       all) {  // what plans keep packed, forward and backward; a 1×1 convolution once more as linear
    const bool twice = p.kind == models::Product::Kind::convolution && p.kernel == 1 && p.stride == 1;
    total += (twice ? 4 : 2) * bytes(operand_sizes({p}, class_padding).weight, element);
    const models::LinearShape layer{
        p.rows, p.in_features, p.out_features, storage(precision), models::Activation::none, math(precision)};
    if (p.kind == models::Product::Kind::linear && !p.beside_fp8)
      total += static_cast<std::size_t>(layer.x_for_weights().count() + layer.dy_for_input().count());
    if (p.kind != models::Product::Kind::classifier) continue;
    const std::int64_t widest = p.out_features <= widest_whole ? p.out_features : large_tile;
    head = std::max(head, bytes((p.rows + class_padding) * (widest + p.in_features + 2 * class_padding), element));
  }
  return total + head + models::workspace_estimate(network, models::storage(precision), micro_batch, seq_len, threads);
}

}  // namespace tw::bench
