// Rounding of stored bf16 to fp8 under a scale that follows the greatest magnitudes of earlier calls.
#include "models/compute/cuda/kernels/fp8_round.cuh"

namespace tw::models::cuda {
namespace {

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

struct Stored {
  const bf16* x;
  Index columns;
  template <bool wide>
  __device__ Floats<round_pack> at(Index row, Index column) const {
    return load_line<wide, round_pack>(x + row * columns + column);
  }
};

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

Index fp8_tiles(Index rows) { return ceil_div(rows, tile_rows); }

void fp8_round(cudaStream_t stream, bool gradient, const bf16* x, Index rows, Index columns, Fp8Scale* scale,
               void* straight, void* transposed, bool follows, float* inverse, float* sums) {
  const auto as = [&]<class F>(F*) {
    launch_round<F>(stream, Stored{x, columns}, aligned(x), rows, columns,
                    {static_cast<F*>(straight), static_cast<F*>(transposed), scale, inverse, follows, sums});
  };
  if (gradient) {
    as(static_cast<e5m2*>(nullptr));
  } else {
    as(static_cast<e4m3*>(nullptr));
  }
}

}  // namespace tw::models::cuda
