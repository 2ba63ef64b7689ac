// Embedding bags, interaction of features, binary cross-entropy. The update of a table sorts the occurrences by row and
// sums the gradients of each row. A block computes the interaction of one sample, whose features lie in shared memory.
#include <string>

#include "models/compute/cuda/kernels/run_sums.cuh"
#include "models/compute/error.hpp"

namespace tw::models::cuda {
namespace {

constexpr int most_threads =
    occupancy::common_threads({occupancy::embedding_bag_forward_kernel, occupancy::interaction_forward_kernel,
                               occupancy::interaction_backward_kernel});

template <class T>
struct Bags {
  const float* rows;
  const std::int32_t *tables, *indices;
  T* y;
  unsigned bags, slots;
  Index hot, width;
};

/// A team for each bag.
template <class T, int N>
__global__ void __launch_bounds__(most_threads) embedding_bag_forward_kernel(Bags<T> a, Teams t) {
  const InTeam me(t);
  const unsigned number = blockIdx.x * t.teams + me.team;
  if (me.idle || number >= a.bags) return;
  const Index bag = number, slot = number % a.slots, first = a.tables[2 * slot];
  const Index hot = a.tables[2 * slot + 1] > 0 ? a.hot : 0;
  for (Index column = static_cast<Index>(me.lane) * N; column < a.width; column += t.lanes * N) {
    Floats<N> sum{};
    for (Index h = 0; h < hot; ++h) {
      const Floats<N> row = load<N>(a.rows + (first + a.indices[bag * a.hot + h]) * a.width + column);
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] += row[k];
    }
    store(a.y + bag * a.width + column, sum);
  }
}

/// The row of each occurrence, `none` in empty slots, and its bag.
struct OccurrenceOp {
  const std::int32_t *tables, *indices;
  std::uint32_t* keys;
  std::int32_t* bags;
  Index slots, hot;
  std::uint32_t none;
  template <int N>
  __device__ void at(Index i) const {
    for (Index k = i; k < i + N; ++k) {
      const Index bag = k / hot, slot = bag % slots;
      keys[k] = tables[2 * slot + 1] > 0 ? static_cast<std::uint32_t>(tables[2 * slot] + indices[k]) : none;
      bags[k] = static_cast<std::int32_t>(bag);
    }
  }
};

/// Of sum_runs(): a step of SGD by what a row's gradients add up to.
struct UpdateRow {
  float* rows;
  const StepScalars* scalars;
  Index width;
  std::uint32_t none;
  __device__ bool takes(std::uint32_t row) const { return row != none && scalars->found_non_finite == 0; }
  template <int N>
  __device__ void add(std::uint32_t row, Index column, const Floats<N>& sum) const {
    const StepScalars& step = *scalars;
    const float factor = step.learning_rate * (step.gradient_scale * step.clip_factor / step.loss_scale);
    float* values = rows + row * width + column;
    Floats<N> row_values = load<N>(values);
#pragma unroll
    for (int k = 0; k < N; ++k) row_values[k] -= factor * sum[k];
    store(values, row_values);
  }
};

constexpr std::size_t scratch_alignment = 256;
constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
}

/// Keys and bags, both also sorted, and what the sort needs and then the sums.
struct Scratch {
  Index count;
  int bits;
  std::size_t array, sort, runs;
  explicit Scratch(const EmbeddingBagUpdate& args)
      : count(args.indices.count()),
        bits(static_cast<int>(std::bit_width(static_cast<std::uint64_t>(args.rows.dims[0])))),
        array(padded(static_cast<std::size_t>(count) * sizeof(std::int32_t))),
        sort(sort_pairs_scratch(count, bits)),
        runs(run_sums_scratch(count, args.dy.dims[2])) {}
  std::size_t bytes() const { return 4 * array + std::max(sort, runs); }
};

template <class T>
struct Interaction {
  const T *dense, *bags;
  const std::int32_t* places;
  Index batch, slots, width, features;
  __device__ Index bag(Index i, Index feature) const {
    const Index shard = places[feature] / slots, slot = places[feature] % slots;
    return ((shard * batch + i) * slots + slot) * width;
  }
  /// Rows of shared memory are one longer than a feature, so that a column lies in different banks.
  __device__ Index stride() const { return width + 1; }
  /// The features of sample i, (features + 1, stride).
  __device__ void load_features(Index i, float* z) const {
    for (Index k = threadIdx.x; k < (features + 1) * width; k += blockDim.x) {
      const Index feature = k / width, column = k % width;
      const T value = feature == 0 ? dense[i * width + column] : bags[bag(i, feature - 1) + column];
      z[feature * stride() + column] = to_float(value);
    }
  }
};

