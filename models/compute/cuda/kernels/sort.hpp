// A stable sort by the toolkit's library. The harness of the tests has one of the host's in its place.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tw::models::cuda {

/// Of `count` pairs with keys below 2^bits. `scratch` of sort_pairs(), 256-byte aligned.
std::size_t sort_pairs_scratch(std::int64_t count, int bits);
/// Pairs in ascending order of keys, those with equal keys in the order in which they came.
void sort_pairs(cudaStream_t stream, const std::uint32_t* keys, const std::int32_t* values, std::int64_t count, int bits,
                std::uint32_t* sorted_keys, std::int32_t* sorted_values, void* scratch);

}  // namespace tw::models::cuda
