// What layer norm and RMS norm share: the kernels over rows. An RMS norm is a layer norm without mean and shift:
// `centred` is true for a layer norm. Registers hold a row from the first access to the last: those of a warp, several
// packs a lane, where it is short (forward), else those of a block, one pack a thread. What is wider than that, or lies
// where no wide access may go, takes the kernels named any.
#pragma once

#include "models/compute/cuda/kernels/columns.cuh"

namespace tw::models::cuda {

template <class T>
struct NormForward {
  const T *x, *residual, *gamma, *beta;  // beta only where centred
  T *sum, *y;                            // y may be null: the statistics alone
  float *mean, *rstd;                    // mean only where centred
  Index rows, width;
  float epsilon;
};
template <class T>
NormForward<T> norm_of(const LayerNormForward& args) {
  return {args.x.as<T>(),   args.residual.as<T>(), args.gamma.as<T>(),    args.beta.as<T>(),
          args.sum.as<T>(), args.y.as<T>(),        args.mean.as<float>(), args.rstd.as<float>(),
          args.x.dims[0],   args.x.dims[1],        args.epsilon};
}
template <class T>
NormForward<T> norm_of(const RmsNormForward& args) {
  return {args.x.as<T>(), args.residual.as<T>(), args.gamma.as<T>(), nullptr,        args.sum.as<T>(), args.y.as<T>(),
          nullptr,        args.rstd.as<float>(), args.x.dims[0],     args.x.dims[1], args.epsilon};
}
/// Whether packs of all that has the extents of a row or of x may be moved by wide accesses.
template <class T, class Arguments>
bool norm_is_aligned(const Arguments& args) {
  bool beta = true;
  if constexpr (requires { args.beta; }) beta = aligned<width_of<T>>({args.beta});
  return beta && aligned<width_of<T>>({args.x, args.residual, args.sum, args.gamma, args.y});
}

/// x + residual, rounded to T and stored: what is normalised, and what backward will see.
template <int N, class T>
__device__ inline void add_residual(const NormForward<T>& a, Index at, Pack<T, N>& x, const Pack<T, N>& residual) {
  Floats<N> sum = to_floats(x);
  const Floats<N> other = to_floats(residual);
#pragma unroll
  for (int k = 0; k < N; ++k) sum[k] += other[k];
  x = to_pack<T>(sum);
  store_pack(a.sum + at, x);
}

template <bool centred, int N>
__device__ inline float sum_of_squares(const Floats<N>& x, float mean) {
  float squares = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float distance = centred ? x[k] - mean : x[k];
    squares += distance * distance;
  }
  return squares;
}

template <bool centred, int N>
__device__ inline Floats<N> normal_of(const Floats<N>& x, const Floats<N>& gamma, const Floats<N>& beta, float mean,
                                      float rstd) {
  Floats<N> y;
#pragma unroll
  for (int k = 0; k < N; ++k) y[k] = centred ? (x[k] - mean) * rstd * gamma[k] + beta[k] : x[k] * rstd * gamma[k];
  return y;
}
/// To y, where that is given.
template <bool centred, int N, class T>
__device__ inline void write_normal(const NormForward<T>& a, Index at, const Floats<N>& x, const Floats<N>& gamma,
                                    const Floats<N>& beta, float mean, float rstd) {
  if (a.y != nullptr) store(a.y + at, normal_of<centred>(x, gamma, beta, mean, rstd));
}

template <bool centred, class T>
__device__ inline void write_statistics(const NormForward<T>& a, Index row, float mean, float rstd, bool first_thread) {
  if (!first_thread) return;
  if constexpr (centred) a.mean[row] = mean;
  a.rstd[row] = rstd;
}

// Of a block that holds a row, one pack a thread.
constexpr int most_row_threads =
    occupancy::common_threads({occupancy::norm_forward_kernel, occupancy::norm_backward_kernel});
constexpr int most_any_threads =
    occupancy::common_threads({occupancy::norm_forward_any_kernel, occupancy::norm_backward_any_kernel});

