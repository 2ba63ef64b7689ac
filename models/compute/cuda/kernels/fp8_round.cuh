// The kernel that rounds a matrix to fp8, straight and transposed, in one pass over what it is made from: a Source, as
// bf16 values that are stored (fp8.cu), or that the kernel computes first (fp8_ahead.cu).
#pragma once

#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {

/// Where rounded elements go, and under which scale.
template <class F>
struct RoundTo {
  F *straight, *transposed;  // each may be null
  Fp8Scale* scale;
  float* inverse;  // of the scale, for later passes; may be null
  bool follows;    // scale->greatest = max |x|
  float* sums;     // (tiles down, columns): of the values in each tile's rows; may be null; of gradients (e5m2) alone

  bool is_aligned() const { return aligned(straight) && aligned(transposed); }
};

// ---- magnitudes ----
/// The greatest of the block's values goes to `total`, where that is given. Bits of floats that are not negative order
/// as the floats do, a NaN is above all; a maximum depends on no order. `shared`: one word for each warp. Has a
/// barrier.
__device__ inline void greatest_of_block(std::uint32_t value, std::uint32_t* shared, std::uint32_t* total) {
#pragma unroll
  for (int distance = warp_size / 2; distance > 0; distance /= 2) {
    const std::uint32_t other = __shfl_xor_sync(all_lanes, value, distance);
    value = other > value ? other : value;
  }
  if (threadIdx.x % warp_size == 0) shared[threadIdx.x / warp_size] = value;
  __syncthreads();
  if (threadIdx.x != 0 || total == nullptr) return;
  for (unsigned warp = 1; warp < blockDim.x / warp_size; ++warp) value = shared[warp] > value ? shared[warp] : value;
  atomicMax(total, value);
}

__device__ inline std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu; }

template <int N>
__device__ inline void take_greatest(const Floats<N>& values, std::uint32_t& greatest) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const std::uint32_t bits = magnitude(values[k]);
    greatest = bits > greatest ? bits : greatest;
  }
}

// ---- bytes ----
/// Two neighbours, the first in the lower byte.
template <class F>
__device__ inline std::uint32_t fp8_pair_of(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t pair;
  if constexpr (std::is_same_v<F, e4m3>) {
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(second), "f"(first));
  }
  return pair;
#else
  return to_fp8<F>(first).bits | static_cast<std::uint32_t>(to_fp8<F>(second).bits) << 8;
#endif
}

/// Four of the eight bytes of a and b: those that the selector's digits name, the lowest first.
__device__ inline std::uint32_t bytes_of(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(a, b, selector);
#else
  const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<std::uint32_t>(both >> (selector >> 4 * i & 7u) * 8 & 0xffu) << 8 * i;
  return result;
#endif
}

/// Neighbours, four to a word, at once where `wide`.
template <bool wide, class F, int N>
__device__ inline void store_line(F* p, const Pack<std::uint32_t, N>& words) {
  touches(p, 4 * N, true);
  if constexpr (wide) {
    *reinterpret_cast<Pack<std::uint32_t, N>*>(p) = words;
  } else {
    for (int k = 0; k < 4 * N; ++k) p[k].bits = static_cast<std::uint8_t>(words.values[k / 4] >> k % 4 * 8);
  }
}
template <bool wide, int N>
__device__ inline Floats<N> load_line(const bf16* p) {
  if constexpr (wide) {
    return load<N>(p);
  } else {
    Floats<N> values;
    for (int k = 0; k < N; ++k) values[k] = load<1>(p + k)[0];
    return values;
  }
}

// ---- the kernel ----
constexpr int round_threads = occupancy::common_threads({occupancy::fp8_greatest_kernel, occupancy::fp8_round_kernel});
constexpr int tile_rows = 128, tile_columns = 64;    // of a block
constexpr int round_pack = 8;                        // columns of a thread, in each of its rows
constexpr int round_word = 4;                        // rows of a thread: bytes of a column that make a word
constexpr int round_line = 16;                       // rows that a thread writes at once when transposing
constexpr int round_lines = tile_rows / round_line;  // of a column
static_assert(round_word == 4 && round_threads == tile_rows / round_word * (tile_columns / round_pack));

/// Where a line of column `k` of a pack of columns lies in shared memory, in words: at another place for each pack, so
/// that the lanes of a warp, which store into the same line of eight packs, hit all banks.
__device__ inline int line_at(int of_pack, int k, int of_column) {
  return ((of_pack * round_pack + k) * round_lines + (of_column ^ of_pack % round_lines)) * (round_line / round_word);
}

constexpr int round_warps = round_threads / warp_size;

