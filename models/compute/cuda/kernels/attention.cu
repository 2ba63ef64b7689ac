// Softmax and its gradient over matrices of scores, where the library's fused attention refuses. A block for each row.
#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {
namespace {

constexpr int most_threads = occupancy::common_threads(
    {occupancy::attention_softmax_kernel, occupancy::attention_gradient_kernel, occupancy::attention_delta_kernel});

/// Columns that a row sees; the rest is masked.
struct Scores {
  Index seq;
  bool causal;
  float scale;
  __device__ Index seen(Index row) const { return causal ? row % seq + 1 : seq; }
};

/// Maximum and Σ exp(scale · (score − maximum)) of part of a row.
struct Part {
  float top, sum;
};
constexpr float lowest = -3.402823466e38f;

__device__ inline Part merged(const Part& a, const Part& b, float scale) {
  const float top = b.top > a.top ? b.top : a.top;
  return {top,
          a.sum * formula::exponential((a.top - top) * scale) + b.sum * formula::exponential((b.top - top) * scale)};
}

__device__ inline Part over_block(Part part, float scale, Part* scratch /* warps */) {
#pragma unroll
  for (int bits = warp_size / 2; bits > 0; bits /= 2) {
    const Part other{__shfl_xor_sync(all_lanes, part.top, bits), __shfl_xor_sync(all_lanes, part.sum, bits)};
    part = threadIdx.x & bits ? merged(other, part, scale) : merged(part, other, scale);
  }
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  if (threadIdx.x % warp_size == 0) scratch[threadIdx.x / warp_size] = part;
  __syncthreads();
  part = scratch[0];
  for (int warp = 1; warp < warps; ++warp) part = merged(part, scratch[warp], scale);
  return part;
}

template <class T, int N>
__global__ void __launch_bounds__(most_threads)
    attention_softmax_kernel(const float* scores, Scores s, T* p, float* log_sum_exp) {
  const Index row = blockIdx.x, seen = s.seen(row), begin = row * s.seq, step = blockDim.x * N;
  Part part{lowest, 0};
  for (Index column = threadIdx.x * N; column < seen; column += step) {
    const Floats<N> values = load_some<N>(scores + begin + column, seen - column, lowest);
    float top = values[0];
#pragma unroll
    for (int k = 1; k < N; ++k) top = values[k] > top ? values[k] : top;
    if (top > part.top) {
      part.sum *= formula::exponential((part.top - top) * s.scale);
      part.top = top;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
      part.sum += column + k < seen ? formula::exponential((values[k] - part.top) * s.scale) : 0.0f;
    }
  }
  part = over_block(part, s.scale, dynamic_shared<Part>());
  const float factor = 1.0f / part.sum;
  for (Index column = threadIdx.x * N; column < s.seq; column += step) {
    Floats<N> values{};
    if (column < seen) {
      values = load_some<N>(scores + begin + column, seen - column);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        values[k] = column + k < seen ? formula::exponential((values[k] - part.top) * s.scale) * factor : 0.0f;
      }
    }
    store(p + begin + column, values);
  }
  if (threadIdx.x == 0) log_sum_exp[row] = part.top * s.scale + ::logf(part.sum);
}

template <class T, int N>
__global__ void __launch_bounds__(most_threads)
    attention_gradient_kernel(const float* scores, const float* dp, Scores s, const float* log_sum_exp,
                              const float* delta, T* p, T* ds) {
  const Index row = blockIdx.x, seen = s.seen(row), begin = row * s.seq;
  const float level = log_sum_exp[row], mean = delta[row];
  for (Index column = threadIdx.x * N; column < s.seq; column += blockDim.x * N) {
    Floats<N> probability{}, gradient{};
    if (column < seen) {
      const Floats<N> score = load_some<N>(scores + begin + column, seen - column),
                      d = load_some<N>(dp + begin + column, seen - column);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float e = formula::exponential(score[k] * s.scale - level);
        probability[k] = column + k < seen ? e : 0.0f;
        gradient[k] = column + k < seen ? e * (d[k] - mean) * s.scale : 0.0f;
      }
    }
    store(p + begin + column, probability);
    store(ds + begin + column, gradient);
  }
}

