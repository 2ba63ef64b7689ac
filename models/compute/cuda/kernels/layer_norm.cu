// Layer norm. Registers hold a row from the first access to the last: those of a warp, several packs a lane, where it
// is short (forward), else those of a block, one pack a thread. What is wider than that, or lies where no wide access
// may go, takes the kernels named any.
#include "models/compute/cuda/kernels/columns.cuh"

namespace tw::models::cuda {
namespace {

template <class T>
struct Forward {
  const T *x, *residual, *gamma, *beta;
  T *sum, *y;
  float *mean, *rstd;
  Index rows, width;
  float epsilon;
};

/// x + residual, rounded to T and stored: what is normalised, and what backward will see.
template <int N, class T>
__device__ inline void add_residual(const Forward<T>& a, Index at, Pack<T, N>& x, const Pack<T, N>& residual) {
  Floats<N> sum = to_floats(x);
  const Floats<N> other = to_floats(residual);
#pragma unroll
  for (int k = 0; k < N; ++k) sum[k] += other[k];
  x = to_pack<T>(sum);
  store_pack(a.sum + at, x);
}

template <int N, class T>
__device__ inline void write_normal(const Forward<T>& a, Index at, const Floats<N>& x, const Floats<N>& gamma,
                                    const Floats<N>& beta, float mean, float rstd) {
  Floats<N> y;
#pragma unroll
  for (int k = 0; k < N; ++k) y[k] = (x[k] - mean) * rstd * gamma[k] + beta[k];
  store(a.y + at, y);
}

template <class T>
__device__ inline void write_statistics(const Forward<T>& a, Index row, float mean, float rstd, bool first_thread) {
  if (!first_thread) return;
  a.mean[row] = mean;
  a.rstd[row] = rstd;
}

constexpr int most_threads = 1024;  // of a block that holds a row, one pack a thread
constexpr int most_any_threads = 256;

constexpr int warp_rows = 4;  // warps of a block, each with rows of its own
constexpr Index most_warp_blocks = 16 * 132;

/// A warp for each row, which takes rows w, w + warps, …; each lane holds up to `most` packs of it, and of gamma and
/// beta. No warp waits for another.
template <class T, int most>
__global__ void __launch_bounds__(warp_rows* warp_size) layer_norm_forward_warp_kernel(Forward<T> a) {
  constexpr int n = width_of<T>, step = warp_size * n;
  const int first = static_cast<int>(threadIdx.x) % warp_size * n, width = static_cast<int>(a.width);
  Pack<T, n> gamma[most], beta[most];
#pragma unroll
  for (int p = 0; p < most; ++p) {
    if (first + p * step >= width) continue;
    gamma[p] = load_pack<n>(a.gamma + first + p * step);
    beta[p] = load_pack<n>(a.beta + first + p * step);
  }
  Index row = static_cast<Index>(blockIdx.x) * warp_rows + threadIdx.x / warp_size;
  for (; row < a.rows; row += static_cast<Index>(gridDim.x) * warp_rows) {
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
    float sum = 0, squares = 0;
#pragma unroll
    for (int p = 0; p < most; ++p) {
      if (first + p * step >= width) continue;
      const Floats<n> x = to_floats(packs[p]);
#pragma unroll
      for (int k = 0; k < n; ++k) sum += x[k];
    }
    const float mean = warp_sum(sum) / static_cast<float>(a.width);
#pragma unroll
    for (int p = 0; p < most; ++p) {
      if (first + p * step >= width) continue;
      const Floats<n> x = to_floats(packs[p]);
#pragma unroll
      for (int k = 0; k < n; ++k) squares += (x[k] - mean) * (x[k] - mean);
    }
    const float rstd = 1.0f / ::sqrtf(warp_sum(squares) / static_cast<float>(a.width) + a.epsilon);
#pragma unroll
    for (int p = 0; p < most; ++p) {
      if (first + p * step >= width) continue;
      write_normal(a, begin + p * step, to_floats(packs[p]), to_floats(gamma[p]), to_floats(beta[p]), mean, rstd);
    }
    write_statistics(a, row, mean, rstd, first == 0);
  }
}

/// One block for each row; each thread holds one pack of it.
template <class T>
__global__ void __launch_bounds__(most_threads) layer_norm_forward_kernel(Forward<T> a) {
  constexpr int n = width_of<T>;
  const Index row = blockIdx.x, column = static_cast<Index>(threadIdx.x) * n, at = row * a.width + column;
  const bool here = column < a.width;
  float* scratch = dynamic_shared<float>();
  Floats<n> x{};
  float sum[1] = {0}, squares[1] = {0};
  Pack<T, n> gamma{}, beta{};
  if (here) {
    Pack<T, n> pack = load_pack<n>(a.x + at);
    gamma = load_pack<n>(a.gamma + column);
    beta = load_pack<n>(a.beta + column);
    if (a.residual != nullptr) add_residual(a, at, pack, load_pack<n>(a.residual + at));
    x = to_floats(pack);
#pragma unroll
    for (int k = 0; k < n; ++k) sum[0] += x[k];
  }
  block_sum(sum, scratch);
  const float mean = sum[0] / static_cast<float>(a.width);
  if (here) {
#pragma unroll
    for (int k = 0; k < n; ++k) squares[0] += (x[k] - mean) * (x[k] - mean);
  }
  block_sum(squares, scratch + blockDim.x / warp_size);
  const float rstd = 1.0f / ::sqrtf(squares[0] / static_cast<float>(a.width) + a.epsilon);
  if (here) write_normal(a, at, x, to_floats(gamma), to_floats(beta), mean, rstd);
  write_statistics(a, row, mean, rstd, threadIdx.x == 0);
}

/// One block for each row, read again for each pass; packs of N.
template <class T, int N>
__global__ void __launch_bounds__(most_any_threads) layer_norm_forward_any_kernel(Forward<T> a) {
  const Index row = blockIdx.x, begin = row * a.width, step = blockDim.x * N;
  float* scratch = dynamic_shared<float>();
  const T* x = a.residual != nullptr ? a.sum : a.x;  // each thread reads again what it wrote itself
  float sum[1] = {0}, squares[1] = {0};
  for (Index column = threadIdx.x * N; column < a.width; column += step) {
    Pack<T, N> pack = load_pack<N>(a.x + begin + column);
    if (a.residual != nullptr) add_residual(a, begin + column, pack, load_pack<N>(a.residual + begin + column));
    const Floats<N> values = to_floats(pack);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[0] += values[k];
  }
  block_sum(sum, scratch);
  const float mean = sum[0] / static_cast<float>(a.width);
  for (Index column = threadIdx.x * N; column < a.width; column += step) {
    const Floats<N> values = load<N>(x + begin + column);
#pragma unroll
    for (int k = 0; k < N; ++k) squares[0] += (values[k] - mean) * (values[k] - mean);
  }
  block_sum(squares, scratch + blockDim.x / warp_size);
  const float rstd = 1.0f / ::sqrtf(squares[0] / static_cast<float>(a.width) + a.epsilon);
  for (Index column = threadIdx.x * N; column < a.width; column += step) {
    write_normal(a, begin + column, load<N>(x + begin + column), load<N>(a.gamma + column), load<N>(a.beta + column),
                 mean, rstd);
  }
  write_statistics(a, row, mean, rstd, threadIdx.x == 0);
}

/// Whether a block holds a row in packs of n, and its threads.
struct RowBlock {
  bool holds;
  int threads;
  RowBlock(Index width, int n, bool aligned)
      : holds(aligned && width % n == 0 && width / n <= most_threads),
        threads(holds ? round_to_warps(width / n) : std::min(round_to_warps(width), most_any_threads)) {}
  /// For `sums` block_sums of one value each.
  std::size_t shared_bytes(int sums) const {
    return static_cast<std::size_t>(sums * threads / warp_size) * sizeof(float);
  }
};

// ---- backward ----
template <class T>
struct Backward {
  const T *dy, *x, *gamma, *d_residual;
  T* dx;
  const float *mean, *rstd;
  float* partial;  // (blocks, 2, width): each block's sums for d_gamma and d_beta
  Index rows, width;
};

/// Blocks take rows b, b + blocks, …; 16 or more each, and as many blocks as fill the GPU.
Index backward_blocks(Index rows) { return std::clamp<Index>(rows / 16, 1, 1024); }

/// dx from the row's two means: of g = dy·gamma, and of g·x̂. At this pack x̂ and dy add to the column sums.
template <int N, class T>
__device__ inline void write_gradient(const Backward<T>& a, Index at, const Floats<N>& dy, const Floats<N>& x,
                                      const Floats<N>& gamma, const Floats<N>& d_residual, float mean, float rstd,
                                      float mean_g, float mean_gx, float* d_gamma, float* d_beta) {
  Floats<N> dx;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float normal = (x[k] - mean) * rstd;
    d_gamma[k] += dy[k] * normal;
    d_beta[k] += dy[k];
    dx[k] = (dy[k] * gamma[k] - mean_g - normal * mean_gx) * rstd + d_residual[k];
  }
  store(a.dx + at, dx);
}

template <int N, class T>
__device__ inline void add_products(const Floats<N>& dy, const Floats<N>& x, const Floats<N>& gamma, float mean,
                                    T (&sums)[2]) {
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float g = dy[k] * gamma[k];
    sums[0] += g;
    sums[1] += g * (x[k] - mean);
  }
}

