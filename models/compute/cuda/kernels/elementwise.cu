// Filling, conversion, addition, biases, squared errors, GELU and other activations.
#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {
namespace {

template <class T>
struct FillOp {
  T* y;
  float value;
  template <int N>
  __device__ void at(Index i) const {
    Floats<N> values;
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = value;
    store(y + i, values);
  }
};

template <class From, class To>
struct CastOp {
  const From* x;
  To* y;
  template <int N>
  __device__ void at(Index i) const {
    store(y + i, load<N>(x + i));
  }
};

/// y = of(a, b), element by element.
template <class T, class Of>
struct BinaryOp {
  const T *a, *b;
  T* y;
  template <int N>
  __device__ void at(Index i) const {
    Floats<N> values = load<N>(a + i);
    const Floats<N> other = load<N>(b + i);
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = Of::value(values[k], other[k]);
    store(y + i, values);
  }
};
struct Sum {
  __device__ static float value(float a, float b) { return a + b; }
};
template <class T, class Of>
struct ActivationOp {
  const T* x;
  T* y;
  template <int N>
  __device__ void at(Index i) const {
    Floats<N> values = load<N>(x + i);
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = Of::value(values[k]);
    store(y + i, values);
  }
};
template <class Of>
struct ActivationGradient {
  __device__ static float value(float gradient, float x) { return gradient * Of::derivative(x); }
};

template <class T>
struct BiasOp {
  const T *bias, *residual;
  T* y;
  Index columns;
  template <int N>
  __device__ void at(Index i) const {
    Floats<N> values = load<N>(bias + i % columns);
    if (residual != nullptr) {
      const Floats<N> other = load<N>(residual + i);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] += other[k];
    }
    store(y + i, values);
  }
};

// Squared errors: sums of each block in float64, then of all blocks, in a fixed order.
constexpr int error_threads = occupancy::squared_errors_kernel.threads;

template <class T>
struct SquaredErrors {
  const T* predictions;
  const float* targets;
  T* d_predictions;
  float factor;  // of the gradient, without the loss scale
  const StepScalars* scalars;
  float* block_sums;

  template <int N>
  __device__ double at(Index i, float scaled_factor) const {
    Floats<N> errors = load<N>(predictions + i);
    const Floats<N> wanted = load<N>(targets + i);
    double sum = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      errors[k] -= wanted[k];
      sum += static_cast<double>(errors[k]) * static_cast<double>(errors[k]);
      errors[k] *= scaled_factor;
    }
    if (d_predictions != nullptr) store(d_predictions + i, errors);
    return sum;
  }
};

template <class T, int N>
__global__ void __launch_bounds__(error_threads) squared_errors_kernel(SquaredErrors<T> a, Index packs, Index count) {
  const float factor = a.scalars != nullptr ? a.factor * a.scalars->loss_scale : a.factor;
  double sum[1] = {0};
  for (Index i = first_index(); i < packs; i += index_step()) sum[0] += a.template at<N>(i * N, factor);
  for (Index i = packs * N + first_index(); i < count; i += index_step()) sum[0] += a.template at<1>(i, factor);
  block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x == 0) a.block_sums[blockIdx.x] = static_cast<float>(sum[0]);
}

Index error_blocks(Index count) { return std::clamp<Index>(ceil_div(count, error_threads * 16), 1, 2048); }

template <class From, class To>
void cast_from(cudaStream_t stream, const Cast& args) {
  constexpr int n = width_of<bf16>;
  map<n>(stream, CastOp<From, To>{args.x.as<From>(), args.y.as<To>()}, args.x.count(), aligned<n>({args.x, args.y}));
}

}  // namespace

cudaError_t find_kernel_image() { return find_image<map_kernel<width_of<float>, FillOp<float>>>(); }

void fill(cudaStream_t stream, const Fill& args) {
  with_type(args.y.dtype, [&]<class T>(T*) {
    constexpr int n = width_of<T>;
    map<n>(stream, FillOp<T>{args.y.as<T>(), args.value}, args.y.count(), aligned<n>({args.y}));
  });
}

void cast(cudaStream_t stream, const Cast& args) {
  with_half(is_half(args.x.dtype) ? args.x.dtype : args.y.dtype, [&]<class T>(T*) {
    if (is_half(args.x.dtype)) {
      cast_from<T, float>(stream, args);
    } else {
      cast_from<float, T>(stream, args);
    }
  });
}

