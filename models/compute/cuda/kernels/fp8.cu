// Rounding to fp8 under a scale that follows the greatest magnitudes of earlier calls, straight and transposed.
#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {
namespace {

constexpr int round_threads = occupancy::common_threads({occupancy::fp8_greatest_kernel, occupancy::fp8_round_kernel});
constexpr int tile_rows = 128, tile_columns = 64;  // of a block
constexpr int pack = 8;                            // columns of a thread, in each of its rows
constexpr int word = 4;                            // rows of a thread: bytes of a column that make a word
constexpr int line = 16;                           // rows that a thread writes at once when transposing
constexpr int lines = tile_rows / line;            // of a column
static_assert(word == 4 && round_threads == tile_rows / word * (tile_columns / pack));

/// The greatest of the block's values goes to `total`, where that is given. Bits of floats that are not negative order
/// as the floats do, a NaN is above all; a maximum depends on no order. `shared`: one word for each warp.
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

__global__ void __launch_bounds__(round_threads) fp8_greatest_kernel(const bf16* x, Index count, std::uint32_t* total) {
  std::uint32_t greatest = 0;
  for (Index i = first_index(); i < count; i += index_step()) {
    const std::uint32_t bits = magnitude(to_float(x[i]));
    greatest = bits > greatest ? bits : greatest;
  }
  greatest_of_block(greatest, dynamic_shared<std::uint32_t>(), total);
}

__global__ void fp8_scale_kernel(float largest, Fp8Scale* scale) {
  if (threadIdx.x == 0) formula::next_fp8_scale(*scale, largest);
}

/// Neighbours, four to a word, at once where `wide`.
template <bool wide, class F, int N>
__device__ inline void store_line(F* p, const Pack<std::uint32_t, N>& words) {
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
    for (int k = 0; k < N; ++k) values[k] = to_float(p[k]);
    return values;
  }
}

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

/// Where a line of column `k` of a pack of columns lies in shared memory, in words: at another place for each pack, so
/// that the lanes of a warp, which store into the same line of eight packs, hit all banks.
__device__ inline int line_at(int of_pack, int k, int of_column) {
  return ((of_pack * pack + k) * lines + (of_column ^ of_pack % lines)) * (line / word);
}

