// Global norm and the optimizers: one pass over the flat buffers each.
#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {
namespace {

// ---- global norm: sums of squares of each block in float64, then of all blocks, in a fixed order ----
constexpr int norm_threads = occupancy::common_threads({occupancy::squares_kernel, occupancy::norm_kernel});

Index norm_blocks(Index count) { return std::clamp<Index>(ceil_div(count, norm_threads * 16), 1, 2048); }

template <int N>
__device__ inline double squares(const float* x) {
  const Floats<N> values = load<N>(x);
  double sum = 0;
#pragma unroll
  for (int k = 0; k < N; ++k) sum += static_cast<double>(values[k]) * static_cast<double>(values[k]);
  return sum;
}

__global__ void squares_kernel(const float* x, Index packs, Index count, double* block_sums) {
  constexpr int n = width_of<float>;
  double sum[1] = {0};
  for (Index i = first_index(); i < packs; i += index_step()) sum[0] += squares<n>(x + i * n);
  for (Index i = packs * n + first_index(); i < count; i += index_step()) sum[0] += squares<1>(x + i);
  block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x == 0) block_sums[blockIdx.x] = sum[0];
}

__global__ void norm_kernel(const double* block_sums, Index blocks, float max_norm, bool find_non_finite,
                            StepScalars* scalars) {
  double sum[1] = {0};
  for (Index i = threadIdx.x; i < blocks; i += blockDim.x) sum[0] += block_sums[i];
  block_sum(sum, dynamic_shared<double>());
  if (threadIdx.x != 0) return;
  const double norm =
      ::fabs(static_cast<double>(scalars->gradient_scale)) * ::sqrt(sum[0]) / static_cast<double>(scalars->loss_scale);
  scalars->gradient_norm = static_cast<float>(norm);
  const bool clips = max_norm > 0 && norm > static_cast<double>(max_norm);
  scalars->clip_factor = clips ? static_cast<float>(static_cast<double>(max_norm) / norm) : 1.0f;
  // No sum of squares of finite float32 leaves float64; inf − inf and NaN − NaN are NaN.
  if (find_non_finite) scalars->found_non_finite = sum[0] - sum[0] == 0.0 ? 0 : 1;
}

__global__ void loss_scale_kernel(StepScalars* scalars, int growth_interval, float beta1, float beta2) {
  if (threadIdx.x == 0) formula::update_loss_scale(*scalars, growth_interval, beta1, beta2);
}

// ---- optimizers ----
/// The segment that holds element i, or the first behind it; segment_count where there is none.
__device__ inline int segment_from(const DecaySegment* segments, int segment_count, Index i) {
  int low = 0, high = segment_count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (segments[middle].end <= i) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class W>
struct AdamWOp {
  float *master, *first, *second;
  W* weights;
  const float* gradient;
  const StepScalars* scalars;
  float beta1, beta2, epsilon;

  template <int N>
  __device__ void update(Index i, float weight_decay) const {
    Floats<N> m = load<N>(master + i), v1 = load<N>(first + i), v2 = load<N>(second + i);
    const Floats<N> g = load<N>(gradient + i);
    const StepScalars step = *scalars;
    const float factor = step.gradient_scale * step.clip_factor / step.loss_scale;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const auto next =
          formula::adamw(formula::AdamWState<float>{m[k], v1[k], v2[k]}, g[k] * factor, step.learning_rate, beta1,
                         beta2, epsilon, weight_decay, step.bias_correction1, step.bias_correction2);
      m[k] = next.master;
      v1[k] = next.first_moment;
      v2[k] = next.second_moment;
    }
    store(master + i, m);
    store(first + i, v1);
    store(second + i, v2);
    if (weights != nullptr) store(weights + i, m);
  }
};

template <class W>
struct SgdOp {
  float *master, *velocity;
  W* weights;
  const float* gradient;
  const StepScalars* scalars;
  float momentum;