// Warps of a block, each with rows of its own.
constexpr int warp_rows = occupancy::norm_forward_warp_kernel.threads / warp_size;
constexpr Index most_warp_blocks = 16 * occupancy::sms;

/// Rows by a warp: each lane holds up to `most` packs of a row, and of gamma and beta.
template <class T, bool centred, int most>
struct WarpNorm {
  static constexpr int n = width_of<T>, step = warp_size * n;
  int first, width;  // the lane's first column
  Pack<T, n> gamma[most], beta[centred ? most : 1];

  __device__ explicit WarpNorm(const NormForward<T>& a)
      : first(static_cast<int>(threadIdx.x) % warp_size * n), width(static_cast<int>(a.width)) {
#pragma unroll
    for (int p = 0; p < most; ++p) {
      if (first + p * step >= width) continue;
      gamma[p] = load_pack<n>(a.gamma + first + p * step);
      if constexpr (centred) beta[p] = load_pack<n>(a.beta + first + p * step);
    }
  }

  /// Writes the row's sum and statistics; write(column, x, gamma, beta, mean, rstd) for each pack of the lane.
  template <class Write>
  __device__ void run(const NormForward<T>& a, Index row, Write&& write) const {
    const Index begin = row * a.width + first;
    Pack<T, n> packs[most];
#pragma unroll
    for (int p = 0; p < most; ++p)
      if (first + p * step < width) packs[p] = load_pack<n>(a.x + begin + p * step);
    if (a.residual != nullptr) {
#pragma unroll
      for (int p = 0; p < most; ++p)
        if (first + p * step < width)
          add_residual(a, begin + p * step, packs[p], load_pack<n>(a.residual + begin + p * step));
    }
    float mean = 0, squares = 0;
    if constexpr (centred) {
      float sum = 0;
#pragma unroll
      for (int p = 0; p < most; ++p) {
        if (first + p * step >= width) continue;
        const Floats<n> x = to_floats(packs[p]);
#pragma unroll
        for (int k = 0; k < n; ++k) sum += x[k];
      }
      mean = warp_sum(sum) / static_cast<float>(a.width);
    }
#pragma unroll
    for (int p = 0; p < most; ++p) {
      if (first + p * step >= width) continue;
      squares += sum_of_squares<centred>(to_floats(packs[p]), mean);
    }
    const float rstd = 1.0f / ::sqrtf(warp_sum(squares) / static_cast<float>(a.width) + a.epsilon);
#pragma unroll
    for (int p = 0; p < most; ++p) {
      if (first + p * step >= width) continue;
      write(first + p * step, to_floats(packs[p]), to_floats(gamma[p]),
            centred ? to_floats(beta[centred ? p : 0]) : Floats<n>{}, mean, rstd);
    }
    write_statistics<centred>(a, row, mean, rstd, first == 0);
  }
};

/// A warp for each row, which takes rows w, w + warps, …. No warp waits for another.
template <class T, bool centred, int most>
__global__ void __launch_bounds__(warp_rows* warp_size, occupancy::norm_forward_warp_kernel.blocks)
    norm_forward_warp_kernel(NormForward<T> a) {
  constexpr int n = width_of<T>;
  const WarpNorm<T, centred, most> norm(a);
  Index row = static_cast<Index>(blockIdx.x) * warp_rows + threadIdx.x / warp_size;
  for (; row < a.rows; row += static_cast<Index>(gridDim.x) * warp_rows) {
    norm.run(a, row,
             [&](int column, const Floats<n>& x, const Floats<n>& gamma, const Floats<n>& beta, float mean,
                 float rstd) { write_normal<centred>(a, row * a.width + column, x, gamma, beta, mean, rstd); });
  }
}

