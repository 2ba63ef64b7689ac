// Max and average pooling, NHWC; packs of channels.
#include "models/compute/cuda/kernels/columns.cuh"

namespace tw::models::cuda {
namespace {

constexpr int line_threads =
    occupancy::common_threads({occupancy::max_pool_forward_kernel, occupancy::max_pool_backward_kernel,
                               occupancy::average_pool_forward_kernel, occupancy::average_pool_backward_kernel,
                               occupancy::average_windows_forward_kernel, occupancy::average_windows_backward_kernel});

/// Windows over images. A block has a line of pixels: of the output forward, of the input backward.
struct Windows {
  int height, width, channels, out_height, out_width;
  PerAxis kernel, stride, padding;
  float divisor = 1;  // of sums: the mean's is the number of elements
};

template <class T, int N>
__global__ void __launch_bounds__(line_threads)
    max_pool_forward_kernel(const T* x, T* y, std::int32_t* argmax, Windows w) {
  const Index line = blockIdx.x, image = line / w.out_height;
  const int top = static_cast<int>(line % w.out_height) * w.stride.height - w.padding.height, packs = w.channels / N;
  for (int i = static_cast<int>(threadIdx.x); i < w.out_width * packs; i += static_cast<int>(blockDim.x)) {
    const int column = i / packs, channel = i % packs * N, left = column * w.stride.width - w.padding.width;
    Floats<N> best{};
    Pack<std::int32_t, N> where{};
    bool first = true;
    for (int kh = 0; kh < w.kernel.height; ++kh) {
      if (top + kh < 0 || top + kh >= w.height) continue;
      for (int kw = 0; kw < w.kernel.width; ++kw) {
        if (left + kw < 0 || left + kw >= w.width) continue;
        const Index pixel = (image * w.height + top + kh) * w.width + left + kw;
        const Floats<N> values = load<N>(x + pixel * w.channels + channel);
#pragma unroll
        for (int k = 0; k < N; ++k) {
          // The first of equals stays; a NaN wins.
          const bool better = first || values[k] > best[k] || values[k] != values[k];
          best[k] = better ? values[k] : best[k];
          where.values[k] = better ? kh * w.kernel.width + kw : where.values[k];
        }
        first = false;
      }
    }
    const Index at = (line * w.out_width + column) * w.channels + channel;
    store(y + at, best);
    *reinterpret_cast<Pack<std::int32_t, N>*>(argmax + at) = where;
  }
}

/// Windows that hold position i of an axis: o·stride ≤ i + padding ≤ o·stride + kernel − 1.
__device__ inline int first_window(int i, int kernel, int stride, int padding) {
  return i + padding < kernel ? 0 : (i + padding - kernel) / stride + 1;
}
__device__ inline int end_window(int i, int stride, int padding, int count) {
  const int past = (i + padding) / stride + 1;
  return past < count ? past : count;
}

/// body(pack's place in dx, pixel of dy) for the thread's packs of the block's line of dx and the windows that hold
/// them, in order: sums gather, so that each is added in one order. `begin` and `end` are called around each pack.
template <int N, class Begin, class Body, class End>
__device__ inline void over_windows(const Windows& w, Begin&& begin, Body&& body, End&& end) {
  const Index line = blockIdx.x, image = line / w.height;
  const int packs = w.channels / N, row = static_cast<int>(line % w.height);
  const int first_row = first_window(row, w.kernel.height, w.stride.height, w.padding.height),
            end_row = end_window(row, w.stride.height, w.padding.height, w.out_height);
  for (int i = static_cast<int>(threadIdx.x); i < w.width * packs; i += static_cast<int>(blockDim.x)) {
    const int column = i / packs, channel = i % packs * N;
    const int first_column = first_window(column, w.kernel.width, w.stride.width, w.padding.width),
              end_column = end_window(column, w.stride.width, w.padding.width, w.out_width);
    begin();
    for (int oh = first_row; oh < end_row; ++oh) {
      for (int ow = first_column; ow < end_column; ++ow) {
        const int place = (row + w.padding.height - oh * w.stride.height) * w.kernel.width + column + w.padding.width -
                          ow * w.stride.width;
        body(((image * w.out_height + oh) * w.out_width + ow) * w.channels + channel, place);
      }
    }
    end((line * w.width + column) * w.channels + channel);
  }
}

template <class T, int N>
__global__ void __launch_bounds__(line_threads, occupancy::max_pool_backward_kernel.blocks)
    max_pool_backward_kernel(const T* dy, const std::int32_t* argmax, T* dx, const __grid_constant__ Windows w) {
  Floats<N> sum{};
  over_windows<N>(
      w, [&] { sum = {}; },
      [&](Index at, int place) {
        const Floats<N> gradient = load<N>(dy + at);
        const auto where = load_pack<N>(argmax + at);
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] += where.values[k] == place ? gradient[k] : 0.0f;
      },
      [&](Index to) { store(dx + to, sum); });
}

template <class T, int N>
__global__ void __launch_bounds__(line_threads) average_windows_forward_kernel(const T* x, T* y, Windows w) {
  const Index line = blockIdx.x, image = line / w.out_height;
  const int top = static_cast<int>(line % w.out_height) * w.stride.height - w.padding.height, packs = w.channels / N;
  for (int i = static_cast<int>(threadIdx.x); i < w.out_width * packs; i += static_cast<int>(blockDim.x)) {
    const int column = i / packs, channel = i % packs * N, left = column * w.stride.width - w.padding.width;
    Floats<N> sum{};
    for (int kh = 0; kh < w.kernel.height; ++kh) {
      if (top + kh < 0 || top + kh >= w.height) continue;
      for (int kw = 0; kw < w.kernel.width; ++kw) {
        if (left + kw < 0 || left + kw >= w.width) continue;
        const Floats<N> values =
            load<N>(x + ((image * w.height + top + kh) * w.width + left + kw) * w.channels + channel);
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] += values[k];
      }
    }
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] /= w.divisor;
    store(y + (line * w.out_width + column) * w.channels + channel, sum);
  }
}

