// Normally distributed numbers from Philox words: Box–Muller with own polynomials, so that every machine, instruction
// set and thread count gives the same bits.
#pragma once

#include <cstdint>

namespace tw::models {

/// out[i] = stddev · z(seed, stream, begin + i) for i in [0, count); begin must be a multiple of 4. z are standard
/// normal
/// (|z| ≤ 6.8); element e comes from word pair (e % 4) / 2 of Philox block e / 4. Runs on the calling thread.
void fill_normal(float* out, std::int64_t count, float stddev, std::uint64_t seed, std::uint64_t stream,
                 std::int64_t begin);

/// The same, without the instruction sets that fill_normal chooses from: what it is tested against.
void fill_normal_generic(float* out, std::int64_t count, float stddev, std::uint64_t seed, std::uint64_t stream,
                         std::int64_t begin);

/// fill_normal over `threads` threads, from element 0.
void fill_normal_parallel(float* out, std::int64_t count, float stddev, std::uint64_t seed, std::uint64_t stream,
                          int threads);

}  // namespace tw::models
