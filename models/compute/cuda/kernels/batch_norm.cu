// Batch norm over NHWC rows: sums for each channel over slices of rows, those of all slices in float64, then one pass
// over the elements. A thread keeps its channels over all its rows.
#include "models/compute/cuda/kernels/columns.cuh"

namespace tw::cuda {
namespace {

constexpr int block_threads = 256;

Columns sums_cut(Index rows, Index channels, int n) {
  return cut_columns(rows, channels, channels, n, block_threads, 8, 1024);
}
/// For the pass over the elements, which has nothing to bring together.
Columns elements_cut(Index rows, Index channels, int n) {
  return cut_columns(rows, channels, channels, n, block_threads, 4, 8192);
}

/// Sums of each slice, (slices, channels) for each kind of sum, and behind them what else is kept for a channel.
struct Partial {
  float* sums;
  Index stride;  // slices · channels
  __device__ float* of(int kind) const { return sums + kind * stride; }
};
/// Scratch for `kinds` of sums over the most slices that any dtype and alignment leads to, and as many floats a
/// channel.
std::size_t scratch_bytes(const Tensor& x, int kinds, int floats) {
  const Index channels = x.dims[3], rows = x.count() / channels;
  Index most = 1;
  for (const int n : {1, width_of<float>, width_of<bf16>}) most = std::max(most, sums_cut(rows, channels, n).slices);
  return static_cast<std::size_t>((kinds * most + floats) * channels) * sizeof(float);
}

/// Sums down the block of `kinds` kinds, each a pack.
template <int N, int kinds>
__device__ inline void write_sums(const Columns& c, const ColumnThread<N>& me, const float (&packs)[kinds * N],
                                  const Partial& partial) {
  const Index tile_begin = me.column - me.x * N, begin = me.slice * c.columns;
  sum_down(c, me.x, me.y, packs, dynamic_shared<float>(), [&](int at, float sum) {
    const Index channel = tile_begin + at / (kinds * N) * N + at % N;
    if (channel < c.columns) partial.of(at % (kinds * N) / N)[begin + channel] = sum;
  });
}

/// Forward: the slice's first row, Σ(x − that), Σ(x − that)² and Σx. Around a value of the channel nothing cancels in
/// its variance where its mean is large against its spread; Σx has the better mean where that is small.
constexpr int shift_kind = 3, forward_kinds = 4, forward_sums = 3, backward_kinds = 2;

template <class T, int N>
__global__ void __launch_bounds__(block_threads) batch_norm_sums_kernel(const T* x, Columns c, Partial partial) {
  const ColumnThread<N> me(c);
  float sums[forward_sums * N] = {};
  if (me.width > 0) {
    const Floats<N> shift = load<N>(x + me.slice * c.rows_per_slice * c.ld + me.column);
    if (me.y == 0) {
#pragma unroll
      for (int k = 0; k < N; ++k) partial.of(shift_kind)[me.slice * c.columns + me.column + k] = shift[k];
    }
#pragma unroll 4
    for (Index row = me.row; row < me.end; row += me.step) {
      const Floats<N> values = load<N>(x + row * c.ld + me.column);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float d = values[k] - shift[k];
        sums[k] += d;
        sums[N + k] += d * d;
        sums[2 * N + k] += values[k];
      }
    }
  }
  write_sums<N, forward_sums>(c, me, sums, partial);
}

// ---- over slices: a block has 32 channels side by side and 32 shares of the slices below each other ----
constexpr int total_threads = 1024, shares = total_threads / warp_size;
constexpr std::size_t total_shared_bytes = total_threads * sizeof(double);

__device__ inline Index total_channel() { return static_cast<Index>(blockIdx.x) * warp_size + threadIdx.x % warp_size; }

/// Σ over slices of value(slice); each share of the channel gets it. All threads call it.
template <class Value>
__device__ inline double over_slices(const Columns& c, Value&& value) {
  double* shared = dynamic_shared<double>();
  const int x = static_cast<int>(threadIdx.x) % warp_size, share = static_cast<int>(threadIdx.x) / warp_size;
  double sum = 0;
  if (total_channel() < c.columns) {
    for (Index slice = share; slice < c.slices; slice += shares) sum += value(slice);
  }
  __syncthreads();  // the last call's sums have been read
  shared[share * warp_size + x] = sum;
  __syncthreads();
  sum = shared[x];
  for (int other = 1; other < shares; ++other) sum += shared[other * warp_size + x];
  return sum;
}

struct ForwardTotals {
  const float* gamma;
  float *mean, *rstd, *running_mean, *running_var;
  float momentum, epsilon;
  float* factor;  // rstd · gamma
};

__global__ void __launch_bounds__(total_threads)
    batch_norm_forward_totals_kernel(Columns c, Partial partial, ForwardTotals a) {
  const Index channel = total_channel();
  const auto rows_of = [&](Index slice) {
    return static_cast<double>(slice + 1 < c.slices ? c.rows_per_slice : c.rows - slice * c.rows_per_slice);
  };
  const auto value = [&](int kind, Index slice) {
    return static_cast<double>(partial.of(kind)[slice * c.columns + channel]);
  };
  const auto mean_of = [&](Index slice) {
    const double mean = value(2, slice) / rows_of(slice), distance = value(0, slice) / rows_of(slice);
    return ::fabs(mean) < ::fabs(distance) ? mean : value(shift_kind, slice) + distance;
  };
  const double count = static_cast<double>(c.rows);
  const double mean = over_slices(c, [&](Index slice) { return rows_of(slice) * mean_of(slice); }) / count;
  const double squares =
      over_slices(c, [&](Index slice) {  // around the slice's mean, and of that around the mean of all
        const double sum = value(0, slice), distance = mean_of(slice) - mean;
        return value(1, slice) - sum * sum / rows_of(slice) + rows_of(slice) * distance * distance;
      });
  if (channel >= c.columns || threadIdx.x >= warp_size) return;
  const double variance = squares < 0 ? 0 : squares / count;  // a NaN stays
  const double rstd = 1.0 / ::sqrt(variance + static_cast<double>(a.epsilon));
  a.mean[channel] = static_cast<float>(mean);
  a.rstd[channel] = static_cast<float>(rstd);
  a.factor[channel] = static_cast<float>(rstd * static_cast<double>(a.gamma[channel]));
  if (a.running_mean == nullptr) return;
  const double momentum = static_cast<double>(a.momentum), unbiased = variance * count / (count - 1);
  const double running_mean = static_cast<double>(a.running_mean[channel]);
  const double running_var = static_cast<double>(a.running_var[channel]);
  a.running_mean[channel] = static_cast<float>(running_mean + momentum * (mean - running_mean));
  a.running_var[channel] = static_cast<float>(running_var + momentum * (unbiased - running_var));
}

template <class T>
struct Forward {
  const T *x, *residual;
  T* y;
  const float *mean, *factor, *beta;
  bool relu;
};

template <class T, int N>
__global__ void __launch_bounds__(block_threads) batch_norm_forward_kernel(Columns c, Forward<T> a) {
  const ColumnThread<N> me(c);
  if (me.width <= 0) return;
  Floats<N> mean, factor, beta;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    mean[k] = a.mean[me.column + k];
    factor[k] = a.factor[me.column + k];
    beta[k] = a.beta[me.column + k];
  }
  for (Index row = me.row; row < me.end; row += me.step) {
    const Index at = row * c.ld + me.column;
    Floats<N> x = load<N>(a.x + at);
    const Floats<N> residual = a.residual != nullptr ? load<N>(a.residual + at) : Floats<N>{};
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float value = (x[k] - mean[k]) * factor[k] + beta[k] + residual[k];
      x[k] = a.relu && value < 0.0f ? 0.0f : value;  // a NaN stays
    }
    store(a.y + at, x);
  }
}

