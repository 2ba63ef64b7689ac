#include "models/compute/cuda/kernels/kernels.hpp"

#include <cub/device/device_radix_sort.cuh>

#include "models/compute/cuda/kernels/check.hpp"

namespace tw::models::cuda {

std::size_t sort_pairs_scratch(std::int64_t count, int bits) {
  std::size_t bytes = 0;
  TW_CUDA(cub::DeviceRadixSort::SortPairs(
      nullptr, bytes, static_cast<const std::uint32_t*>(nullptr), static_cast<std::uint32_t*>(nullptr),
      static_cast<const std::int32_t*>(nullptr), static_cast<std::int32_t*>(nullptr), count, 0, bits));
  return bytes;
}

void sort_pairs(cudaStream_t stream, const std::uint32_t* keys, const std::int32_t* values, std::int64_t count,
                int bits, std::uint32_t* sorted_keys, std::int32_t* sorted_values, void* scratch) {
  std::size_t bytes = sort_pairs_scratch(count, bits);
  TW_CUDA(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, values, sorted_values, count, 0, bits,
                                          stream));
}

}  // namespace tw::models::cuda
