// Rows by index: gathered, and scattered back; and parts of all rows. A block for each part of a row.
#include <numeric>

#include "models/compute/cuda/kernels/row_parts.cuh"

namespace tw::models::cuda {
namespace {

constexpr int most_threads = occupancy::common_threads(
    {occupancy::gather_rows_kernel, occupancy::scatter_rows_kernel, occupancy::copy_channels_kernel});

template <class T, int N>
__global__ void __launch_bounds__(most_threads)
    gather_rows_kernel(const T* x, const std::int32_t* indices, T* y, RowParts p) {
  const PlaceInRow<N> at(p);
  if (at.column >= p.width) return;
  store(y + at.row * p.width + at.column, load<N>(x + indices[at.row] * p.width + at.column));
}

/// dx is zero: no two rows of dy go to the same one.
template <class T, int N>
__global__ void __launch_bounds__(most_threads)
    scatter_rows_kernel(const T* dy, const std::int32_t* indices, T* dx, RowParts p) {
  const PlaceInRow<N> at(p);
  if (at.column >= p.width) return;
  store(dx + indices[at.row] * p.width + at.column, load<N>(dy + at.row * p.width + at.column));
}

/// Of rows of x and y, whose lengths differ, `p.width` neighbours.
template <class T, int N>
__global__ void __launch_bounds__(most_threads)
    copy_channels_kernel(const T* x, Index x_width, T* y, Index y_width, RowParts p) {
  const PlaceInRow<N> at(p);
  if (at.column >= p.width) return;
  store_pack(y + at.row * y_width + at.column, load_pack<N>(x + at.row * x_width + at.column));
}

template <class T>
struct PadChannels {
  const T* x;
  T* y;
  Index channels;
  template <int N>
  __device__ void at(Index i) const {
    const Index row = i / padded_channels, first = i % padded_channels;
    Pack<T, N> pack;
#pragma unroll
    for (int k = 0; k < N; ++k)
      pack.values[k] = first + k < channels ? load_pack<1>(x + row * channels + first + k).values[0] : T{};
    store_pack(y + i, pack);
  }
};

}  // namespace

void gather_rows(cudaStream_t stream, const GatherRows& args) {
  with_packs(args.y.dtype, args.y.dims[1], {args.x.data, args.y.data}, [&]<class T, int N>() {
    const RowPartsShape shape(args.y.dims[0], args.y.dims[1], N, most_threads);
    launch<gather_rows_kernel<T, N>>(shape.blocks, shape.threads, 0, stream, args.x.as<T>(),
                                     args.indices.as<std::int32_t>(), args.y.as<T>(), shape.parts);
  });
}

void scatter_rows(cudaStream_t stream, const ScatterRows& args) {
  fill(stream, {args.dx, 0});
  with_packs(args.dy.dtype, args.dy.dims[1], {args.dy.data, args.dx.data}, [&]<class T, int N>() {
    const RowPartsShape shape(args.dy.dims[0], args.dy.dims[1], N, most_threads);
    launch<scatter_rows_kernel<T, N>>(shape.blocks, shape.threads, 0, stream, args.dy.as<T>(),
                                      args.indices.as<std::int32_t>(), args.dx.as<T>(), shape.parts);
  });
}

void copy_channels(cudaStream_t stream, const CopyChannels& args) {
  const int last = args.x.dims.rank() - 1;
  const Index x_width = args.x.dims[last], y_width = args.y.dims[last];
  // Packs are whole and aligned in each row where they divide all of these.
  Index common = args.count;
  for (const Index extent : {x_width, y_width, args.from, args.to}) common = std::gcd(common, extent);
  with_packs(args.x.dtype, common, {args.x.data, args.y.data}, [&]<class T, int N>() {
    const RowPartsShape shape(args.x.count() / x_width, args.count, N, most_threads);
    launch<copy_channels_kernel<T, N>>(shape.blocks, shape.threads, 0, stream, args.x.as<T>() + args.from, x_width,
                                       args.y.as<T>() + args.to, y_width, shape.parts);
  });
}

void pad_channels(cudaStream_t stream, DType dtype, const void* x, Index rows, Index channels, void* y) {
  with_half(dtype, [&]<class T>(T*) {
    const PadChannels<T> op{static_cast<const T*>(x), static_cast<T*>(y), channels};
    map<padded_channels>(stream, op, rows * padded_channels, aligned(y));
  });
}

}  // namespace tw::models::cuda
