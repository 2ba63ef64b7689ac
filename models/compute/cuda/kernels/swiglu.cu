// SwiGLU: the first half of each row, through SiLU, gates the second. A block for each part of a row.
#include "models/compute/cuda/kernels/row_parts.cuh"

namespace tw::models::cuda {
namespace {

constexpr int most_threads =
    occupancy::common_threads({occupancy::swiglu_forward_kernel, occupancy::swiglu_backward_kernel});

/// Where a thread's pack begins: in gate of x (up is a row's width behind it), and in y.
template <int N>
struct Place : PlaceInRow<N> {
  Index x, y;
  __device__ explicit Place(const RowParts& p) : PlaceInRow<N>(p) {
    y = this->row * p.width + this->column;
    x = y + this->row * p.width;
  }
};

template <class T, int N>
__global__ void __launch_bounds__(most_threads) swiglu_forward_kernel(const T* x, T* y, RowParts h) {
  const Place<N> at(h);
  if (at.column >= h.width) return;
  const Floats<N> gate = load<N>(x + at.x), up = load<N>(x + at.x + h.width);
  Floats<N> values;
#pragma unroll
  for (int k = 0; k < N; ++k) values[k] = formula::silu(gate[k]) * up[k];
  store(y + at.y, values);
}

template <class T, int N>
__global__ void __launch_bounds__(most_threads) swiglu_backward_kernel(const T* x, const T* dy, T* dx, RowParts h) {
  const Place<N> at(h);
  if (at.column >= h.width) return;
  const Floats<N> gate = load<N>(x + at.x), up = load<N>(x + at.x + h.width), d = load<N>(dy + at.y);
  Floats<N> d_gate, d_up;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const auto gradient = formula::swiglu_gradient(gate[k], up[k], d[k]);
    d_gate[k] = gradient.gate;
    d_up[k] = gradient.up;
  }
  store(dx + at.x, d_gate);
  store(dx + at.x + h.width, d_up);
}

}  // namespace

void swiglu_forward(cudaStream_t stream, const SwigluForward& args) {
  if (args.rounded) return swiglu_rounded(stream, args);
  with_packs(args.y.dtype, args.y.dims[1], {args.x.data, args.y.data}, [&]<class T, int N>() {
    const RowPartsShape shape(args.y.dims[0], args.y.dims[1], N, most_threads);
    launch<swiglu_forward_kernel<T, N>>(shape.blocks, shape.threads, 0, stream, args.x.as<T>(), args.y.as<T>(),
                                        shape.parts);
  });
}

void swiglu_backward(cudaStream_t stream, const SwigluBackward& args) {
  with_packs(args.dy.dtype, args.dy.dims[1], {args.x.data, args.dy.data, args.dx.data}, [&]<class T, int N>() {
    const RowPartsShape shape(args.dy.dims[0], args.dy.dims[1], N, most_threads);
    launch<swiglu_backward_kernel<T, N>>(shape.blocks, shape.threads, 0, stream, args.x.as<T>(), args.dy.as<T>(),
                                         args.dx.as<T>(), shape.parts);
  });
}

}  // namespace tw::models::cuda
