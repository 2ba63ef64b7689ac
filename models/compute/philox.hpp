// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011). A pure function of (key, counter), so any rank, thread or device may compute any element by itself.
#pragma once

#include <cstdint>
#include <string_view>

#include "models/compute/dtype.hpp"

namespace tw::models {

struct PhiloxWords {
  std::uint32_t word[4];
};

TW_HOST_DEVICE static inline PhiloxWords philox4x32(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  std::uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
#if defined(__CUDA_ARCH__)
#pragma unroll
#elif !defined(__CUDACC__)
#pragma GCC unroll 10
#endif
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<std::uint32_t>(product1);
    c2 = static_cast<std::uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<std::uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Block `index` of the numbers named by (seed, stream): four words.
TW_HOST_DEVICE static inline PhiloxWords random_block(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return philox4x32({{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                      static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)}},
                    static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

/// Names a stream: FNV-1a of the purpose, mixed with a number (SplitMix64's finaliser, Steele et al. 2014).
constexpr std::uint64_t random_purpose(std::string_view purpose) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : purpose) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}
TW_HOST_DEVICE constexpr std::uint64_t random_stream(std::uint64_t purpose, std::uint64_t number) {
  std::uint64_t z = purpose + 0x9e3779b97f4a7c15u * (number + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
constexpr std::uint64_t random_stream(std::string_view purpose, std::uint64_t number = 0) {
  return random_stream(random_purpose(purpose), number);
}

/// [0, 1) with 24 bits.
TW_HOST_DEVICE static inline float to_uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// Uniform in [0, bound), of a bound up to 2^32.
TW_HOST_DEVICE static inline std::int64_t to_uniform_below(std::uint32_t word, std::int64_t bound) {
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(word) * static_cast<std::uint64_t>(bound)) >> 32);
}

}  // namespace tw::models