template <class T, int N>
__global__ void __launch_bounds__(line_threads) average_windows_backward_kernel(const T* dy, T* dx, Windows w) {
  Floats<N> sum{};
  over_windows<N>(
      w, [&] { sum = {}; },
      [&](Index at, int) {
        const Floats<N> gradient = load<N>(dy + at);
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] += gradient[k];
      },
      [&](Index to) {
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] /= w.divisor;
        store(dx + to, sum);
      });
}

Windows windows(const Dims& x, const Dims& y, const PerAxis& kernel, const PerAxis& stride, const PerAxis& padding) {
  return {static_cast<int>(x[1]),
          static_cast<int>(x[2]),
          static_cast<int>(x[3]),
          static_cast<int>(y[1]),
          static_cast<int>(y[2]),
          kernel,
          stride,
          padding};
}
template <class Args>
Windows average_windows(const Dims& x, const Dims& y, const Args& args) {
  Windows w = windows(x, y, args.kernel, args.stride, args.padding);
  w.divisor = args.sum ? 1.0f : static_cast<float>(args.kernel.area());
  return w;
}
/// Runs a kernel with a block for each line of the pixels of `lines`, in packs of n channels.
template <auto* kernel, class... Arguments>
void launch_lines(cudaStream_t stream, const Dims& lines, int n, Arguments... arguments) {
  launch<kernel>(static_cast<unsigned>(lines[0] * lines[1]),
                 std::min(round_to_warps(lines[2] * lines[3] / n), line_threads), 0, stream, arguments...);
}

// ---- average of whole images: an image is a matrix of pixels × channels, and a slice of its own ----
/// `c` of one image; blocks: images × tiles.
template <class T, int N>
__global__ void __launch_bounds__(line_threads) average_pool_forward_kernel(const T* x, T* y, Columns c) {
  const ColumnThread<N> me(c);  // its slice is the image
  float sums[N] = {};
  if (me.width > 0) {
#pragma unroll 4
    for (Index pixel = me.y; pixel < c.rows; pixel += me.step) {
      const Floats<N> values = load<N>(x + (me.slice * c.rows + pixel) * c.ld + me.column);
#pragma unroll
      for (int k = 0; k < N; ++k) sums[k] += values[k];
    }
  }
  const Index tile_begin = me.column - me.x * N;
  sum_down(c, me.x, me.y, sums, dynamic_shared<float>(), [&](int in_tile, float sum) {
    const Index channel = tile_begin + in_tile;
    if (channel < c.columns) y[me.slice * c.columns + channel] = from_float<T>(sum / static_cast<float>(c.rows));
  });
}