// ---- backward ----
template <class T>
struct Backward {
  const T *dy, *x, *y;  // y only where its sign masks dy
  T *dx, *d_residual;
  const float *mean, *scale, *slope, *offset;
};

/// dy under the ReLU's mask.
template <int N, class T>
__device__ inline Floats<N> masked(const T* dy, const T* y, Index at) {
  Floats<N> g = load<N>(dy + at);
  if (y == nullptr) return g;
  const Floats<N> value = load<N>(y + at);
#pragma unroll
  for (int k = 0; k < N; ++k) g[k] = value[k] > 0.0f ? g[k] : 0.0f;
  return g;
}

/// Σ g and Σ g·(x − mean); g is kept where another branch wants it.
template <class T, int N>
__global__ void __launch_bounds__(block_threads)
    batch_norm_gradient_sums_kernel(Columns c, Backward<T> a, Partial partial) {
  const ColumnThread<N> me(c);
  float sums[backward_kinds * N] = {};
  if (me.width > 0) {
    Floats<N> mean;
#pragma unroll
    for (int k = 0; k < N; ++k) mean[k] = a.mean[me.column + k];
#pragma unroll 2
    for (Index row = me.row; row < me.end; row += me.step) {
      const Index at = row * c.ld + me.column;
      const Floats<N> x = load<N>(a.x + at), g = masked<N>(a.dy, a.y, at);
      if (a.d_residual != nullptr) store(a.d_residual + at, g);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        sums[k] += g[k];
        sums[N + k] += g[k] * (x[k] - mean[k]);
      }
    }
  }
  write_sums<N, backward_kinds>(c, me, sums, partial);
}