/// One block for each row; each thread holds one pack of it.
template <class T, bool centred>
__global__ void __launch_bounds__(most_row_threads) norm_forward_kernel(NormForward<T> a) {
  constexpr int n = width_of<T>;
  const Index row = blockIdx.x, column = static_cast<Index>(threadIdx.x) * n, at = row * a.width + column;
  const bool here = column < a.width;
  float* scratch = dynamic_shared<float>();
  Floats<n> x{};
  float sum[1] = {0}, squares[1] = {0}, mean = 0;
  Pack<T, n> gamma{}, beta{};
  if (here) {
    Pack<T, n> pack = load_pack<n>(a.x + at);
    if (a.y != nullptr) {
      gamma = load_pack<n>(a.gamma + column);
      if constexpr (centred) beta = load_pack<n>(a.beta + column);
    }
    if (a.residual != nullptr) add_residual(a, at, pack, load_pack<n>(a.residual + at));
    x = to_floats(pack);
    if constexpr (centred) {
#pragma unroll
      for (int k = 0; k < n; ++k) sum[0] += x[k];
    }
  }
  if constexpr (centred) {
    block_sum(sum, scratch);
    mean = sum[0] / static_cast<float>(a.width);
    scratch += blockDim.x / warp_size;
  }
  if (here) squares[0] = sum_of_squares<centred>(x, mean);
  block_sum(squares, scratch);
  const float rstd = 1.0f / ::sqrtf(squares[0] / static_cast<float>(a.width) + a.epsilon);
  if (here) write_normal<centred>(a, at, x, to_floats(gamma), to_floats(beta), mean, rstd);
  write_statistics<centred>(a, row, mean, rstd, threadIdx.x == 0);
}

/// One block for each row, read again for each pass; packs of N.
template <class T, bool centred, int N>
__global__ void __launch_bounds__(most_any_threads) norm_forward_any_kernel(NormForward<T> a) {
  const Index row = blockIdx.x, begin = row * a.width, step = blockDim.x * N;
  float* scratch = dynamic_shared<float>();
  const T* x = a.residual != nullptr ? a.sum : a.x;  // each thread reads again what it wrote itself
  float sum[1] = {0}, squares[1] = {0}, mean = 0;
  for (Index column = threadIdx.x * N; column < a.width; column += step) {
    Pack<T, N> pack = load_pack<N>(a.x + begin + column);
    if (a.residual != nullptr) add_residual(a, begin + column, pack, load_pack<N>(a.residual + begin + column));
    const Floats<N> values = to_floats(pack);
    if constexpr (centred) {
#pragma unroll
      for (int k = 0; k < N; ++k) sum[0] += values[k];
    } else {
      squares[0] += sum_of_squares<false>(values, 0);
    }
  }
  if constexpr (centred) {
    block_sum(sum, scratch);
    mean = sum[0] / static_cast<float>(a.width);
    scratch += blockDim.x / warp_size;
    for (Index column = threadIdx.x * N; column < a.width; column += step)
      squares[0] += sum_of_squares<true>(load<N>(x + begin + column), mean);
  }
  block_sum(squares, scratch);
  const float rstd = 1.0f / ::sqrtf(squares[0] / static_cast<float>(a.width) + a.epsilon);
  write_statistics<centred>(a, row, mean, rstd, threadIdx.x == 0);
  if (a.y == nullptr) return;
  for (Index column = threadIdx.x * N; column < a.width; column += step) {
    write_normal<centred>(a, begin + column, load<N>(x + begin + column), load<N>(a.gamma + column),
                          centred ? load<N>(a.beta + column) : Floats<N>{}, mean, rstd);
  }
}

/// Whether a block holds a row in packs of n, and its threads.
struct RowBlock {
  bool holds;
  int threads;
  RowBlock(Index width, int n, bool aligned)
      : holds(aligned && width % n == 0 && width / n <= most_row_threads),
        threads(holds ? round_to_warps(width / n) : std::min(round_to_warps(width), most_any_threads)) {}
  /// For `sums` block_sums of one value each.
  std::size_t shared_bytes(int sums) const {
    return static_cast<std::size_t>(sums * threads / warp_size) * sizeof(float);
  }
};

