// This file is compiled without contraction of a·b + c, so that the clones below give equal bits.
#include "models/data/gaussian.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "models/data/philox.hpp"

namespace tw {
namespace {

#if defined(__GNUC__)
#define TW_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define TW_ALWAYS_INLINE inline
#endif

constexpr int chunk_blocks = 64;

// ln x for normal positive x: Cephes logf, relative error < 1e-7.
TW_ALWAYS_INLINE float natural_log(float x) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(x);
  const std::int32_t exponent = (bits - 0x3f3504f3) >> 23;  // x = m · 2^exponent, m in [sqrt(1/2), sqrt(2))
  const float m = std::bit_cast<float>(bits - (exponent << 23)) - 1.0f;
  const float e = static_cast<float>(exponent);
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = p * m * z - 2.12194440e-4f * e;
  y = y - 0.5f * z;
  return m + y + 0.693359375f * e;
}

// Two words → two independent standard normals (Box & Muller 1958): r = sqrt(−2 ln u), angle 2π·v.
TW_ALWAYS_INLINE void box_muller(std::uint32_t a, std::uint32_t b, float& first, float& second) {
  const float u = static_cast<float>(static_cast<std::int32_t>(a >> 1)) * 0x1p-31f + 0x1p-32f;  // (0, 1]
  const float radius = std::sqrt(std::max(0.0f, -2.0f * natural_log(u)));
  // v in [-1/2, 1/2] turns: quadrant q and rest r, |r| ≤ 1/8; Cephes sinf and cosf on ±π/4.
  const float v = static_cast<float>(static_cast<std::int32_t>(b)) * 0x1p-32f;
  const float magic = 12582912.0f;  // 1.5·2^23: adding it rounds to nearest
  const float shifted = v * 4.0f + magic;
  const float quadrant = shifted - magic;
  const std::uint32_t q = std::bit_cast<std::uint32_t>(shifted);
  const float x = (v - quadrant * 0.25f) * 6.283185307179586f;
  const float z = x * x;
  const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
  const float c =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  const bool swap = (q & 1u) != 0;
  const std::uint32_t cos_bits = std::bit_cast<std::uint32_t>(swap ? s : c) ^ (((q + 1u) & 2u) << 30);
  const std::uint32_t sin_bits = std::bit_cast<std::uint32_t>(swap ? c : s) ^ ((q & 2u) << 30);
  first = radius * std::bit_cast<float>(cos_bits);
  second = radius * std::bit_cast<float>(sin_bits);
}

// chunk_blocks Philox blocks from block `index` on: 4·chunk_blocks normals.
TW_ALWAYS_INLINE void chunk(float* __restrict out, float stddev, std::uint64_t seed, std::uint64_t stream,
                            std::uint64_t index) {
  alignas(64) std::uint32_t words[4][chunk_blocks];
  for (int i = 0; i < chunk_blocks; ++i) {
    const PhiloxWords block = random_block(seed, stream, index + static_cast<std::uint64_t>(i));
    for (int lane = 0; lane < 4; ++lane) words[lane][i] = block.word[lane];
  }
  alignas(64) float normal[4][chunk_blocks];
  for (int pair = 0; pair < 4; pair += 2) {
    for (int i = 0; i < chunk_blocks; ++i) {
      box_muller(words[pair][i], words[pair + 1][i], normal[pair][i], normal[pair + 1][i]);
    }
  }
  for (int i = 0; i < chunk_blocks; ++i) {
    for (int lane = 0; lane < 4; ++lane) out[4 * i + lane] = stddev * normal[lane][i];
  }
}

TW_ALWAYS_INLINE void fill(float* out, std::int64_t count, float stddev, std::uint64_t seed, std::uint64_t stream,
                           std::uint64_t index) {
  constexpr std::int64_t step = 4 * chunk_blocks;
  std::int64_t done = 0;
  for (; done + step <= count; done += step, index += chunk_blocks) chunk(out + done, stddev, seed, stream, index);
  if (done < count) {
    float rest[step];
    chunk(rest, stddev, seed, stream, index);
    std::copy(rest, rest + (count - done), out + done);
  }
}

using FillFunction = void (*)(float*, std::int64_t, float, std::uint64_t, std::uint64_t, std::uint64_t);
void fill_generic(float* out, std::int64_t count, float stddev, std::uint64_t seed, std::uint64_t stream,
                  std::uint64_t index) {
  fill(out, count, stddev, seed, stream, index);
}
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) void fill_avx2(float* out, std::int64_t count, float stddev, std::uint64_t seed,
                                               std::uint64_t stream, std::uint64_t index) {
  fill(out, count, stddev, seed, stream, index);
}
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"))) void fill_avx512(float* out, std::int64_t count,
                                                                               float stddev, std::uint64_t seed,
                                                                               std::uint64_t stream,
                                                                               std::uint64_t index) {
  fill(out, count, stddev, seed, stream, index);
}
FillFunction choose() {
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return fill_avx512;
  }
  return __builtin_cpu_supports("avx2") ? fill_avx2 : fill_generic;
}
#else
FillFunction choose() { return fill_generic; }
#endif

}  // namespace

void fill_normal(float* out, std::int64_t count, float stddev, std::uint64_t seed, std::uint64_t stream,
                 std::int64_t begin) {
  static const FillFunction function = choose();
  function(out, count, stddev, seed, stream, static_cast<std::uint64_t>(begin) / 4);
}

void fill_normal_generic(float* out, std::int64_t count, float stddev, std::uint64_t seed, std::uint64_t stream,
                         std::int64_t begin) {
  fill_generic(out, count, stddev, seed, stream, static_cast<std::uint64_t>(begin) / 4);
}

void fill_normal_parallel(float* out, std::int64_t count, float stddev, std::uint64_t seed, std::uint64_t stream,
                          int threads) {
  constexpr std::int64_t piece = 1 << 16;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    fill_normal(out + begin, std::min(piece, count - begin), stddev, seed, stream, begin);
  }
}

}  // namespace tw
