// Rows of the output head: softmax and cross-entropy of a row of logits, whose gradient takes their place. A block for
// each row; its second pass finds the row in the cache.
#include "models/compute/cuda/kernels/support.cuh"

namespace tw::cuda {
namespace {

template <class T>
struct Rows {
  T* logits;
  const T* bias;
  const std::int32_t* targets;
  Index classes, ld;
  float on_target, everywhere;  // the target distribution: 1 − ε more at the target than ε / classes everywhere
  bool backward;
  float gradient_factor;
  const StepScalars* scalars;
  float* row_loss;
  std::int32_t* row_correct;
};

/// Of part of a row. The maximum of nothing is the lowest finite number, so that no difference of two of them is NaN.
struct Part {
  float top;    // greatest logit
  Index where;  // the first pack that has it
  float sum;    // Σ exp(logit − top)
  float total;  // Σ logit
};
constexpr float lowest = -3.402823466e38f;

__device__ inline Part merged(const Part& a, const Part& b) {
  const bool second = b.top > a.top || (b.top == a.top && b.where < a.where);
  const float top = second ? b.top : a.top;
  return {top, second ? b.where : a.where,
          a.sum * formula::exponential(a.top - top) + b.sum * formula::exponential(b.top - top), a.total + b.total};
}

__device__ inline Part from_lane(const Part& part, int bits) {
  return {__shfl_xor_sync(all_lanes, part.top, bits), __shfl_xor_sync(all_lanes, part.where, bits),
          __shfl_xor_sync(all_lanes, part.sum, bits), __shfl_xor_sync(all_lanes, part.total, bits)};
}

/// Of the whole row, by a tree of fixed shape; each thread gets the same.
__device__ inline Part over_block(Part part, Part* scratch /* warps */) {
#pragma unroll
  for (int bits = warp_size / 2; bits > 0; bits /= 2) {
    const Part other = from_lane(part, bits);
    part = threadIdx.x & bits ? merged(other, part) : merged(part, other);
  }
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  if (threadIdx.x % warp_size == 0) scratch[threadIdx.x / warp_size] = part;
  __syncthreads();
  part = scratch[0];
  for (int warp = 1; warp < warps; ++warp) part = merged(part, scratch[warp]);
  return part;
}

/// N logits from column on, with the bias; those behind the last class are the lowest number.
template <int N, class T>
__device__ inline Floats<N> read_logits(const Rows<T>& a, const T* row, Index column) {
  Floats<N> logits = load<N>(row + column);
  if (a.bias != nullptr) {
    const Floats<N> bias = load_some<N>(a.bias + column, a.classes - column);
#pragma unroll
    for (int k = 0; k < N; ++k) logits[k] += bias[k];
  }
#pragma unroll
  for (int k = 0; k < N; ++k) logits[k] = column + k < a.classes ? logits[k] : lowest;
  return logits;
}

template <class T, int N>
__global__ void __launch_bounds__(1024) classifier_rows_kernel(Rows<T> a) {
  const Index row = blockIdx.x, target = a.targets[row], step = blockDim.x * N;
  T* logits = a.logits + row * a.ld;
  Part part{lowest, a.ld, 0, 0};
  for (Index column = threadIdx.x * N; column < a.classes; column += step) {
    const Floats<N> values = read_logits<N>(a, logits, column);
    float top = values[0];
#pragma unroll
    for (int k = 1; k < N; ++k) top = values[k] > top ? values[k] : top;
    if (top > part.top) {
      part.sum *= formula::exponential(part.top - top);
      part.top = top;
      part.where = column;
    }
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const bool here = column + k < a.classes;
      part.sum += here ? formula::exponential(values[k] - part.top) : 0.0f;
      part.total += here ? values[k] : 0.0f;
    }
  }
  part = over_block(part, dynamic_shared<Part>());
  if (threadIdx.x == 0) {
    // What gradients have not taken the place of yet: other threads wait for this one.
    const float at_target = to_float(logits[target]) + (a.bias != nullptr ? to_float(a.bias[target]) : 0.0f);
    const float log_sum = ::logf(part.sum), classes = static_cast<float>(a.classes);  // log_sum: above the top
    a.row_loss[row] = a.on_target * (part.top - at_target + log_sum) +
                      a.everywhere * (classes * part.top - part.total + classes * log_sum);
    Index first = part.where;  // within the first pack that has the maximum
    const auto logit = [&](Index i) { return to_float(logits[i]) + (a.bias != nullptr ? to_float(a.bias[i]) : 0.0f); };
    while (first + 1 < a.classes && first < part.where + N - 1 && logit(first) != part.top) ++first;
    a.row_correct[row] = first == target ? 1 : 0;
  }
  if (!a.backward) return;
  __syncthreads();
  const float factor = 1.0f / part.sum;
  const float scale = a.scalars != nullptr ? a.gradient_factor * a.scalars->loss_scale : a.gradient_factor;
  for (Index column = threadIdx.x * N; column < a.ld; column += step) {
    Floats<N> values{};
    if (column < a.classes) {
      values = read_logits<N>(a, logits, column);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float wanted = column + k == target ? a.everywhere + a.on_target : a.everywhere;
        const float probability = formula::exponential(values[k] - part.top) * factor;
        values[k] = column + k < a.classes ? (probability - wanted) * scale : 0.0f;
      }
    }
    store(logits + column, values);
  }
}

