// Uniformly distributed numbers from Philox words.
#pragma once

#include <cstdint>

namespace tw::models {

/// out[i] = bound · (2u − 1), u in [0, 1) with 24 bits of (seed, stream, begin + i), for i in [0, count); begin must be
/// a multiple of 4. Element e comes from word e % 4 of Philox block e / 4.
void fill_uniform_parallel(float* out, std::int64_t count, float bound, std::uint64_t seed, std::uint64_t stream,
                           std::int64_t begin, int threads);

}  // namespace tw::models