/// A block for each row; each thread holds one pack of it, and the sums of its columns over the rows.
template <class T>
__global__ void __launch_bounds__(most_threads) layer_norm_backward_kernel(Backward<T> a) {
  constexpr int n = width_of<T>;
  const Index column = static_cast<Index>(threadIdx.x) * n;
  const bool here = column < a.width;
  const float inverse = 1.0f / static_cast<float>(a.width);
  const Floats<n> gamma = here ? load<n>(a.gamma + column) : Floats<n>{};
  Floats<n> d_gamma{}, d_beta{};
  int parity = 0;  // of the scratch: one barrier for each row is enough
  for (Index row = blockIdx.x; row < a.rows; row += gridDim.x, parity ^= 1) {
    const Index at = row * a.width + column;
    const float mean = a.mean[row], rstd = a.rstd[row];
    Floats<n> dy{}, x{}, d_residual{};
    float sums[2] = {0, 0};
    if (here) {
      dy = load<n>(a.dy + at);
      x = load<n>(a.x + at);
      if (a.d_residual != nullptr) d_residual = load<n>(a.d_residual + at);
      add_products(dy, x, gamma, mean, sums);
    }
    block_sum(sums, dynamic_shared<float>() + parity * 2 * (blockDim.x / warp_size));
    if (here) {
      write_gradient(a, at, dy, x, gamma, d_residual, mean, rstd, sums[0] * inverse, sums[1] * rstd * inverse,
                     d_gamma.values, d_beta.values);
    }
  }
  if (!here) return;
  float* partial = a.partial + blockIdx.x * 2 * a.width + column;
#pragma unroll
  for (int k = 0; k < n; ++k) {
    partial[k] = d_gamma[k];
    partial[a.width + k] = d_beta[k];
  }
}