struct BackwardTotals {
  const float *gamma, *rstd;
  float *d_gamma, *d_beta;
  bool accumulate;
  float *scale, *slope, *offset;
};

/// dx = γ·rstd·(g − Σg/n − x̂·Σ(g·x̂)/n) = scale·g + slope·(x − mean) + offset; centred, because folding the mean into
/// the offset would cancel where a channel's mean is large against its spread.
__global__ void __launch_bounds__(total_threads)
    batch_norm_backward_totals_kernel(Columns c, Partial partial, BackwardTotals a) {
  const Index channel = total_channel();
  const double sum =
      over_slices(c, [&](Index slice) { return static_cast<double>(partial.of(0)[slice * c.columns + channel]); });
  const double products =
      over_slices(c, [&](Index slice) { return static_cast<double>(partial.of(1)[slice * c.columns + channel]); });
  if (channel >= c.columns || threadIdx.x >= warp_size) return;
  const double rstd = static_cast<double>(a.rstd[channel]), scale = static_cast<double>(a.gamma[channel]) * rstd;
  const double dot = products * rstd, count = static_cast<double>(c.rows);
  a.d_beta[channel] = static_cast<float>(a.accumulate ? static_cast<double>(a.d_beta[channel]) + sum : sum);
  a.d_gamma[channel] = static_cast<float>(a.accumulate ? static_cast<double>(a.d_gamma[channel]) + dot : dot);
  a.scale[channel] = static_cast<float>(scale);
  a.slope[channel] = static_cast<float>(-scale * rstd * dot / count);
  a.offset[channel] = static_cast<float>(-scale * sum / count);
}

template <class T, int N>
__global__ void __launch_bounds__(block_threads) batch_norm_backward_kernel(Columns c, Backward<T> a) {
  const ColumnThread<N> me(c);
  if (me.width <= 0) return;
  Floats<N> mean, scale, slope, offset;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    mean[k] = a.mean[me.column + k];
    scale[k] = a.scale[me.column + k];
    slope[k] = a.slope[me.column + k];
    offset[k] = a.offset[me.column + k];
  }
  for (Index row = me.row; row < me.end; row += me.step) {
    const Index at = row * c.ld + me.column;
    const Floats<N> x = load<N>(a.x + at);
    Floats<N> g = masked<N>(a.dy, a.y, at);
#pragma unroll
    for (int k = 0; k < N; ++k) g[k] = scale[k] * g[k] + slope[k] * (x[k] - mean[k]) + offset[k];
    store(a.dx + at, g);
  }
}

unsigned total_blocks(const Columns& c) { return static_cast<unsigned>(ceil_div(c.columns, warp_size)); }

