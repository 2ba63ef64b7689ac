// Rows of the output head: softmax and cross-entropy of a row of logits, whose gradient takes their place. A block for
// each row; its second pass finds the row in the cache.
#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {
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

/// What a thread has seen of its row. The maximum of nothing is the lowest finite number, so that no difference of two
/// of them is NaN.
struct Part {
  float top;    // greatest logit; no NaN, which the sum keeps
  int where;    // the first pack that has it
  float sum;    // Σ exp(logit − top)
  float total;  // Σ logit
};
constexpr float lowest = -3.402823466e38f, minus_infinity = -__builtin_huge_valf();

/// `packs` packs of logits from column on, `step` columns from each other, with the bias; `bounded`: those behind the
/// last class are −∞, else all are there. All loads stand before the first use.
template <int packs, bool bounded, int N, class T>
__device__ inline void read_logits(const Rows<T>& a, const T* row, int column, int step, Floats<N> (&logits)[packs]) {
  Pack<T, N> stored[packs];
#pragma unroll
  for (int p = 0; p < packs; ++p) stored[p] = load_pack<N>(row + column + p * step);
  if (a.bias == nullptr) {
#pragma unroll
    for (int p = 0; p < packs; ++p) logits[p] = to_floats(stored[p]);
  } else {
#pragma unroll
    for (int p = 0; p < packs; ++p) {
      const T* const from = a.bias + column + p * step;
      const Floats<N> bias = bounded ? load_some<N>(from, a.classes - column) : load<N>(from);
      logits[p] = to_floats(stored[p]);
#pragma unroll
      for (int k = 0; k < N; ++k) logits[p][k] += bias[k];
    }
  }
  if constexpr (bounded) {
    static_assert(packs == 1);
#pragma unroll
    for (int k = 0; k < N; ++k) logits[0][k] = column + k < a.classes ? logits[0][k] : minus_infinity;
  }
}

/// Several packs at once: one look at the maximum, and their loads together.
template <int packs, bool bounded, int N, class T>
__device__ inline void add_packs(const Rows<T>& a, const T* row, int column, int step, Part& part) {
  Floats<N> values[packs];
  read_logits<packs, bounded>(a, row, column, step, values);
  float tops[packs], top = lowest;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    tops[p] = values[p][0];
#pragma unroll
    for (int k = 1; k < N; ++k) tops[p] = ::fmaxf(tops[p], values[p][k]);
    top = ::fmaxf(top, tops[p]);
  }
  if (top > part.top) {
    part.sum *= exponential_below_one(part.top - top);
    part.top = top;
#pragma unroll
    for (int p = packs - 1; p >= 0; --p) part.where = tops[p] == top ? column + p * step : part.where;
  }
#pragma unroll
  for (int p = 0; p < packs; ++p) {
#pragma unroll
    for (int k = 0; k < N; ++k) part.sum += exponential_below_one(values[p][k] - part.top);
  }
  if (a.everywhere == 0) return;
#pragma unroll
  for (int p = 0; p < packs; ++p) {
#pragma unroll
    for (int k = 0; k < N; ++k) part.total += !bounded || column + k < a.classes ? values[p][k] : 0.0f;
  }
}

/// Gradients in the place of packs of logits as if none were the target's; zero behind the last class.
template <int packs, bool bounded, int N, class T>
__device__ inline void write_gradients(const Rows<T>& a, T* row, int column, int step, float top, float factor,
                                       float offset) {
  Floats<N> values[packs];
  read_logits<packs, bounded>(a, row, column, step, values);
#pragma unroll
  for (int p = 0; p < packs; ++p) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float gradient = exponential_below_one(values[p][k] - top) * factor - offset;
      values[p][k] = !bounded || column + k < a.classes ? gradient : 0.0f;
    }
    store(row + column + p * step, values[p]);
  }
}

constexpr int row_threads = occupancy::classifier_rows_kernel.threads;