/// Element by element; the column sums stand in `partial` from the start.
template <class T>
__global__ void __launch_bounds__(most_any_threads) layer_norm_backward_any_kernel(Backward<T> a) {
  float *d_gamma = a.partial + blockIdx.x * 2 * a.width, *d_beta = d_gamma + a.width;
  for (Index column = threadIdx.x; column < a.width; column += blockDim.x) d_gamma[column] = d_beta[column] = 0;
  const float inverse = 1.0f / static_cast<float>(a.width);
  int parity = 0;
  for (Index row = blockIdx.x; row < a.rows; row += gridDim.x, parity ^= 1) {
    const Index begin = row * a.width;
    const float mean = a.mean[row], rstd = a.rstd[row];
    float sums[2] = {0, 0};
    for (Index column = threadIdx.x; column < a.width; column += blockDim.x) {
      add_products(load<1>(a.dy + begin + column), load<1>(a.x + begin + column), load<1>(a.gamma + column), mean,
                   sums);
    }
    block_sum(sums, dynamic_shared<float>() + parity * 2 * (blockDim.x / warp_size));
    const float mean_g = sums[0] * inverse, mean_gx = sums[1] * rstd * inverse;
    for (Index column = threadIdx.x; column < a.width; column += blockDim.x) {
      const Index at = begin + column;
      const Floats<1> other = a.d_residual != nullptr ? load<1>(a.d_residual + at) : Floats<1>{};
      write_gradient(a, at, load<1>(a.dy + at), load<1>(a.x + at), load<1>(a.gamma + column), other, mean, rstd, mean_g,
                     mean_gx, d_gamma + column, d_beta + column);
    }
  }
}

}  // namespace