template <class T, int N>
void forward(cudaStream_t stream, const BatchNormForward& args, void* scratch) {
  const Index channels = args.x.dims[3], rows = args.x.count() / channels;
  const Columns sums = sums_cut(rows, channels, N), elements = elements_cut(rows, channels, N);
  const Partial partial{static_cast<float*>(scratch), sums.slices * channels};
  float* factor = partial.sums + forward_kinds * partial.stride;
  launch<batch_norm_sums_kernel<T, N>>(sums.blocks(), sums.threads(), sums.threads() * forward_sums * N * sizeof(float),
                                       stream, args.x.as<T>(), sums, partial);
  const ForwardTotals totals{
      args.gamma.as<float>(),       args.mean.as<float>(), args.rstd.as<float>(), args.running_mean.as<float>(),
      args.running_var.as<float>(), args.momentum,         args.epsilon,          factor};
  launch<batch_norm_forward_totals_kernel>(total_blocks(sums), total_threads, total_shared_bytes, stream, sums, partial,
                                           totals);
  const Forward<T> a{args.x.as<T>(), args.residual.as<T>(), args.y.as<T>(), args.mean.as<float>(),
                     factor,         args.beta.as<float>(), args.relu};
  launch<batch_norm_forward_kernel<T, N>>(elements.blocks(), elements.threads(), 0, stream, elements, a);
}

template <class T, int N>
void backward(cudaStream_t stream, const BatchNormBackward& args, void* scratch) {
  const Index channels = args.x.dims[3], rows = args.x.count() / channels;
  const Columns sums = sums_cut(rows, channels, N), elements = elements_cut(rows, channels, N);
  const Partial partial{static_cast<float*>(scratch), sums.slices * channels};
  float *scale = partial.sums + backward_kinds * partial.stride, *slope = scale + channels, *offset = slope + channels;
  Backward<T> a{args.dy.as<T>(),
                args.x.as<T>(),
                args.relu ? args.y.as<T>() : nullptr,
                args.dx.as<T>(),
                args.d_residual.as<T>(),
                args.mean.as<float>(),
                scale,
                slope,
                offset};
  launch<batch_norm_gradient_sums_kernel<T, N>>(
      sums.blocks(), sums.threads(), sums.threads() * backward_kinds * N * sizeof(float), stream, sums, a, partial);
  const BackwardTotals totals{args.gamma.as<float>(),
                              args.rstd.as<float>(),
                              args.d_gamma.as<float>(),
                              args.d_beta.as<float>(),
                              args.accumulate,
                              scale,
                              slope,
                              offset};
  launch<batch_norm_backward_totals_kernel>(total_blocks(sums), total_threads, total_shared_bytes, stream, sums,
                                            partial, totals);
  if (a.d_residual != nullptr) {  // the gradient through the ReLU lies there already
    a.dy = a.d_residual;
    a.y = nullptr;
  }
  launch<batch_norm_backward_kernel<T, N>>(elements.blocks(), elements.threads(), 0, stream, elements, a);
}

}  // namespace

std::size_t batch_norm_forward_scratch(const BatchNormForward& args) { return scratch_bytes(args.x, forward_kinds, 1); }
std::size_t batch_norm_backward_scratch(const BatchNormBackward& args) {
  return scratch_bytes(args.x, backward_kinds, 3);
}

void batch_norm_forward(cudaStream_t stream, const BatchNormForward& args, void* scratch) {
  with_type(args.x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    constexpr int n = width_of<T>;
    if (args.x.dims[3] % n == 0 && aligned<n>({args.x, args.residual, args.y})) {
      forward<T, n>(stream, args, scratch);
    } else {
      forward<T, 1>(stream, args, scratch);
    }
  });
}

void batch_norm_backward(cudaStream_t stream, const BatchNormBackward& args, void* scratch) {
  with_type(args.x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    constexpr int n = width_of<T>;
    if (args.x.dims[3] % n == 0 &&
        aligned<n>({args.dy, args.x, args.relu ? args.y : Tensor{}, args.dx, args.d_residual})) {
      backward<T, n>(stream, args, scratch);
    } else {
      backward<T, 1>(stream, args, scratch);
    }
  });
}

}  // namespace tw::cuda
