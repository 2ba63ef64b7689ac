// Batch norm over NHWC rows: sums for each channel over slices of rows, those of all slices in float64, then one pass
// over the elements. A thread keeps its channels over all its rows.
#include "models/compute/cuda/kernels/columns.cuh"

namespace tw::models::cuda {
namespace {

constexpr int block_threads =
    occupancy::common_threads({occupancy::batch_norm_sums_kernel, occupancy::batch_norm_forward_kernel,
                               occupancy::batch_norm_gradient_sums_kernel, occupancy::batch_norm_backward_kernel});

/// Blocks of either kernel that the SMs hold at once.
constexpr Index at_once(const occupancy::Block& a, const occupancy::Block& b) {
  return static_cast<Index>(std::min(a.blocks, b.blocks)) * occupancy::sms;
}
/// For the sums: no more blocks than run at the same time.
Columns sums_cut(Index rows, Index channels, int n) {
  constexpr Index most = at_once(occupancy::batch_norm_sums_kernel, occupancy::batch_norm_gradient_sums_kernel);
  return cut_columns(rows, channels, channels, n, block_threads, 8, most);
}
/// For the pass over the elements, which has nothing to bring together: four times as many. The forward kernel does not
/// demand its blocks: it fits five times, and with a bound of four nvcc uses more registers.
Columns elements_cut(Index rows, Index channels, int n) {
  constexpr Index most = 4 * at_once(occupancy::batch_norm_forward_kernel, occupancy::batch_norm_backward_kernel);
  return cut_columns(rows, channels, channels, n, block_threads, 16, most);
}

/// Sums of each slice, (slices, channels) for each kind of sum, and behind them what else is kept for a channel.
struct Partial {
  float* sums;
  Index stride;  // slices · channels
  __device__ float* of(int kind) const { return sums + kind * stride; }
};
/// Scratch for `kinds` of sums over the most slices that any dtype and alignment leads to, and as many floats a
/// channel.
std::size_t sums_bytes(const Tensor& x, int kinds, int floats) {
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
__global__ void __launch_bounds__(block_threads, occupancy::batch_norm_sums_kernel.blocks)
    batch_norm_sums_kernel(const T* x, Columns c, Partial partial) {
  const ColumnThread<N> me(c);
  float sums[forward_sums * N] = {};
  if (me.width > 0) {
    const Floats<N> shift = load<N>(x + me.slice * c.rows_per_slice * c.ld + me.column);
    if (me.y == 0) {
#pragma unroll
      for (int k = 0; k < N; ++k) partial.of(shift_kind)[me.slice * c.columns + me.column + k] = shift[k];
    }
    const ElementsOfRows elements(c, me);
#pragma unroll 4
    for (Index at = elements.begin; at < elements.end; at += elements.stride) {
      const Floats<N> values = load<N>(x + at);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float d = values[k] - shift[k];
        sums[k] += d;
        sums[N + k] += d * d;
        sums[2 * N + k] += values[k];
      }
    }
  }
  write_sums<N, forward_sums>(c, ColumnThread<N>::again(c), sums, partial);
}

// ---- over slices: a block has 32 channels side by side and 32 shares of the slices below each other ----
constexpr int total_threads = occupancy::common_threads(
    {occupancy::batch_norm_forward_totals_kernel, occupancy::batch_norm_backward_totals_kernel});
constexpr int shares = total_threads / warp_size;
constexpr std::size_t total_shared_bytes = 2 * total_threads * sizeof(double);

__device__ inline Index total_channel() { return static_cast<Index>(blockIdx.x) * warp_size + threadIdx.x % warp_size; }

/// Two sums over the slices, to which add(slice, sums) adds one. All threads call it; true where the thread, one for
/// each channel, has them.
template <int at_once, class Add>
__device__ inline bool over_slices(const Columns& c, double (&sums)[2], Add&& add) {
  double* shared = dynamic_shared<double>();
  const int x = static_cast<int>(threadIdx.x) % warp_size, share = static_cast<int>(threadIdx.x) / warp_size;
  sums[0] = sums[1] = 0;
  const bool here = total_channel() < c.columns;
  if (here) {
#pragma unroll at_once
    for (Index slice = share; slice < c.slices; slice += shares) add(slice, sums);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) shared[(i * shares + share) * warp_size + x] = sums[i];
  __syncthreads();
  if (share > 0 || !here) return false;
#pragma unroll 8
  for (int other = 1; other < shares; ++other) {
#pragma unroll
    for (int i = 0; i < 2; ++i) sums[i] += shared[(i * shares + other) * warp_size + x];
  }
  return true;
}

struct ForwardTotals {
  double rows, last_rows, inverse_rows, inverse_last_rows;  // of a slice: of all but the last, of the last
  const float* gamma;
  float *mean, *rstd, *running_mean, *running_var;
  float momentum, epsilon;
  float* factor;  // rstd · gamma in float32, as backward has it
};

__global__ void __launch_bounds__(total_threads)
    batch_norm_forward_totals_kernel(Columns c, Partial partial, ForwardTotals a) {
  const Index channel = total_channel();
  const auto value = [&](int kind, Index slice) {
    return static_cast<double>(partial.of(kind)[slice * c.columns + channel]);
  };
  // All means are measured from a value of the channel, so that their squares cancel no more than a slice's do.
  const double count = static_cast<double>(c.rows), pivot = channel < c.columns ? value(shift_kind, 0) : 0;
  double sums[2];  // Σ n·(mean − pivot), Σ (squares around the mean + n·(mean − pivot)²)
  const bool total = over_slices<3>(c, sums, [&](Index slice, double(&to)[2]) {
    const bool last = slice + 1 == c.slices;
    const double rows = last ? a.last_rows : a.rows, inverse = last ? a.inverse_last_rows : a.inverse_rows;
    const double sum = value(0, slice), mean = value(2, slice) * inverse, distance = sum * inverse;
    const double better = ::fabs(mean) < ::fabs(distance) ? mean : value(shift_kind, slice) + distance;
    const double from_pivot = better - pivot;
    to[0] += rows * from_pivot;
    to[1] += value(1, slice) - sum * distance + rows * from_pivot * from_pivot;
  });
  if (!total) return;
  const double from_pivot = sums[0] / count, mean = pivot + from_pivot, squares = sums[1] - sums[0] * from_pivot;
  const double variance = squares < 0 ? 0 : squares / count;  // a NaN stays
  const double rstd = 1.0 / ::sqrt(variance + static_cast<double>(a.epsilon));
  a.mean[channel] = static_cast<float>(mean);
  a.rstd[channel] = static_cast<float>(rstd);
  a.factor[channel] = a.rstd[channel] * a.gamma[channel];
  if (a.running_mean == nullptr) return;
  const double momentum = static_cast<double>(a.momentum), unbiased = variance * count / (count - 1);
  const double running_mean = static_cast<double>(a.running_mean[channel]);
  const double running_var = static_cast<double>(a.running_var[channel]);
  a.running_mean[channel] = static_cast<float>(running_mean + momentum * (mean - running_mean));
  a.running_var[channel] = static_cast<float>(running_var + momentum * (unbiased - running_var));
}

/// What forward writes without residual and ReLU; the mask of backward is that of these bits.
__device__ inline float normalised(float x, float mean, float factor, float beta) {
  return ::fmaf(x - mean, factor, beta);
}

template <class T>
struct Forward {
  const T *x, *residual;
  T* y;
  const float *mean, *factor, *beta;
  bool relu;
};

template <class T, int N>
__global__ void __launch_bounds__(block_threads, occupancy::batch_norm_forward_kernel.blocks)
    batch_norm_forward_kernel(Columns c, Forward<T> a) {
  const ColumnThread<N> me(c);
  if (me.width <= 0) return;
  const Floats<N> mean = load<N>(a.mean + me.column), factor = load<N>(a.factor + me.column),
                  beta = load<N>(a.beta + me.column);
  with_flag(a.residual != nullptr, [&](auto adds) {
    with_flag(a.relu, [&](auto cuts) {
      over_rows(c, me, [&](Index at) {
        Pack<T, N> packs[2] = {load_pack<N>(a.x + at), {}};
        if constexpr (adds) packs[1] = load_pack<N>(a.residual + at);
        Floats<N> x = to_floats(packs[0]);
        const Floats<N> residual = to_floats(packs[1]);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          float value = normalised(x[k], mean[k], factor[k], beta[k]);
          if constexpr (adds) value += residual[k];
          if constexpr (cuts) value = value < 0.0f ? 0.0f : value;  // a NaN stays
          x[k] = value;
        }
        store(a.y + at, x);
      });
    });
  });
}

// ---- backward ----
template <class T>
struct Backward {
  const T *dy, *dy_more, *x, *y;  // y only where its sign masks dy
  T *dx, *d_residual;
  const float *mean, *rstd, *gamma;
  const float* beta;  // only where the mask is computed again
  const float *scale, *slope, *offset;
};

enum class Mask { none, stored, computed };

/// body(std::integral_constant<Mask, …>)
template <class T, class Body>
__device__ inline void with_mask(const Backward<T>& a, Body&& body) {
  if (a.y != nullptr) {
    body(std::integral_constant<Mask, Mask::stored>{});
  } else if (a.beta != nullptr) {
    body(std::integral_constant<Mask, Mask::computed>{});
  } else {
    body(std::integral_constant<Mask, Mask::none>{});
  }
}

/// x and the gradient, under the ReLU's mask; all loads stand before the first use. `factor` and `beta` of the channels
/// for Mask::computed.
template <int N, Mask mask, bool adds, class T>
__device__ inline void load_gradient(const Backward<T>& a, Index at, const Floats<N>& mean, const Floats<N>& factor,
                                     const Floats<N>& beta, Floats<N>& x, Floats<N>& g) {
  const Pack<T, N> dy_pack = load_pack<N>(a.dy + at), x_pack = load_pack<N>(a.x + at);
  Pack<T, N> y_pack, more_pack;
  if constexpr (mask == Mask::stored) y_pack = load_pack<N>(a.y + at);
  if constexpr (adds) more_pack = load_pack<N>(a.dy_more + at);
  x = to_floats(x_pack);
  g = to_floats(dy_pack);
  if constexpr (adds) {
    const Floats<N> more = to_floats(more_pack);
#pragma unroll
    for (int k = 0; k < N; ++k) g[k] += more[k];
    g = to_floats(to_pack<T>(g));
  }
  if constexpr (mask != Mask::none) {
    Floats<N> y;
    if constexpr (mask == Mask::stored) {
      y = to_floats(y_pack);
    } else {
#pragma unroll
      for (int k = 0; k < N; ++k) y[k] = normalised(x[k], mean[k], factor[k], beta[k]);
      y = to_floats(to_pack<T>(y));
    }
#pragma unroll
    for (int k = 0; k < N; ++k) g[k] = y[k] > 0.0f ? g[k] : 0.0f;
  }
}

/// Σ g and Σ g·(x − mean); g is kept where another branch wants it, which alone may bring a second gradient.
template <class T, int N>
__global__ void __launch_bounds__(block_threads, occupancy::batch_norm_gradient_sums_kernel.blocks)
    batch_norm_gradient_sums_kernel(Columns c, Backward<T> a, Partial partial) {
  const ColumnThread<N> me(c);
  float sums[backward_kinds * N] = {};
  if (me.width > 0) {
    const Floats<N> mean = load<N>(a.mean + me.column);
    with_mask(a, [&](auto chosen) {
      constexpr Mask mask = decltype(chosen)::value;
      Floats<N> factor{}, beta{};
      if constexpr (mask == Mask::computed) {
        const Floats<N> rstd = load<N>(a.rstd + me.column), gamma = load<N>(a.gamma + me.column);
        beta = load<N>(a.beta + me.column);
#pragma unroll
        for (int k = 0; k < N; ++k) factor[k] = rstd[k] * gamma[k];
      }
      const auto add_rows = [&](auto keeps, auto adds) {
        const ElementsOfRows elements(c, me);
        // A row has up to four loads, and packs of 16 bits leave no registers for those of a second.
        [[maybe_unused]] constexpr int at_once = N == width_of<float> ? 2 : 1;
#pragma unroll at_once
        for (Index at = elements.begin; at < elements.end; at += elements.stride) {
          Floats<N> x, g;
          load_gradient<N, mask, decltype(adds)::value>(a, at, mean, factor, beta, x, g);
          if constexpr (decltype(keeps)::value) store(a.d_residual + at, g);
#pragma unroll
          for (int k = 0; k < N; ++k) {
            sums[k] += g[k];
            sums[N + k] += g[k] * (x[k] - mean[k]);
          }
        }
      };
      if constexpr (mask == Mask::computed) {
        add_rows(std::false_type{}, std::false_type{});
      } else if (a.d_residual == nullptr) {
        add_rows(std::false_type{}, std::false_type{});
      } else {
        with_flag(a.dy_more != nullptr, [&](auto adds) { add_rows(std::true_type{}, adds); });
      }
    });
  }
  write_sums<N, backward_kinds>(c, ColumnThread<N>::again(c), sums, partial);
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
  double sums[2];
  const bool total = over_slices<4>(c, sums, [&](Index slice, double(&to)[2]) {
#pragma unroll
    for (int kind = 0; kind < backward_kinds; ++kind)
      to[kind] += static_cast<double>(partial.of(kind)[slice * c.columns + channel]);
  });
  if (!total) return;
  const double sum = sums[0], products = sums[1];
  const double rstd = static_cast<double>(a.rstd[channel]), scale = static_cast<double>(a.gamma[channel]) * rstd;
  const double dot = products * rstd, count = static_cast<double>(c.rows);
  a.d_beta[channel] = static_cast<float>(a.accumulate ? static_cast<double>(a.d_beta[channel]) + sum : sum);
  a.d_gamma[channel] = static_cast<float>(a.accumulate ? static_cast<double>(a.d_gamma[channel]) + dot : dot);
  a.scale[channel] = static_cast<float>(scale);  // forward's factor: a product of two floats is exact in float64
  a.slope[channel] = static_cast<float>(-scale * rstd * dot / count);
  a.offset[channel] = static_cast<float>(-scale * sum / count);
}

template <class T, int N>
__global__ void __launch_bounds__(block_threads, occupancy::batch_norm_backward_kernel.blocks)
    batch_norm_backward_kernel(Columns c, Backward<T> a) {
  const ColumnThread<N> me(c);
  if (me.width <= 0) return;
  const Floats<N> mean = load<N>(a.mean + me.column), scale = load<N>(a.scale + me.column),
                  slope = load<N>(a.slope + me.column), offset = load<N>(a.offset + me.column);
  with_mask(a, [&](auto chosen) {
    constexpr Mask mask = decltype(chosen)::value;
    Floats<N> beta{};
    if constexpr (mask == Mask::computed) beta = load<N>(a.beta + me.column);
    over_rows(c, me, [&](Index at) {
      Floats<N> x, g;
      load_gradient<N, mask, false>(a, at, mean, scale, beta, x, g);
#pragma unroll
      for (int k = 0; k < N; ++k) g[k] = scale[k] * g[k] + slope[k] * (x[k] - mean[k]) + offset[k];
      store(a.dx + at, g);
    });
  });
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
  const auto of_slice = static_cast<double>(sums.rows_per_slice),
             of_last = static_cast<double>(rows - (sums.slices - 1) * sums.rows_per_slice);
  const ForwardTotals totals{of_slice,
                             of_last,
                             1 / of_slice,
                             1 / of_last,
                             args.gamma.as<float>(),
                             args.mean.as<float>(),
                             args.rstd.as<float>(),
                             args.running_mean.as<float>(),
                             args.running_var.as<float>(),
                             args.momentum,
                             args.epsilon,
                             factor};
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
                args.dy_more.as<T>(),
                args.x.as<T>(),
                args.relu ? args.y.as<T>() : nullptr,
                args.dx.as<T>(),
                args.d_residual.as<T>(),
                args.mean.as<float>(),
                args.rstd.as<float>(),
                args.gamma.as<float>(),
                args.computes_mask() ? args.beta.as<float>() : nullptr,
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

std::size_t scratch_bytes(const BatchNormForward& args) { return sums_bytes(args.x, forward_kinds, 1); }
std::size_t scratch_bytes(const BatchNormBackward& args) { return sums_bytes(args.x, backward_kinds, 3); }

void batch_norm_forward(cudaStream_t stream, const BatchNormForward& args, void* scratch) {
  with_packs(args.x.dtype, args.x.dims[3],
             {args.x.data, args.residual.data, args.y.data, args.mean.data, args.beta.data},
             [&]<class T, int N>() { forward<T, N>(stream, args, scratch); });
}

void batch_norm_backward(cudaStream_t stream, const BatchNormBackward& args, void* scratch) {
  with_packs(args.x.dtype, args.x.dims[3],
             {args.dy.data, args.dy_more.data, args.x.data, args.relu ? args.y.data : nullptr, args.dx.data,
              args.d_residual.data, args.mean.data, args.rstd.data, args.gamma.data,
              args.computes_mask() ? args.beta.data : nullptr},
             [&]<class T, int N>() { backward<T, N>(stream, args, scratch); });
}

}  // namespace tw::models::cuda