void add(cudaStream_t stream, const Add& args) {
  with_type(args.y.dtype, [&]<class T>(T*) {
    constexpr int n = width_of<T>;
    map<n>(stream, BinaryOp<T, Sum>{args.a.as<T>(), args.b.as<T>(), args.y.as<T>()}, args.y.count(),
           aligned<n>({args.a, args.b, args.y}));
  });
}

void activation_forward(cudaStream_t stream, const ActivationForward& args) {
  if (args.rounded) return activation_rounded(stream, args);
  with_type(args.y.dtype, [&]<class T>(T*) {
    formula::with_activation(args.activation, [&]<class Of>(Of) {
      constexpr int n = width_of<T>;
      map<n>(stream, ActivationOp<T, Of>{args.x.as<T>(), args.y.as<T>()}, args.y.count(), aligned<n>({args.x, args.y}));
    });
  });
}

void activation_backward(cudaStream_t stream, const ActivationBackward& args) {
  with_type(args.dx.dtype, [&]<class T>(T*) {
    formula::with_activation(args.activation, [&]<class Of>(Of) {
      constexpr int n = width_of<T>;
      map<n>(stream, BinaryOp<T, ActivationGradient<Of>>{args.dy.as<T>(), args.x.as<T>(), args.dx.as<T>()},
             args.dx.count(), aligned<n>({args.dy, args.x, args.dx}));
    });
  });
}

void bias_rows(cudaStream_t stream, DType dtype, const void* bias, const void* residual, void* y, Index rows,
               Index columns) {
  with_type(dtype, [&]<class T>(T*) {
    constexpr int n = width_of<T>;
    const BiasOp<T> op{static_cast<const T*>(bias), static_cast<const T*>(residual), static_cast<T*>(y), columns};
    // Rows that no pack crosses.
    map<n>(stream, op, rows * columns, columns % n == 0 && aligned(bias) && aligned(residual) && aligned(y));
  });
}

void add_bias(cudaStream_t stream, const AddBias& args) {
  const Index channels = args.bias.count();
  bias_rows(stream, args.y.dtype, args.bias.data, args.x.data, args.y.data, args.x.count() / channels, channels);
}

std::size_t scratch_bytes(const MeanSquaredError& args) {
  return static_cast<std::size_t>(error_blocks(args.predictions.count())) * sizeof(float);
}

void mean_squared_error(cudaStream_t stream, const MeanSquaredError& args, void* scratch) {
  const Index count = args.predictions.count(), blocks = error_blocks(count);
  auto* block_sums = static_cast<float*>(scratch);
  with_type(args.predictions.dtype, [&]<class T>(T*) {
    constexpr int n = width_of<T>;
    const SquaredErrors<T> a{args.predictions.as<T>(),
                             args.targets.as<float>(),
                             args.d_predictions.as<T>(),
                             2.0f / static_cast<float>(count),
                             args.scalars,
                             block_sums};
    const Index packs = aligned<n>({args.predictions, args.targets, args.d_predictions}) ? count / n : 0;
    launch<squared_errors_kernel<T, n>>(static_cast<unsigned>(blocks), error_threads,
                                        error_threads / warp_size * sizeof(double), stream, a, packs, count);
  });
  const auto weight = static_cast<double>(blocks) / static_cast<double>(count);  // of the mean over blocks
  classifier_totals(stream, block_sums, nullptr, blocks, static_cast<float>(weight), args.loss.as<float>(), nullptr);
}

void gelu_forward(cudaStream_t stream, DType dtype, const void* x, void* y, Index count) {
  with_type(dtype, [&]<class T>(T*) {
    map<width_of<T>>(stream, ActivationOp<T, Gelu>{static_cast<const T*>(x), static_cast<T*>(y)}, count,
                     aligned(x) && aligned(y));
  });
}

void gelu_backward(cudaStream_t stream, DType dtype, const void* x, void* dx, Index count) {
  with_type(dtype, [&]<class T>(T*) {
    T* const gradient = static_cast<T*>(dx);
    map<width_of<T>>(stream, BinaryOp<T, ActivationGradient<Gelu>>{gradient, static_cast<const T*>(x), gradient}, count,
                     aligned(x) && aligned(dx));
  });
}

}  // namespace tw::models::cuda
