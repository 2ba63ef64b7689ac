// In place of models/compute/cuda/kernels/sort.cu, whose library has kernels of its own.
#include "models/compute/cuda/kernels/kernels.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "tests/support/simt/stream.hpp"

namespace tw::models::cuda {

std::size_t sort_pairs_scratch(std::int64_t count, int) { return static_cast<std::size_t>(count) + 1; }

void sort_pairs(cudaStream_t stream, const std::uint32_t* keys, const std::int32_t* values, std::int64_t count,
                int bits, std::uint32_t* sorted_keys, std::int32_t* sorted_values, void* scratch) {
  simt::enqueue_or_throw(stream, "cub::DeviceRadixSort::SortPairs", [=] {
    std::memset(scratch, 0, sort_pairs_scratch(count, bits));  // it is there, and nothing in it is kept
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    // as many bits as a radix sort would look at
    const std::uint32_t mask = bits >= 32 ? 0xffffffffu : (1u << bits) - 1;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return (keys[a] & mask) < (keys[b] & mask); });
    for (std::int64_t i = 0; i < count; ++i) {
      sorted_keys[i] = keys[order[static_cast<std::size_t>(i)]];
      sorted_values[i] = values[order[static_cast<std::size_t>(i)]];
    }
  });
}

}  // namespace tw::models::cuda
