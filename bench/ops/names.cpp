#include <cstddef>

#include "bench/ops/case.hpp"

namespace tw::bench::ops {
using namespace models;

std::string product_name(const Product& p) {
  using Kind = Product::Kind;
  if (p.kind == Kind::attention || p.kind == Kind::interaction) return to_string(p.kind);
  if (p.kind == Kind::convolution)
    return p.kernel.str() + "s" + p.stride.brief() + (p.groups > 1 ? "g" + std::to_string(p.groups) : "") + "_h" +
           std::to_string(p.height) + "_" + std::to_string(p.in_channels) + "to" + std::to_string(p.out_channels);
  if (p.kind == Kind::classifier) return p.name.empty() ? "head" : p.name;
  if (!p.name.empty()) return p.name;
  return std::to_string(p.in_features) + "to" + std::to_string(p.out_features);
}

Tensor Case::tensor(DType dtype, Dims dims) {
  Tensor made{nullptr, dtype, dims};
  if (dims.rank() == 0) return made;
  buffers_.emplace_back(device_, made.bytes());
  made.data = buffers_.back().data();
  if (is_float(dtype)) {
    fill_random(device_, *stream_, made);
    return made;
  }
  const std::vector<std::byte> zeros(made.bytes());
  device_.copy_from_host(*stream_, made.data, zeros.data(), made.bytes());
  stream_->synchronize();
  return made;
}

Tensor Case::indices(Dims dims, std::int64_t end) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(dims.count()));
  std::uint64_t state = 1;
  for (std::int32_t& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    value = static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(end));
  }
  return Tensor{host_values(values), DType::int32, dims};
}

}  // namespace tw::bench::ops