/// `wide`: packs of width_of<T> may be moved by wide accesses.
template <bool centred, class T>
void launch_norm_forward(cudaStream_t stream, const NormForward<T>& a, bool wide) {
  constexpr int n = width_of<T>, sums = centred ? 2 : 1;
  const RowBlock block(a.width, n, wide);
  const auto rows = static_cast<unsigned>(a.rows);
  const Index lane_packs = ceil_div(a.width, warp_size * n);
  const auto warp_blocks = static_cast<unsigned>(std::min(ceil_div(a.rows, warp_rows), most_warp_blocks));
  if (block.holds && lane_packs <= 4) {
    launch<norm_forward_warp_kernel<T, centred, 4>>(warp_blocks, warp_rows * warp_size, 0, stream, a);
  } else if (block.holds && lane_packs <= 8) {
    launch<norm_forward_warp_kernel<T, centred, 8>>(warp_blocks, warp_rows * warp_size, 0, stream, a);
  } else if (block.holds) {
    launch<norm_forward_kernel<T, centred>>(rows, block.threads, block.shared_bytes(sums), stream, a);
  } else if (wide && a.width % n == 0) {
    launch<norm_forward_any_kernel<T, centred, n>>(rows, block.threads, block.shared_bytes(sums), stream, a);
  } else {
    launch<norm_forward_any_kernel<T, centred, 1>>(rows, block.threads, block.shared_bytes(sums), stream, a);
  }
}

// ---- backward ----
template <class T>
struct NormBackward {
  const T *dy, *x, *gamma, *d_residual;
  T* dx;
  const float *mean, *rstd;  // mean only where centred
  float* partial;            // (blocks, 2, width), or where not centred (blocks, width): each block's sums for d_gamma
                             // and d_beta
  Index rows, width;
};

/// Blocks take rows b, b + blocks, …; 16 or more each, and as many blocks as fill the GPU.
inline Index norm_backward_blocks(Index rows) { return std::clamp<Index>(rows / 16, 1, 1024); }

/// dx from the row's two means: of g = dy·gamma (0 where not centred), and of g·x̂. At this pack x̂ and dy add to the
/// column sums.
template <bool centred, int N, class T>
__device__ inline void write_gradient(const NormBackward<T>& a, Index at, const Floats<N>& dy, const Floats<N>& x,
                                      const Floats<N>& gamma, const Floats<N>& d_residual, float mean, float rstd,
                                      float mean_g, float mean_gx, float* d_gamma, float* d_beta) {
  Floats<N> dx;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float normal = centred ? (x[k] - mean) * rstd : x[k] * rstd, g = dy[k] * gamma[k];
    d_gamma[k] += dy[k] * normal;
    if constexpr (centred) {
      d_beta[k] += dy[k];
      dx[k] = (g - mean_g - normal * mean_gx) * rstd + d_residual[k];
    } else {
      dx[k] = formula::rms_norm_gradient(g, normal, mean_gx, rstd) + d_residual[k];
    }
  }
  store(a.dx + at, dx);
}

/// To sums[0] Σ g·(x − mean), and where centred to sums[1] Σ g.
template <bool centred, int N, int count>
__device__ inline void add_products(const Floats<N>& dy, const Floats<N>& x, const Floats<N>& gamma, float mean,
                                    float (&sums)[count]) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float g = dy[k] * gamma[k];
    if constexpr (centred) {
      sums[0] += g * (x[k] - mean);
      sums[1] += g;
    } else {
      sums[0] += g * x[k];
    }
  }
}