/// The pair (a, b), b < a, of place `pair` in the lower triangle without its diagonal.
struct PairOf {
  int a, b;
  __device__ explicit PairOf(int pair) : a(1), b(pair) {
    while (b >= a) b -= a++;
  }
};

/// A block for each sample, a thread for each dot product.
template <class T>
__global__ void __launch_bounds__(most_threads) interaction_forward_kernel(Interaction<T> a, T* y) {
  float* z = dynamic_shared<float>();
  const Index i = blockIdx.x, pairs = a.features * (a.features + 1) / 2;
  a.load_features(i, z);
  __syncthreads();
  T* out = y + i * (a.width + pairs);
  for (Index column = threadIdx.x; column < a.width; column += blockDim.x) out[column] = from_float<T>(z[column]);
  for (Index pair = threadIdx.x; pair < pairs; pair += blockDim.x) {
    const PairOf of(static_cast<int>(pair));
    const float *left = z + of.a * a.stride(), *right = z + of.b * a.stride();
    float dot = 0;
    for (Index column = 0; column < a.width; ++column) dot += left[column] * right[column];
    out[a.width + pair] = from_float<T>(dot);
  }
}

/// A block for each sample, a thread for each column of each feature.
template <class T>
__global__ void __launch_bounds__(most_threads)
    interaction_backward_kernel(Interaction<T> a, const T* dy, T* d_dense, T* d_bags) {
  float* z = dynamic_shared<float>();
  const Index i = blockIdx.x, pairs = a.features * (a.features + 1) / 2;
  float* d_pairs = z + (a.features + 1) * a.stride();
  const T* of_sample = dy + i * (a.width + pairs);
  a.load_features(i, z);
  for (Index pair = threadIdx.x; pair < pairs; pair += blockDim.x) d_pairs[pair] = to_float(of_sample[a.width + pair]);
  __syncthreads();
  bool overflows = false;  // a value of d_bags, as stored
  for (Index k = threadIdx.x; k < (a.features + 1) * a.width; k += blockDim.x) {
    const Index feature = k / a.width, column = k % a.width;
    float sum = feature == 0 ? to_float(of_sample[column]) : 0.0f;
    for (Index other = 0; other <= a.features; ++other) {
      if (other == feature) continue;
      const Index high = other > feature ? other : feature, low = other > feature ? feature : other;
      sum += d_pairs[high * (high - 1) / 2 + low] * z[other * a.stride() + column];
    }
    const T stored = from_float<T>(sum);
    if (feature == 0) {
      d_dense[i * a.width + column] = stored;
    } else {
      d_bags[a.bag(i, feature - 1) + column] = stored;
      overflows = overflows || to_float(stored) - to_float(stored) != 0.0f;  // inf − inf and NaN − NaN are NaN
    }
  }
  __syncthreads();  // d_dense of the sample is written
  if (!overflows) return;
  for (Index column = 0; column < a.width; ++column) d_dense[i * a.width + column] = from_float<T>(NAN);
}

template <class T, class Args>
Interaction<T> interaction(const Args& args) {
  return {args.dense.template as<T>(), args.bags.template as<T>(), args.places.template as<std::int32_t>(),
          args.dense.dims[0],          args.bags.dims[2],          args.dense.dims[1],
          args.places.dims[0]};
}

/// Of the features of a sample and `more` values. Throws Error{unsupported} beyond what every GPU has.
std::size_t shared_bytes(Index features, Index width, Index more) {
  constexpr auto most = static_cast<Index>(occupancy::interaction_backward_kernel.shared_bytes);
  const Index bytes = ((features + 1) * (width + 1) + more) * static_cast<Index>(sizeof(float));
  if (bytes > most)
    throw Error(Failure::unsupported, "device cuda: interaction: " + std::to_string(features + 1) +
                                          " features of width " + std::to_string(width) + " take " +
                                          std::to_string(bytes) + " bytes of shared memory, " + std::to_string(most) +
                                          " are there; use fewer tables or a smaller width");
  return static_cast<std::size_t>(bytes);
}

template <class T>
struct CrossEntropyOp {
  const T* logits;
  const std::int32_t* targets;
  T* d_logits;
  float* row_loss;
  std::int32_t* row_correct;
  float rows;
  const StepScalars* scalars;
  template <int N>
  __device__ void at(Index i) const {
    const float scale = scalars != nullptr ? scalars->loss_scale : 1.0f;
    for (Index k = i; k < i + N; ++k) {
      const float z = to_float(logits[k]), target = static_cast<float>(targets[k]);
      row_loss[k] = formula::binary_cross_entropy(z, target);
      row_correct[k] = (z > 0.0f) == (targets[k] == 1) ? 1 : 0;
      if (d_logits != nullptr) d_logits[k] = from_float<T>((formula::sigmoid(z) - target) / rows * scale);
    }
  }
};

}  // namespace