/// `lanes` of a warp for each row of head_dim elements; lanes is a power of two.
template <class T, int N>
__global__ void __launch_bounds__(most_threads)
    attention_delta_kernel(const T* a, const T* b, Index rows, Index seq, Index heads, Index head_dim, int lanes,
                           float* delta) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % lanes;
  const Index row = static_cast<Index>(blockIdx.x) * (most_threads / lanes) + thread / lanes;  // (batch, seq, heads)
  float sum = 0;
  if (row < rows) {
    for (Index d = lane * N; d < head_dim; d += lanes * N) {
      const Floats<N> x = load<N>(a + row * head_dim + d), y = load<N>(b + row * head_dim + d);
#pragma unroll
      for (int k = 0; k < N; ++k) sum += x[k] * y[k];
    }
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(all_lanes, sum, distance);
  if (row >= rows || lane != 0) return;
  const Index head = row % heads, t = row / heads % seq, batch = row / heads / seq;
  delta[(batch * heads + head) * seq + t] = sum;
}

/// y[kv, t, d] = Σ over the group of each[kv · group + member, t, d], the members in their order.
template <class T>
struct GroupSumsOp {
  const float* each;
  T* y;
  Index seq, head_dim, group, ld;
  template <int N>
  __device__ void at(Index i) const {
    const Index matrix = seq * head_dim, kv = i / matrix, in_matrix = i - kv * matrix, t = in_matrix / head_dim;
    const float* from = each + kv * group * matrix + in_matrix;
    Floats<N> sums = load<N>(from);
    for (Index member = 1; member < group; ++member) {
      const Floats<N> values = load<N>(from += matrix);
#pragma unroll
      for (int k = 0; k < N; ++k) sums[k] += values[k];
    }
    store(y + t * ld + kv * head_dim + (in_matrix - t * head_dim), sums);
  }
};

int threads_for(Index packs) { return std::min(round_to_warps(packs), most_threads); }

}  // namespace

void attention_softmax(cudaStream_t stream, DType dtype, const float* scores, Index matrices, Index seq, bool causal,
                       float scale, void* p, float* log_sum_exp) {
  with_packs(dtype, seq, {scores, p}, [&]<class T, int N>() {
    const int threads = threads_for(seq / N);
    launch<attention_softmax_kernel<T, N>>(static_cast<unsigned>(matrices * seq), threads,
                                           static_cast<std::size_t>(threads / warp_size) * sizeof(Part), stream, scores,
                                           Scores{seq, causal, scale}, static_cast<T*>(p), log_sum_exp);
  });
}

void attention_gradient(cudaStream_t stream, DType dtype, const float* scores, const float* dp, Index matrices,
                        Index seq, bool causal, float scale, const float* log_sum_exp, const float* delta, void* p,
                        void* ds) {
  with_packs(dtype, seq, {scores, dp, p, ds}, [&]<class T, int N>() {
    launch<attention_gradient_kernel<T, N>>(static_cast<unsigned>(matrices * seq), threads_for(seq / N), 0, stream,
                                            scores, dp, Scores{seq, causal, scale}, log_sum_exp, delta,
                                            static_cast<T*>(p), static_cast<T*>(ds));
  });
}

void attention_delta(cudaStream_t stream, DType dtype, const void* a, const void* b, Index batch, Index seq,
                     Index heads, Index head_dim, float* delta) {
  with_packs(dtype, head_dim, {a, b}, [&]<class T, int N>() {
    const Index rows = batch * seq * heads;
    const int lanes = static_cast<int>(std::min<Index>(power_of_two_from(head_dim / N), warp_size));
    launch<attention_delta_kernel<T, N>>(static_cast<unsigned>(ceil_div(rows * lanes, most_threads)), most_threads, 0,
                                         stream, static_cast<const T*>(a), static_cast<const T*>(b), rows, seq, heads,
                                         head_dim, lanes, delta);
  });
}

void attention_group_sums(cudaStream_t stream, DType dtype, const float* each, Index seq, Index kv_heads, Index group,
                          Index head_dim, void* y, Index ld) {
  with_packs(dtype, head_dim, {each, y}, [&]<class T, int N>() {
    map<N>(stream, GroupSumsOp<T>{each, static_cast<T*>(y), seq, head_dim, group, ld}, kv_heads * seq * head_dim, true);
  });
}

}  // namespace tw::models::cuda
