// Rows by index: gathered, and scattered back. A block for each part of a row.
#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {
namespace {

constexpr int most_threads = occupancy::common_threads({occupancy::gather_rows_kernel, occupancy::scatter_rows_kernel});

struct Parts {
  Index width;
  unsigned parts;  // blocks of a row
};

/// Of a thread's pack: its row, and its place in it.
template <int N>
struct Place {
  Index row, column;
  __device__ explicit Place(const Parts& p) {
    const unsigned block_row = blockIdx.x / p.parts;
    row = block_row;
    column = (static_cast<Index>(blockIdx.x - block_row * p.parts) * blockDim.x + threadIdx.x) * N;
  }
};

template <class T, int N>
__global__ void __launch_bounds__(most_threads)
    gather_rows_kernel(const T* x, const std::int32_t* indices, T* y, Parts p) {
  const Place<N> at(p);
  if (at.column >= p.width) return;
  store(y + at.row * p.width + at.column, load<N>(x + indices[at.row] * p.width + at.column));
}

/// dx is zero: no two rows of dy go to the same one.
template <class T, int N>
__global__ void __launch_bounds__(most_threads)
    scatter_rows_kernel(const T* dy, const std::int32_t* indices, T* dx, Parts p) {
  const Place<N> at(p);
  if (at.column >= p.width) return;
  store(dx + indices[at.row] * p.width + at.column, load<N>(dy + at.row * p.width + at.column));
}

struct Shape {
  Parts parts;
  unsigned blocks;
  int threads;
  Shape(Index rows, Index width, int n) {
    threads = std::min(round_to_warps(width / n), most_threads);
    parts = {width, static_cast<unsigned>(ceil_div(width / n, threads))};
    blocks = static_cast<unsigned>(rows) * parts.parts;
  }
};

}  // namespace

void gather_rows(cudaStream_t stream, const GatherRows& args) {
  with_packs(args.y.dtype, args.y.dims[1], {args.x.data, args.y.data}, [&]<class T, int N>() {
    const Shape shape(args.y.dims[0], args.y.dims[1], N);
    launch<gather_rows_kernel<T, N>>(shape.blocks, shape.threads, 0, stream, args.x.as<T>(),
                                     args.indices.as<std::int32_t>(), args.y.as<T>(), shape.parts);
  });
}

void scatter_rows(cudaStream_t stream, const ScatterRows& args) {
  fill(stream, {args.dx, 0});
  with_packs(args.dy.dtype, args.dy.dims[1], {args.dy.data, args.dx.data}, [&]<class T, int N>() {
    const Shape shape(args.dy.dims[0], args.dy.dims[1], N);
    launch<scatter_rows_kernel<T, N>>(shape.blocks, shape.threads, 0, stream, args.dy.as<T>(),
                                      args.indices.as<std::int32_t>(), args.dx.as<T>(), shape.parts);
  });
}

}  // namespace tw::models::cuda