void embedding_bag_forward(cudaStream_t stream, const EmbeddingBagForward& args) {
  const Index width = args.y.dims[2];
  with_packs(args.y.dtype, width, {args.rows.data, args.y.data}, [&]<class T, int N>() {
    const auto bags = static_cast<unsigned>(args.y.dims[0] * args.y.dims[1]);  // the update numbers them in int32
    const Bags<T> a{args.rows.as<float>(),
                    args.tables.as<std::int32_t>(),
                    args.indices.as<std::int32_t>(),
                    args.y.as<T>(),
                    bags,
                    static_cast<unsigned>(args.tables.dims[0]),
                    args.indices.dims[2],
                    width};
    const Teams teams(width / N, most_threads, most_threads, bags);
    launch<embedding_bag_forward_kernel<T, N>>(teams.blocks(bags), teams.threads(), 0, stream, a, teams);
  });
}

std::size_t scratch_bytes(const EmbeddingBagUpdate& args) { return Scratch(args).bytes(); }

void embedding_bag_update(cudaStream_t stream, const EmbeddingBagUpdate& args, void* scratch_data) {
  const Scratch scratch(args);
  char* memory = static_cast<char*>(scratch_data);
  auto* keys = reinterpret_cast<std::uint32_t*>(memory);
  auto* bags = reinterpret_cast<std::int32_t*>(memory + scratch.array);
  auto* sorted_keys = reinterpret_cast<std::uint32_t*>(memory + 2 * scratch.array);
  auto* sorted_bags = reinterpret_cast<std::int32_t*>(memory + 3 * scratch.array);
  void* behind = memory + 4 * scratch.array;
  const auto none = static_cast<std::uint32_t>(args.rows.dims[0]);
  const Index slots = args.tables.dims[0], hot = args.indices.dims[2], width = args.dy.dims[2];
  map<1>(stream,
         OccurrenceOp{args.tables.as<std::int32_t>(), args.indices.as<std::int32_t>(), keys, bags, slots, hot, none},
         scratch.count, true);
  sort_pairs(stream, keys, bags, scratch.count, scratch.bits, sorted_keys, sorted_bags, behind);
  with_packs(args.dy.dtype, width, {args.dy.data, args.rows.data}, [&]<class T, int N>() {
    sum_runs<T, N>(stream, sorted_keys, sorted_bags, scratch.count, args.dy.as<T>(), width,
                   UpdateRow{args.rows.as<float>(), args.scalars, width, none}, behind);
  });
}

void interaction_forward(cudaStream_t stream, const InteractionForward& args) {
  with_type(args.y.dtype, [&]<class T>(T*) {
    const Interaction<T> a = interaction<T>(args);
    launch<interaction_forward_kernel<T>>(static_cast<unsigned>(a.batch), most_threads,
                                          shared_bytes(a.features, a.width, 0), stream, a, args.y.as<T>());
  });
}

void interaction_backward(cudaStream_t stream, const InteractionBackward& args) {
  with_type(args.dy.dtype, [&]<class T>(T*) {
    const Interaction<T> a = interaction<T>(args);
    launch<interaction_backward_kernel<T>>(static_cast<unsigned>(a.batch), most_threads,
                                           shared_bytes(a.features, a.width, a.features * (a.features + 1) / 2), stream,
                                           a, args.dy.as<T>(), args.d_dense.as<T>(), args.d_bags.as<T>());
  });
}

std::size_t scratch_bytes(const BinaryCrossEntropy& args) {
  return 2 * padded(static_cast<std::size_t>(args.logits.count()) * sizeof(float));
}

void binary_cross_entropy(cudaStream_t stream, const BinaryCrossEntropy& args, void* scratch) {
  const Index rows = args.logits.count();
  auto* row_loss = static_cast<float*>(scratch);
  auto* row_correct = reinterpret_cast<std::int32_t*>(static_cast<char*>(scratch) + scratch_bytes(args) / 2);
  with_type(args.logits.dtype, [&]<class T>(T*) {
    map<1>(stream,
           CrossEntropyOp<T>{args.logits.as<T>(), args.targets.as<std::int32_t>(), args.d_logits.as<T>(), row_loss,
                             row_correct, static_cast<float>(rows), args.scalars},
           rows, true);
  });
  classifier_totals(stream, row_loss, row_correct, rows, 1.0f, args.loss.as<float>(), args.correct.as<std::int32_t>());
}

}  // namespace tw::models::cuda