template <class T, int N>
__global__ void __launch_bounds__(line_threads) average_pool_backward_kernel(const T* dy, T* dx, Columns c) {
  const ColumnThread<N> me(c);
  if (me.width <= 0) return;
  Floats<N> share = load<N>(dy + me.slice * c.columns + me.column);
#pragma unroll
  for (int k = 0; k < N; ++k) share[k] /= static_cast<float>(c.rows);
  for (Index pixel = me.y; pixel < c.rows; pixel += me.step) {
    store(dx + (me.slice * c.rows + pixel) * c.ld + me.column, share);
  }
}

/// One image; `blocks` counts those of all images.
struct Images {
  Columns c;
  unsigned blocks;
  Images(const Dims& x, int n) : c(cut_columns(x[1] * x[2], x[3], x[3], n, line_threads, x[1] * x[2], 1)) {
    blocks = static_cast<unsigned>(c.tiles * x[0]);
  }
};

}  // namespace

void max_pool_forward(cudaStream_t stream, const MaxPoolForward& args) {
  const Windows w = windows(args.x.dims, args.y.dims, args.kernel, args.stride, args.padding);
  with_packs(args.x.dtype, w.channels, {args.x.data, args.y.data, args.argmax.data}, [&]<class T, int N>() {
    launch_lines<max_pool_forward_kernel<T, N>>(stream, args.y.dims, N, args.x.as<T>(), args.y.as<T>(),
                                                args.argmax.as<std::int32_t>(), w);
  });
}

void max_pool_backward(cudaStream_t stream, const MaxPoolBackward& args) {
  const Windows w = windows(args.dx.dims, args.dy.dims, args.kernel, args.stride, args.padding);
  with_packs(args.dx.dtype, w.channels, {args.dy.data, args.argmax.data, args.dx.data}, [&]<class T, int N>() {
    launch_lines<max_pool_backward_kernel<T, N>>(stream, args.dx.dims, N, args.dy.as<T>(),
                                                 args.argmax.as<std::int32_t>(), args.dx.as<T>(), w);
  });
}

void average_pool_forward(cudaStream_t stream, const AveragePoolForward& args) {
  if (args.kernel != 0) {
    const Windows w = average_windows(args.x.dims, args.y.dims, args);
    with_packs(args.x.dtype, w.channels, {args.x.data, args.y.data}, [&]<class T, int N>() {
      launch_lines<average_windows_forward_kernel<T, N>>(stream, args.y.dims, N, args.x.as<T>(), args.y.as<T>(), w);
    });
    return;
  }
  with_packs(args.x.dtype, args.x.dims[3], {args.x.data}, [&]<class T, int N>() {
    const Images images(args.x.dims, N);
    launch<average_pool_forward_kernel<T, N>>(images.blocks, images.c.threads(), images.c.threads() * N * sizeof(float),
                                              stream, args.x.as<T>(), args.y.as<T>(), images.c);
  });
}

void average_pool_backward(cudaStream_t stream, const AveragePoolBackward& args) {
  if (args.kernel != 0) {
    const Windows w = average_windows(args.dx.dims, args.dy.dims, args);
    with_packs(args.dx.dtype, w.channels, {args.dy.data, args.dx.data}, [&]<class T, int N>() {
      launch_lines<average_windows_backward_kernel<T, N>>(stream, args.dx.dims, N, args.dy.as<T>(), args.dx.as<T>(), w);
    });
    return;
  }
  with_packs(args.dx.dtype, args.dx.dims[3], {args.dy.data, args.dx.data}, [&]<class T, int N>() {
    const Images images(args.dx.dims, N);
    launch<average_pool_backward_kernel<T, N>>(images.blocks, images.c.threads(), 0, stream, args.dy.as<T>(),
                                               args.dx.as<T>(), images.c);
  });
}

}  // namespace tw::models::cuda
