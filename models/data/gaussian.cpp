// This file is compiled without contraction of a·b + c, so that the clones below give equal bits.
#include "models/data/gaussian.hpp"

#include <algorithm>

#include "models/compute/synthetic.hpp"

namespace tw::models {
namespace {

#if defined(__GNUC__)
#define TW_ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define TW_ALWAYS_INLINE inline
#endif

constexpr int chunk_blocks = 64;

using synthetic::box_muller;

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

}  // namespace tw::models
