// SwiGLU: the first half of each row, through SiLU, gates the second. A block for each part of a row.
#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {
namespace {

constexpr int most_threads =
    occupancy::common_threads({occupancy::swiglu_forward_kernel, occupancy::swiglu_backward_kernel});

struct Halves {
  Index hidden;
  unsigned parts;  // blocks of a row
};

/// Where a thread's pack begins: in gate of x (up is `hidden` behind it), and in y.
template <int N>
struct Place {
  Index column, x, y;
  __device__ explicit Place(const Halves& h) {
    const unsigned row = blockIdx.x / h.parts;
    column = (static_cast<Index>(blockIdx.x - row * h.parts) * blockDim.x + threadIdx.x) * N;
    y = row * h.hidden + column;
    x = y + row * h.hidden;
  }
};

template <class T, int N>
__global__ void __launch_bounds__(most_threads) swiglu_forward_kernel(const T* x, T* y, Halves h) {
  const Place<N> at(h);
  if (at.column >= h.hidden) return;
  const Floats<N> gate = load<N>(x + at.x), up = load<N>(x + at.x + h.hidden);
  Floats<N> values;
#pragma unroll
  for (int k = 0; k < N; ++k) values[k] = formula::silu(gate[k]) * up[k];
  store(y + at.y, values);
}

template <class T, int N>
__global__ void __launch_bounds__(most_threads) swiglu_backward_kernel(const T* x, const T* dy, T* dx, Halves h) {
  const Place<N> at(h);
  if (at.column >= h.hidden) return;
  const Floats<N> gate = load<N>(x + at.x), up = load<N>(x + at.x + h.hidden), d = load<N>(dy + at.y);
  Floats<N> d_gate, d_up;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const auto gradient = formula::swiglu_gradient(gate[k], up[k], d[k]);
    d_gate[k] = gradient.gate;
    d_up[k] = gradient.up;
  }
  store(dx + at.x, d_gate);
  store(dx + at.x + h.hidden, d_up);
}

struct Shape {
  Halves halves;
  unsigned blocks;
  int threads;
  Shape(Index rows, Index hidden, int n) {
    threads = std::min(round_to_warps(hidden / n), most_threads);
    halves = {hidden, static_cast<unsigned>(ceil_div(hidden / n, threads))};
    blocks = static_cast<unsigned>(rows) * halves.parts;
  }
};

}  // namespace

void swiglu_forward(cudaStream_t stream, const SwigluForward& args) {
  with_packs(args.y.dtype, args.y.dims[1], {args.x.data, args.y.data}, [&]<class T, int N>() {
    const Shape shape(args.y.dims[0], args.y.dims[1], N);
    launch<swiglu_forward_kernel<T, N>>(shape.blocks, shape.threads, 0, stream, args.x.as<T>(), args.y.as<T>(),
                                        shape.halves);
  });
}

void swiglu_backward(cudaStream_t stream, const SwigluBackward& args) {
  with_packs(args.dy.dtype, args.dy.dims[1], {args.x.data, args.dy.data, args.dx.data}, [&]<class T, int N>() {
    const Shape shape(args.dy.dims[0], args.dy.dims[1], N);
    launch<swiglu_backward_kernel<T, N>>(shape.blocks, shape.threads, 0, stream, args.x.as<T>(), args.dy.as<T>(),
                                         args.dx.as<T>(), shape.halves);
  });
}

}  // namespace tw::models::cuda