/// Blocks: tiles across × tiles down. rows and columns: multiples of 16. `wide`: all addresses are multiples of 16.
template <class F, bool wide>
__global__ void __launch_bounds__(round_threads)
    fp8_round_kernel(const bf16* x, Index rows, Index columns, Fp8Scale* s, bool follows, F* straight, F* transposed,
                     float* inverse) {
  auto* shared = dynamic_shared<std::uint32_t>();
  std::uint32_t* turned = shared + round_threads / warp_size;  // (tile columns, tile rows) bytes
  const unsigned tiles = static_cast<unsigned>((columns + tile_columns - 1) / tile_columns), down = blockIdx.x / tiles;
  const Index first_row = static_cast<Index>(down) * tile_rows,
              first_column = static_cast<Index>(blockIdx.x - down * tiles) * tile_columns;
  const float scale = s->scale;
  if (inverse != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *inverse = s->inverse;
  std::uint32_t greatest = 0;
  const int thread = static_cast<int>(threadIdx.x), of_pack = thread % (tile_columns / pack), column = of_pack * pack,
            group = thread / (tile_columns / pack);
  if (first_row + group * word < rows && first_column + column < columns) {
    const Index at = (first_row + group * word) * columns + first_column + column;
    Floats<pack> values[word];
#pragma unroll
    for (int r = 0; r < word; ++r) values[r] = load_line<wide, pack>(x + at + r * columns);
    std::uint32_t pairs[word][pack / 2];
#pragma unroll
    for (int r = 0; r < word; ++r) {
#pragma unroll
      for (int k = 0; k < pack; ++k) {
        const std::uint32_t bits = magnitude(values[r][k]);
        greatest = bits > greatest ? bits : greatest;
      }
#pragma unroll
      for (int k = 0; k < pack; k += 2)
        pairs[r][k / 2] = fp8_pair_of<F>(values[r][k] * scale, values[r][k + 1] * scale);
      if (straight == nullptr) continue;
      Pack<std::uint32_t, pack / 4> rounded;
#pragma unroll
      for (int k = 0; k < pack / 4; ++k) rounded.values[k] = bytes_of(pairs[r][2 * k], pairs[r][2 * k + 1], 0x5410);
      store_line<wide>(straight + at + r * columns, rounded);
    }
    if (transposed != nullptr) {
      const int in_line = group % (line / word), of_column = group / (line / word);
#pragma unroll
      for (int k = 0; k < pack; k += 2) {
        // Of two rows each: the first column's bytes, then the second's.
        const std::uint32_t upper = bytes_of(pairs[0][k / 2], pairs[1][k / 2], 0x5140),
                            lower = bytes_of(pairs[2][k / 2], pairs[3][k / 2], 0x5140);
        turned[line_at(of_pack, k, of_column) + in_line] = bytes_of(upper, lower, 0x5410);
        turned[line_at(of_pack, k + 1, of_column) + in_line] = bytes_of(upper, lower, 0x7632);
      }
    }
  }
  greatest_of_block(greatest, shared, follows ? &s->greatest : nullptr);  // has a barrier
  if (transposed == nullptr) return;
#pragma unroll
  for (int i = thread; i < tile_columns * lines; i += round_threads) {
    const int c = i / lines, l = i % lines;
    const Index row = first_row + l * line;
    if (row >= rows || first_column + c >= columns) continue;
    store_line<wide>(
        transposed + (first_column + c) * rows + row,
        *reinterpret_cast<const Pack<std::uint32_t, line / word>*>(turned + line_at(c / pack, c % pack, l)));
  }
}

template <class F>
void launch_round(cudaStream_t stream, const bf16* x, Index rows, Index columns, Fp8Scale* scale, bool follows,
                  void* straight, void* transposed, float* inverse) {
  const auto blocks = static_cast<unsigned>(ceil_div(rows, tile_rows) * ceil_div(columns, tile_columns));
  constexpr std::size_t shared_bytes = round_threads / warp_size * sizeof(std::uint32_t) + tile_rows * tile_columns;
  const auto with = [&]<bool wide>() {
    launch<fp8_round_kernel<F, wide>>(blocks, round_threads, shared_bytes, stream, x, rows, columns, scale, follows,
                                      static_cast<F*>(straight), static_cast<F*>(transposed), inverse);
  };
  if (aligned(x) && aligned(straight) && aligned(transposed)) {
    with.template operator()<true>();
  } else {
    with.template operator()<false>();
  }
}

}  // namespace

void fp8_greatest(cudaStream_t stream, const bf16* x, Index count, Fp8Scale* scale) {
  const Index blocks = std::clamp<Index>(ceil_div(count, round_threads * 16), 1, 2048);
  launch<fp8_greatest_kernel>(static_cast<unsigned>(blocks), round_threads,
                              round_threads / warp_size * sizeof(std::uint32_t), stream, x, count, &scale->greatest);
}

void fp8_next_scale(cudaStream_t stream, bool gradient, Fp8Scale* scale) {
  launch<fp8_scale_kernel>(1, occupancy::fp8_scale_kernel.threads, 0, stream, gradient ? e5m2::largest : e4m3::largest,
                           scale);
}

void fp8_round(cudaStream_t stream, bool gradient, const bf16* x, Index rows, Index columns, Fp8Scale* scale,
               void* straight, void* transposed, bool follows, float* inverse) {
  if (gradient) {
    launch_round<e5m2>(stream, x, rows, columns, scale, follows, straight, transposed, inverse);
  } else {
    launch_round<e4m3>(stream, x, rows, columns, scale, follows, straight, transposed, inverse);
  }
}

}  // namespace tw::models::cuda