/// Of values that `source.at<wide>(row, column)` has, a pack each. Blocks: tiles across × tiles down. rows and columns:
/// multiples of 16. `wide`: all addresses are multiples of 16. `sums`: to.sums is given.
template <class F, bool wide, class Source, bool sums = false>
__global__ void __launch_bounds__(round_threads)
    fp8_round_kernel(Source source, Index rows, Index columns, RoundTo<F> to) {
  auto* shared = dynamic_shared<std::uint32_t>();
  std::uint32_t* turned = shared + round_warps;  // (tile columns, tile rows) bytes
  const unsigned tiles = static_cast<unsigned>((columns + tile_columns - 1) / tile_columns), down = blockIdx.x / tiles;
  const Index first_row = static_cast<Index>(down) * tile_rows,
              first_column = static_cast<Index>(blockIdx.x - down * tiles) * tile_columns;
  const float scale = to.scale->scale;
  if (to.inverse != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *to.inverse = to.scale->inverse;
  std::uint32_t greatest = 0;
  float sum[sums ? round_pack : 1] = {};
  const int thread = static_cast<int>(threadIdx.x), of_pack = thread % (tile_columns / round_pack),
            column = of_pack * round_pack, group = thread / (tile_columns / round_pack);
  if (first_row + group * round_word < rows && first_column + column < columns) {
    const Index row = first_row + group * round_word, at = row * columns + first_column + column;
    Floats<round_pack> values[round_word];
#pragma unroll
    for (int r = 0; r < round_word; ++r) values[r] = source.template at<wide>(row + r, first_column + column);
    std::uint32_t pairs[round_word][round_pack / 2];
#pragma unroll
    for (int r = 0; r < round_word; ++r) {
      take_greatest(values[r], greatest);
      if constexpr (sums) {
#pragma unroll
        for (int k = 0; k < round_pack; ++k) sum[k] += values[r][k];
      }
#pragma unroll
      for (int k = 0; k < round_pack; k += 2)
        pairs[r][k / 2] = fp8_pair_of<F>(values[r][k] * scale, values[r][k + 1] * scale);
      if (to.straight == nullptr) continue;
      Pack<std::uint32_t, round_pack / 4> rounded;
#pragma unroll
      for (int k = 0; k < round_pack / 4; ++k)
        rounded.values[k] = bytes_of(pairs[r][2 * k], pairs[r][2 * k + 1], 0x5410);
      store_line<wide>(to.straight + at + r * columns, rounded);
    }
    if (to.transposed != nullptr) {
      const int in_line = group % (round_line / round_word), of_column = group / (round_line / round_word);
#pragma unroll
      for (int k = 0; k < round_pack; k += 2) {
        // Of two rows each: the first column's bytes, then the second's.
        const std::uint32_t upper = bytes_of(pairs[0][k / 2], pairs[1][k / 2], 0x5140),
                            lower = bytes_of(pairs[2][k / 2], pairs[3][k / 2], 0x5140);
        turned[line_at(of_pack, k, of_column) + in_line] = bytes_of(upper, lower, 0x5410);
        turned[line_at(of_pack, k + 1, of_column) + in_line] = bytes_of(upper, lower, 0x7632);
      }
    }
  }
  float* const of_warps = reinterpret_cast<float*>(turned + tile_rows * tile_columns / sizeof(std::uint32_t));
  if constexpr (sums) {
    // Lanes of one pack: their rows first, then the warps' (below), in an order that is always the same.
#pragma unroll
    for (int k = 0; k < round_pack; ++k) {
      for (int distance = tile_columns / round_pack; distance < warp_size; distance *= 2)
        sum[k] += __shfl_xor_sync(all_lanes, sum[k], distance);
      if (thread % warp_size == of_pack) of_warps[thread / warp_size * tile_columns + column + k] = sum[k];
    }
  }
  greatest_of_block(greatest, shared, to.follows ? &to.scale->greatest : nullptr);  // has a barrier
  if constexpr (sums) {
    if (thread < tile_columns && first_column + thread < columns) {
      float of_tile = 0;
#pragma unroll
      for (int warp = 0; warp < round_warps; ++warp) of_tile += of_warps[warp * tile_columns + thread];
      to.sums[down * columns + first_column + thread] = of_tile;
    }
  }
  if (to.transposed == nullptr) return;
#pragma unroll
  for (int i = thread; i < tile_columns * round_lines; i += round_threads) {
    const int c = i / round_lines, l = i % round_lines;
    const Index row = first_row + l * round_line;
    if (row >= rows || first_column + c >= columns) continue;
    store_line<wide>(to.transposed + (first_column + c) * rows + row,
                     *reinterpret_cast<const Pack<std::uint32_t, round_line / round_word>*>(
                         turned + line_at(c / round_pack, c % round_pack, l)));
  }
}

/// `wide`: packs of the source may be read by wide accesses.
template <class F, class Source>
void launch_round(cudaStream_t stream, const Source& source, bool wide, Index rows, Index columns,
                  const RoundTo<F>& to) {
  const auto blocks = static_cast<unsigned>(ceil_div(rows, tile_rows) * ceil_div(columns, tile_columns));
  constexpr std::size_t without_sums = round_warps * sizeof(std::uint32_t) + tile_rows * tile_columns,
                        with_sums = without_sums + round_warps * tile_columns * sizeof(float);
  const auto with = [&]<bool is_wide, bool sums>() {
    launch<fp8_round_kernel<F, is_wide, Source, sums>>(blocks, round_threads, sums ? with_sums : without_sums, stream,
                                                       source, rows, columns, to);
  };
  const bool is_wide = wide && to.is_aligned();
  if constexpr (std::is_same_v<F, e5m2>) {
    if (to.sums != nullptr)
      return is_wide ? with.template operator()<true, true>() : with.template operator()<false, true>();
  }
  is_wide ? with.template operator()<true, false>() : with.template operator()<false, false>();
}

}  // namespace tw::models::cuda