constexpr int total_threads = 1024;

__global__ void __launch_bounds__(total_threads)
    classifier_totals_kernel(const float* row_loss, const std::int32_t* row_correct, Index rows, float* loss,
                             std::int32_t* correct) {
  double sums[2] = {0, 0};  // counts are exact in float64
  for (Index row = threadIdx.x; row < rows; row += blockDim.x) {
    sums[0] += static_cast<double>(row_loss[row]);
    if (correct != nullptr) sums[1] += static_cast<double>(row_correct[row]);
  }
  block_sum(sums, dynamic_shared<double>());
  if (threadIdx.x != 0) return;
  *loss = static_cast<float>(sums[0] / static_cast<double>(rows));
  if (correct != nullptr) *correct = static_cast<std::int32_t>(sums[1]);
}

template <class T, int N>
void launch_rows(cudaStream_t stream, const ClassifierRows& args) {
  const float smoothing = args.label_smoothing;
  const Rows<T> a{static_cast<T*>(args.logits),
                  static_cast<const T*>(args.bias),
                  args.targets,
                  args.classes,
                  args.ld,
                  1 - smoothing,
                  smoothing / static_cast<float>(args.classes),
                  args.backward,
                  args.gradient_factor,
                  args.scalars,
                  args.row_loss,
                  args.row_correct};
  const int threads = static_cast<int>(std::clamp<Index>(round_to_warps(ceil_div(args.classes, N * 4)), 32, 1024));
  launch<classifier_rows_kernel<T, N>>(static_cast<unsigned>(args.rows), threads,
                                       static_cast<std::size_t>(threads / warp_size) * sizeof(Part), stream, a);
}

}  // namespace

void classifier_rows(cudaStream_t stream, const ClassifierRows& args) {
  with_type(args.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    constexpr int n = width_of<T>;
    if (args.ld % n == 0 && aligned(args.logits) && aligned(args.bias)) {
      launch_rows<T, n>(stream, args);
    } else {
      launch_rows<T, 1>(stream, args);
    }
  });
}

void classifier_totals(cudaStream_t stream, const float* row_loss, const std::int32_t* row_correct, Index rows,
                       float* loss, std::int32_t* correct) {
  const int threads = static_cast<int>(std::clamp<Index>(round_to_warps(rows), 32, total_threads));
  launch<classifier_totals_kernel>(1, threads, 2 * static_cast<std::size_t>(threads / warp_size) * sizeof(double),
                                   stream, row_loss, row_correct, rows, loss, correct);
}

}  // namespace tw::cuda
