// Deterministic test data. The same seed gives the same numbers on every machine (no std:: distributions).
#pragma once

#include <cstdint>
#include <vector>

namespace tw::test {

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

/// Integers in [low, high] as floats: sums of products of few small integers are exact in float32 (to 2^24) and in bf16
/// (to 2^8), whatever the order of summation, so that two devices must agree bit for bit. The first is `high`, so that
/// a tensor of one element is not zero.
Floats integers(std::int64_t count, std::uint64_t seed, int low, int high);
Ints indices(std::int64_t count, std::uint64_t seed, int below);
/// Each index i counts[i] times, in an order by chance.
Ints occurrences(const std::vector<int>& counts, std::uint64_t seed);
/// Counts for it, of rows of a table that occur often. In the sorted order some begin and end at multiples of 64 and of
/// 4096, next to them and far from them: there the cuda device cuts its sums.
const std::vector<std::vector<int>>& frequent_counts();
Floats uniform(std::int64_t count, std::uint64_t seed, double low, double high);
/// Mean 0.
Floats normal(std::int64_t count, std::uint64_t seed, double stddev = 1);

}  // namespace tw::test
