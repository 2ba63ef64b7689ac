#include "bench/ops/case.hpp"

namespace tw::ops {

std::string product_name(const Product& p) {
  switch (p.kind) {
    case Product::Kind::attention:
      return "attention";
    case Product::Kind::classifier:
      return "head";
    case Product::Kind::convolution: {
      std::string name = std::to_string(p.kernel);
      name += 'x' + std::to_string(p.kernel);
      name += 's' + std::to_string(p.stride);
      name += "_h" + std::to_string(p.height);
      name += '_' + std::to_string(p.in_channels);
      name += "to" + std::to_string(p.out_channels);
      return name;
    }
    case Product::Kind::linear:
      break;
  }
  if (!p.name.empty()) return p.name;
  return std::to_string(p.in_features) + "to" + std::to_string(p.out_features);
}

Tensor Case::tensor(DType dtype, Dims dims) {
  Tensor made{nullptr, dtype, dims};
  buffers_.emplace_back(device_, made.bytes());
  made.data = buffers_.back().data();
  if (dtype != DType::int32) {
    fill_random(device_, *stream_, made);
    return made;
  }
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(dims.count()), 0);
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

}  // namespace tw::ops