  template <int N>
  __device__ void update(Index i, float weight_decay) const {
    Floats<N> m = load<N>(master + i), v = load<N>(velocity + i);
    const Floats<N> g = load<N>(gradient + i);
    const StepScalars step = *scalars;
    const float factor = step.gradient_scale * step.clip_factor / step.loss_scale;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const auto next =
          formula::sgd(formula::SgdState<float>{m[k], v[k]}, g[k] * factor, step.learning_rate, momentum, weight_decay);
      m[k] = next.master;
      v[k] = next.momentum;
    }
    store(master + i, m);
    store(velocity + i, v);
    if (weights != nullptr) store(weights + i, m);
  }
};

/// `op` on each element inside a segment; as map() calls it.
template <class Op>
struct Segmented {
  Op op;
  const DecaySegment* segments;
  int segment_count;

  template <int N>
  __device__ void at(Index i) const {
    if (op.scalars->found_non_finite != 0) return;
    int s = segment_from(segments, segment_count, i);
    if (s < segment_count && segments[s].begin <= i && i + N <= segments[s].end) {
      op.template update<N>(i, segments[s].weight_decay);
      return;
    }
    for (int k = 0; k < N; ++k) {
      while (s < segment_count && segments[s].end <= i + k) ++s;
      if (s == segment_count) return;
      if (segments[s].begin <= i + k) op.template update<1>(i + k, segments[s].weight_decay);
    }
  }
};

}  // namespace

std::size_t scratch_bytes(const GlobalNorm& args) {
  return static_cast<std::size_t>(norm_blocks(args.gradient.count())) * sizeof(double);
}

void global_norm(cudaStream_t stream, const GlobalNorm& args, void* scratch) {
  const Index count = args.gradient.count(), blocks = norm_blocks(count);
  const Index packs = aligned(args.gradient.data) ? count / width_of<float> : 0;
  double* block_sums = static_cast<double*>(scratch);
  constexpr std::size_t shared_bytes = norm_threads / warp_size * sizeof(double);
  launch<squares_kernel>(static_cast<unsigned>(blocks), norm_threads, shared_bytes, stream, args.gradient.as<float>(),
                         packs, count, block_sums);
  launch<norm_kernel>(1, norm_threads, shared_bytes, stream, block_sums, blocks, args.max_norm, args.find_non_finite,
                      args.scalars);
}

void update_loss_scale(cudaStream_t stream, const UpdateLossScale& args) {
  launch<loss_scale_kernel>(1, occupancy::loss_scale_kernel.threads, 0, stream, args.scalars, args.growth_interval,
                            args.beta1, args.beta2);
}

void adamw(cudaStream_t stream, const AdamW& args) {
  constexpr int n = width_of<float>;
  with_half(args.weights.dtype, [&]<class W>(W*) {
    const AdamWOp<W> op{args.master.as<float>(),
                        args.first_moment.as<float>(),
                        args.second_moment.as<float>(),
                        args.weights.as<W>(),
                        args.gradient.as<float>(),
                        args.scalars,
                        args.beta1,
                        args.beta2,
                        args.epsilon};
    map<n>(stream, Segmented<AdamWOp<W>>{op, args.segments, args.segment_count}, args.master.count(),
           aligned<n>({args.master, args.weights, args.gradient, args.first_moment, args.second_moment}));
  });
}

void sgd(cudaStream_t stream, const Sgd& args) {
  constexpr int n = width_of<float>;
  with_half(args.weights.dtype, [&]<class W>(W*) {
    const SgdOp<W> op{args.master.as<float>(),
                      args.momentum_buffer.as<float>(),
                      args.weights.as<W>(),
                      args.gradient.as<float>(),
                      args.scalars,
                      args.momentum};
    map<n>(stream, Segmented<SgdOp<W>>{op, args.segments, args.segment_count}, args.master.count(),
           aligned<n>({args.master, args.weights, args.gradient, args.momentum_buffer}));
  });
}

}  // namespace tw::models::cuda