template <class T, int N>
__global__ void __launch_bounds__(row_threads, occupancy::classifier_rows_kernel.blocks)
    classifier_rows_kernel(Rows<T> a) {
  const int target = a.targets[blockIdx.x], step = static_cast<int>(blockDim.x) * N;
  const int first = static_cast<int>(threadIdx.x) * N, none = static_cast<int>(a.ld);
  const int classes = static_cast<int>(a.classes), whole = classes / N * N;
  T* row = a.logits + blockIdx.x * a.ld;
  const float at_target = to_float(row[target]) + (a.bias != nullptr ? to_float(a.bias[target]) : 0.0f);
  Part part{lowest, none, 0, 0};
  int column = first;
  for (; column + step < whole; column += 2 * step) add_packs<2, false, N>(a, row, column, step, part);
  if (column < whole) {
    add_packs<1, false, N>(a, row, column, step, part);
    column += step;
  }
  if (N > 1 && column < classes) add_packs<1, true, N>(a, row, column, step, part);

  float* scratch = dynamic_shared<float>();
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  float tops[1] = {part.top};
  block_combine(tops, scratch, [](float x, float y) { return ::fmaxf(x, y); });
  const float top = tops[0];
  float sums[2] = {part.sum * exponential_below_one(part.top - top), part.total};
  block_sum(sums, scratch + warps);
  int where[1] = {part.top == top ? part.where : none};
  block_combine(where, reinterpret_cast<int*>(scratch + 3 * warps), [](int x, int y) { return x < y ? x : y; });
  if (threadIdx.x == 0) {
    const float log_sum = ::logf(sums[0]), count = static_cast<float>(classes);  // log_sum: above the top
    a.row_loss[blockIdx.x] =
        a.on_target * (top - at_target + log_sum) + a.everywhere * (count * top - sums[1] + count * log_sum);
    if (where[0] == none) a.row_correct[blockIdx.x] = 0;  // nothing but NaN
  }
  if (part.where == where[0] && where[0] != none) {  // this thread's own pack: its gradients stand there only later
    Floats<N> values[1];
    read_logits<1, true>(a, row, part.where, step, values);
    int at = N;
#pragma unroll
    for (int k = N - 1; k >= 0; --k) at = values[0][k] == top ? k : at;
    a.row_correct[blockIdx.x] = part.where + at == target ? 1 : 0;
  }
  if (!a.backward) return;

  const float scale = a.scalars != nullptr ? a.gradient_factor * a.scalars->loss_scale : a.gradient_factor;
  const float factor = 1.0f / sums[0] * scale, offset = a.everywhere * scale;
  column = first;
  for (; column + step < whole; column += 2 * step)
    write_gradients<2, false, N>(a, row, column, step, top, factor, offset);
  if (column < whole) {
    write_gradients<1, false, N>(a, row, column, step, top, factor, offset);
    column += step;
  }
  for (; column < a.ld; column += step) write_gradients<1, true, N>(a, row, column, step, top, factor, offset);
  // The thread that has written the target's pack; all others only read `at_target`, before the barriers.
  if (target / N % static_cast<int>(blockDim.x) == static_cast<int>(threadIdx.x)) {
    const float wanted = (a.everywhere + a.on_target) * scale;
    row[target] = from_float<T>(exponential_below_one(at_target - top) * factor - wanted);
  }
}

constexpr int total_threads = occupancy::classifier_totals_kernel.threads;

__global__ void __launch_bounds__(total_threads)
    classifier_totals_kernel(const float* row_loss, const std::int32_t* row_correct, Index rows, float weight,
                             float* loss, std::int32_t* correct) {
  double sums[2] = {0, 0};  // counts are exact in float64
  for (Index row = threadIdx.x; row < rows; row += blockDim.x) {
    sums[0] += static_cast<double>(row_loss[row]);
    if (correct != nullptr) sums[1] += static_cast<double>(row_correct[row]);
  }
  block_sum(sums, dynamic_shared<double>());
  if (threadIdx.x != 0) return;
  *loss = static_cast<float>(sums[0] / static_cast<double>(rows) * static_cast<double>(weight));
  if (correct != nullptr) *correct = static_cast<std::int32_t>(sums[1]);
}

}  // namespace

void classifier_rows(cudaStream_t stream, const ClassifierRows& args) {
  with_packs(args.dtype, args.ld, {args.logits, args.bias}, [&]<class T, int N>() {
    const Rows<T> a{static_cast<T*>(args.logits),
                    static_cast<const T*>(args.bias),
                    args.targets,
                    args.classes,
                    args.ld,
                    1 - args.label_smoothing,
                    args.label_smoothing / static_cast<float>(args.classes),
                    args.backward,
                    args.gradient_factor,
                    args.scalars,
                    args.row_loss,
                    args.row_correct};
    const int threads =
        static_cast<int>(std::clamp<Index>(round_to_warps(ceil_div(args.classes, N * 4)), warp_size, row_threads));
    const std::size_t shared_bytes = 4 * static_cast<std::size_t>(threads / warp_size) * sizeof(float);
    launch<classifier_rows_kernel<T, N>>(static_cast<unsigned>(args.rows), threads, shared_bytes, stream, a);
  });
}

void classifier_totals(cudaStream_t stream, const float* row_loss, const std::int32_t* row_correct, Index rows,
                       float weight, float* loss, std::int32_t* correct) {
  const int threads = static_cast<int>(std::clamp<Index>(round_to_warps(rows), 32, total_threads));
  launch<classifier_totals_kernel>(1, threads, 2 * static_cast<std::size_t>(threads / warp_size) * sizeof(double),
                                   stream, row_loss, row_correct, rows, weight, loss, correct);
}

}  // namespace tw::models::cuda
