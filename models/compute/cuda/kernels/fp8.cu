// Rounding to fp8 under a scale that follows the greatest magnitudes of earlier calls, straight and transposed.
#include "models/compute/cuda/kernels/support.cuh"

namespace tw::cuda {
namespace {

constexpr int round_threads = 256;
constexpr int tile = 64;            // rows and columns of a block
constexpr int pack = 8;             // columns that a thread reads at once
constexpr int line = 16;            // rows that a thread writes at once when transposing
constexpr int pitch = tile + line;  // of a column in shared memory: keeps 16-byte alignment, spreads the banks

/// The greatest of the block's values goes to `total`, where that is given. Bits of floats that are not negative order as the floats do, a
/// NaN is above all; a maximum depends on no order. `shared`: one word for each warp.
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

/// N neighbours, at once where `wide`.
template <bool wide, class F, int N>
__device__ inline void store_line(F* p, const Pack<F, N>& values) {
  if constexpr (wide) {
    *reinterpret_cast<Pack<F, N>*>(p) = values;
  } else {
    for (int k = 0; k < N; ++k) p[k] = values.values[k];
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

/// Blocks: tiles across × tiles down. rows and columns: multiples of 16. `wide`: all addresses are multiples of 16.
template <class F, bool wide>
__global__ void __launch_bounds__(round_threads)
    fp8_round_kernel(const bf16* x, Index rows, Index columns, Fp8Scale* s, bool follows, F* straight, F* transposed) {
  auto* shared = dynamic_shared<std::uint32_t>();
  F* turned = reinterpret_cast<F*>(shared + round_threads / warp_size);  // (tile columns, pitch)
  const Index tiles = (columns + tile - 1) / tile;
  const Index first_row = blockIdx.x / tiles * tile, first_column = blockIdx.x % tiles * tile;
  const float scale = s->scale;
  std::uint32_t greatest = 0;
  for (int i = static_cast<int>(threadIdx.x); i < tile * tile / pack; i += round_threads) {
    const int row = i / (tile / pack), column = i % (tile / pack) * pack;
    if (first_row + row >= rows || first_column + column >= columns) continue;
    const Index at = (first_row + row) * columns + first_column + column;
    const Floats<pack> values = load_line<wide, pack>(x + at);
    Pack<F, pack> rounded;
#pragma unroll
    for (int k = 0; k < pack; ++k) {
      const std::uint32_t bits = magnitude(values[k]);
      greatest = bits > greatest ? bits : greatest;
      rounded.values[k] = to_fp8<F>(values[k] * scale);
    }
    if (straight != nullptr) store_line<wide>(straight + at, rounded);
    if (transposed != nullptr) {
#pragma unroll
      for (int k = 0; k < pack; ++k) turned[(column + k) * pitch + row] = rounded.values[k];
    }
  }
  greatest_of_block(greatest, shared, follows ? &s->greatest : nullptr);  // has a barrier
  if (transposed == nullptr) return;
  for (int i = static_cast<int>(threadIdx.x); i < tile * tile / line; i += round_threads) {
    const int column = i / (tile / line), row = i % (tile / line) * line;
    if (first_row + row >= rows || first_column + column >= columns) continue;
    store_line<wide>(transposed + (first_column + column) * rows + first_row + row,
                     *reinterpret_cast<const Pack<F, line>*>(turned + column * pitch + row));
  }
}

template <class F>
void launch_round(cudaStream_t stream, const bf16* x, Index rows, Index columns, Fp8Scale* scale, bool follows,
                  void* straight, void* transposed) {
  const auto blocks = static_cast<unsigned>(ceil_div(rows, tile) * ceil_div(columns, tile));
  constexpr std::size_t shared_bytes = round_threads / warp_size * sizeof(std::uint32_t) + tile * pitch;
  const auto with = [&]<bool wide>() {
    launch<fp8_round_kernel<F, wide>>(blocks, round_threads, shared_bytes, stream, x, rows, columns, scale, follows,
                                      static_cast<F*>(straight), static_cast<F*>(transposed));
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
  launch<fp8_scale_kernel>(1, warp_size, 0, stream, gradient ? e5m2::largest : e4m3::largest, scale);
}

void fp8_round(cudaStream_t stream, bool gradient, const bf16* x, Index rows, Index columns, Fp8Scale* scale,
               void* straight, void* transposed, bool follows) {
  if (gradient) {
    launch_round<e5m2>(stream, x, rows, columns, scale, follows, straight, transposed);
  } else {
    launch_round<e4m3>(stream, x, rows, columns, scale, follows, straight, transposed);
  }
}

}  // namespace tw::cuda