void layer_norm_forward(cudaStream_t stream, const LayerNormForward& args) {
  with_type(args.x.dtype, [&]<class T>(T*) {
    constexpr int n = width_of<T>;
    const Forward<T> a{args.x.as<T>(),   args.residual.as<T>(), args.gamma.as<T>(),    args.beta.as<T>(),
                       args.sum.as<T>(), args.y.as<T>(),        args.mean.as<float>(), args.rstd.as<float>(),
                       args.x.dims[0],   args.x.dims[1],        args.epsilon};
    const bool wide = aligned<n>({args.x, args.residual, args.sum, args.gamma, args.beta, args.y});
    const RowBlock block(a.width, n, wide);
    const auto rows = static_cast<unsigned>(a.rows);
    const Index lane_packs = ceil_div(a.width, warp_size * n);
    const auto warp_blocks = static_cast<unsigned>(std::min(ceil_div(a.rows, warp_rows), most_warp_blocks));
    if (block.holds && lane_packs <= 4) {
      launch<layer_norm_forward_warp_kernel<T, 4>>(warp_blocks, warp_rows * warp_size, 0, stream, a);
    } else if (block.holds && lane_packs <= 8) {
      launch<layer_norm_forward_warp_kernel<T, 8>>(warp_blocks, warp_rows * warp_size, 0, stream, a);
    } else if (block.holds) {
      launch<layer_norm_forward_kernel<T>>(rows, block.threads, block.shared_bytes(2), stream, a);
    } else if (wide && a.width % n == 0) {
      launch<layer_norm_forward_any_kernel<T, n>>(rows, block.threads, block.shared_bytes(2), stream, a);
    } else {
      launch<layer_norm_forward_any_kernel<T, 1>>(rows, block.threads, block.shared_bytes(2), stream, a);
    }
  });
}

std::size_t scratch_bytes(const LayerNormBackward& args) {
  const Index blocks = backward_blocks(args.x.dims[0]), columns = 2 * args.x.dims[1];
  return static_cast<std::size_t>(blocks * columns) * sizeof(float) + column_sums_scratch(blocks, columns);
}

void layer_norm_backward(cudaStream_t stream, const LayerNormBackward& args, void* scratch) {
  const Index rows = args.x.dims[0], width = args.x.dims[1], blocks = backward_blocks(rows);
  float* partial = static_cast<float*>(scratch);
  with_type(args.x.dtype, [&]<class T>(T*) {
    constexpr int n = width_of<T>;
    const Backward<T> a{args.dy.as<T>(),
                        args.x.as<T>(),
                        args.gamma.as<T>(),
                        args.d_residual.as<T>(),
                        args.dx.as<T>(),
                        args.mean.as<float>(),
                        args.rstd.as<float>(),
                        partial,
                        rows,
                        width};
    const RowBlock block(width, n, aligned<n>({args.dy, args.x, args.gamma, args.d_residual, args.dx}));
    if (block.holds) {
      launch<layer_norm_backward_kernel<T>>(static_cast<unsigned>(blocks), block.threads, block.shared_bytes(4), stream,
                                            a);
    } else {
      launch<layer_norm_backward_any_kernel<T>>(static_cast<unsigned>(blocks), block.threads, block.shared_bytes(4),
                                                stream, a);
    }
  });
  sum_columns(stream, DType::float32, partial, blocks, 2 * width, 2 * width,
              {1, args.accumulate, args.d_gamma.as<float>(), args.d_beta.as<float>(), width},
              partial + blocks * 2 * width);
}

}  // namespace tw::models::cuda