/// A block for each row; each thread holds one pack of it, and the sums of its columns over the rows.
template <class T, bool centred>
__global__ void __launch_bounds__(most_row_threads) norm_backward_kernel(NormBackward<T> a) {
  constexpr int n = width_of<T>, parts = centred ? 2 : 1;
  const Index column = static_cast<Index>(threadIdx.x) * n;
  const bool here = column < a.width;
  const float inverse = 1.0f / static_cast<float>(a.width);
  const Floats<n> gamma = here ? load<n>(a.gamma + column) : Floats<n>{};
  Floats<n> d_gamma{}, d_beta{};
  int parity = 0;  // of the scratch: one barrier for each row is enough
  for (Index row = blockIdx.x; row < a.rows; row += gridDim.x, parity ^= 1) {
    const Index at = row * a.width + column;
    const float mean = centred ? a.mean[row] : 0.0f, rstd = a.rstd[row];
    Floats<n> dy{}, x{}, d_residual{};
    float sums[parts] = {};
    if (here) {
      dy = load<n>(a.dy + at);
      x = load<n>(a.x + at);
      if (a.d_residual != nullptr) d_residual = load<n>(a.d_residual + at);
      add_products<centred>(dy, x, gamma, mean, sums);
    }
    block_sum(sums, dynamic_shared<float>() + parity * parts * (blockDim.x / warp_size));
    if (here) {
      write_gradient<centred>(a, at, dy, x, gamma, d_residual, mean, rstd, sums[parts - 1] * inverse,
                              sums[0] * rstd * inverse, d_gamma.values, d_beta.values);
    }
  }
  if (!here) return;
  float* partial = a.partial + blockIdx.x * parts * a.width + column;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    partial[k] = d_gamma[k];
    if constexpr (centred) partial[a.width + k] = d_beta[k];
  }
}

/// Element by element; the column sums stand in `partial` from the start.
template <class T, bool centred>
__global__ void __launch_bounds__(most_any_threads) norm_backward_any_kernel(NormBackward<T> a) {
  constexpr int parts = centred ? 2 : 1;
  float *d_gamma = a.partial + blockIdx.x * parts * a.width, *d_beta = centred ? d_gamma + a.width : d_gamma;
  for (Index column = threadIdx.x; column < a.width; column += blockDim.x) d_gamma[column] = d_beta[column] = 0;
  const float inverse = 1.0f / static_cast<float>(a.width);
  int parity = 0;
  for (Index row = blockIdx.x; row < a.rows; row += gridDim.x, parity ^= 1) {
    const Index begin = row * a.width;
    const float mean = centred ? a.mean[row] : 0.0f, rstd = a.rstd[row];
    float sums[parts] = {};
    for (Index column = threadIdx.x; column < a.width; column += blockDim.x) {
      add_products<centred>(load<1>(a.dy + begin + column), load<1>(a.x + begin + column), load<1>(a.gamma + column),
                            mean, sums);
    }
    block_sum(sums, dynamic_shared<float>() + parity * parts * (blockDim.x / warp_size));
    const float mean_g = sums[parts - 1] * inverse, mean_gx = sums[0] * rstd * inverse;
    for (Index column = threadIdx.x; column < a.width; column += blockDim.x) {
      const Index at = begin + column;
      const Floats<1> other = a.d_residual != nullptr ? load<1>(a.d_residual + at) : Floats<1>{};
      write_gradient<centred>(a, at, load<1>(a.dy + at), load<1>(a.x + at), load<1>(a.gamma + column), other, mean,
                              rstd, mean_g, mean_gx, d_gamma + column, d_beta + column);
    }
  }
}

/// Of the partial sums and of their sum over the blocks.
template <bool centred>
std::size_t norm_backward_scratch(Index rows, Index width) {
  const Index blocks = norm_backward_blocks(rows), columns = centred ? 2 * width : width;
  return static_cast<std::size_t>(blocks * columns) * sizeof(float) + column_sums_scratch(blocks, columns);
}

/// `wide` as in forward.
template <bool centred, class T>
void launch_norm_backward(cudaStream_t stream, const NormBackward<T>& a, bool wide, bool accumulate, float* d_gamma,
                          float* d_beta) {
  constexpr int parts = centred ? 2 : 1;
  const Index blocks = norm_backward_blocks(a.rows), columns = parts * a.width;
  const RowBlock block(a.width, width_of<T>, wide);
  const auto grid = static_cast<unsigned>(blocks);
  if (block.holds) {
    launch<norm_backward_kernel<T, centred>>(grid, block.threads, block.shared_bytes(2 * parts), stream, a);
  } else {
    launch<norm_backward_any_kernel<T, centred>>(grid, block.threads, block.shared_bytes(2 * parts), stream, a);
  }
  sum_columns(stream, DType::float32, a.partial, blocks, columns, columns, {1, accumulate, d_gamma, d_beta, a.width},
              a.partial + blocks * columns);
}

}  // namespace tw::models::cuda
