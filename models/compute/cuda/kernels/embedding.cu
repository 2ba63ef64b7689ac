// Embedding: a gather forward; backward the positions are sorted by token, so that each token's row is summed by one
// block in order of position.
#include "models/compute/cuda/kernels/columns.cuh"
#include "models/compute/cuda/kernels/kernels.hpp"

namespace tw::models::cuda {
namespace {

constexpr int most_threads =
    occupancy::common_threads({occupancy::embedding_forward_kernel, occupancy::embedding_backward_kernel});

int threads_for(Index packs) { return std::min(round_to_warps(packs), most_threads); }

template <class T>
struct Forward {
  const std::int32_t* tokens;
  const T *token_table, *position_table;
  T* y;
  Index seq, width;
};

/// A block for each position.
template <class T, int N>
__global__ void __launch_bounds__(most_threads) embedding_forward_kernel(Forward<T> a) {
  const Index row = blockIdx.x, token = a.tokens[row] * a.width, position = row % a.seq * a.width;
  for (Index column = threadIdx.x * N; column < a.width; column += blockDim.x * N) {
    Floats<N> y = load<N>(a.token_table + token + column);
    if (a.position_table != nullptr) {
      const Floats<N> other = load<N>(a.position_table + position + column);
#pragma unroll
      for (int k = 0; k < N; ++k) y[k] += other[k];
    }
    store(a.y + row * a.width + column, y);
  }
}

struct CountOp {
  std::int32_t* y;
  template <int N>
  __device__ void at(Index i) const {
    for (int k = 0; k < N; ++k) y[i + k] = static_cast<std::int32_t>(i + k);
  }
};

struct ZeroOp {
  float* y;
  template <int N>
  __device__ void at(Index i) const {
    store(y + i, Floats<N>{});
  }
};

template <class T>
struct Backward {
  const std::uint32_t* tokens;    // sorted
  const std::int32_t* positions;  // in that order
  const T* dy;
  float* d_token_table;
  Index count, width;
};

/// A block for each place in the sorted order; only those where a token begins have work.
template <class T, int N>
__global__ void __launch_bounds__(most_threads) embedding_backward_kernel(Backward<T> a) {
  const Index first = blockIdx.x;
  const std::uint32_t token = a.tokens[first];
  if (first > 0 && a.tokens[first - 1] == token) return;
  constexpr int ahead = 4;  // rows on their way before the first is added
  for (Index column = threadIdx.x * N; column < a.width; column += blockDim.x * N) {
    float* total = a.d_token_table + token * a.width + column;
    Floats<N> sum = load<N>(total);
    Index i = first;
    for (; i + ahead <= a.count && a.tokens[i + ahead - 1] == token; i += ahead) {
      Pack<T, N> rows[ahead];
#pragma unroll
      for (int r = 0; r < ahead; ++r) rows[r] = load_pack<N>(a.dy + a.positions[i + r] * a.width + column);
#pragma unroll
      for (int r = 0; r < ahead; ++r) {
        const Floats<N> row = to_floats(rows[r]);
#pragma unroll
        for (int k = 0; k < N; ++k) sum[k] += row[k];
      }
    }
    for (; i < a.count && a.tokens[i] == token; ++i) {
      const Floats<N> row = load<N>(a.dy + a.positions[i] * a.width + column);
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] += row[k];
    }
    store(total, sum);
  }
}

constexpr std::size_t scratch_alignment = 256;
constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
}

/// Positions, tokens and positions in their sorted order, and what the sort needs; the sums of the position table use
/// the same memory afterwards.
struct Scratch {
  Index count;
  int bits;
  std::size_t array, sort, columns;
  explicit Scratch(const EmbeddingBackward& args)
      : count(args.tokens.count()),
        bits(std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(args.d_token_table.dims[0] - 1))))),
        array(padded(static_cast<std::size_t>(count) * sizeof(std::int32_t))),
        sort(sort_pairs_scratch(count, bits)),
        columns(args.d_position_table ? column_sums_scratch(args.dy.dims[0], args.dy.dims[1] * args.dy.dims[2]) : 0) {}
  std::size_t bytes() const { return std::max(3 * array + sort, columns); }
};

}  // namespace

void embedding_forward(cudaStream_t stream, const EmbeddingForward& args) {
  const Index width = args.token_table.dims[1];
  with_packs(args.y.dtype, width, {args.token_table.data, args.position_table.data, args.y.data},
             [&]<class T, int N>() {
               const Forward<T> a{args.tokens.as<std::int32_t>(),
                                  args.token_table.as<T>(),
                                  args.position_table.as<T>(),
                                  args.y.as<T>(),
                                  args.tokens.dims[1],
                                  width};
               launch<embedding_forward_kernel<T, N>>(static_cast<unsigned>(args.tokens.count()),
                                                      threads_for(width / N), 0, stream, a);
             });
}

std::size_t scratch_bytes(const EmbeddingBackward& args) { return Scratch(args).bytes(); }

void embedding_backward(cudaStream_t stream, const EmbeddingBackward& args, void* scratch_data) {
  const Scratch scratch(args);
  char* memory = static_cast<char*>(scratch_data);
  auto* positions = reinterpret_cast<std::int32_t*>(memory);
  auto* sorted_tokens = reinterpret_cast<std::uint32_t*>(memory + scratch.array);
  auto* sorted_positions = reinterpret_cast<std::int32_t*>(memory + 2 * scratch.array);
  map<width_of<float>>(stream, CountOp{positions}, scratch.count, true);
  sort_pairs(stream, args.tokens.as<std::uint32_t>(), positions, scratch.count, scratch.bits, sorted_tokens,
             sorted_positions, memory + 3 * scratch.array);
  const Index batch = args.dy.dims[0], seq = args.dy.dims[1], width = args.dy.dims[2];
  with_packs(args.dy.dtype, width, {args.dy.data, args.d_token_table.data}, [&]<class T, int N>() {
    const Backward<T> a{sorted_tokens, sorted_positions, args.dy.as<T>(), args.d_token_table.as<float>(), scratch.count,
                        width};
    launch<embedding_backward_kernel<T, N>>(static_cast<unsigned>(a.count), threads_for(width / N), 0, stream, a);
  });
  if (!args.d_position_table) return;
  float* d_position = args.d_position_table.as<float>();
  const Index used = seq * width, beyond = args.d_position_table.count() - used;
  sum_columns(stream, args.dy.dtype, args.dy.data, batch, used, used,
              {1, args.accumulate_position, d_position, nullptr, used}, scratch_data);
  if (beyond > 0 && !args.accumulate_position) {
    map<width_of<float>>(stream, ZeroOp{d_position + used}, beyond, aligned(d_position + used));
  }
}

}  // namespace tw::models::cuda
