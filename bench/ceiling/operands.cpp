#include "bench/ceiling/operands.hpp"

#include <algorithm>
#include <vector>

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

}  // namespace tw::bench
