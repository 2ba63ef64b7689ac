// Embedding: a gather forward; backward the positions are sorted by token, and the rows of each token are summed.
#include "models/compute/cuda/kernels/columns.cuh"
#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/cuda/kernels/run_sums.cuh"

namespace tw::models::cuda {
namespace {

constexpr int most_threads = occupancy::embedding_forward_kernel.threads;

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

/// Of sum_runs(): what a token's rows add up to, to its row of the gradient.
struct AddToTable {
  float* d_token_table;
  Index width;
  __device__ bool takes(std::uint32_t) const { return true; }
  template <int N>
  __device__ void add(std::uint32_t token, Index column, const Floats<N>& sum) const {
    float* row = d_token_table + token * width + column;
    Floats<N> total = load<N>(row);
#pragma unroll
    for (int k = 0; k < N; ++k) total[k] += sum[k];
    store(row, total);
  }
};

constexpr std::size_t scratch_alignment = 256;
constexpr std::size_t padded(std::size_t bytes) {
  return (bytes + scratch_alignment - 1) / scratch_alignment * scratch_alignment;
}

/// Positions, tokens and positions in their sorted order, and what the sort needs and then the sums; the sums of the
/// position table use the same memory afterwards.
struct Scratch {
  Index count;
  int bits;
  std::size_t array, sort, runs, columns;
  explicit Scratch(const EmbeddingBackward& args)
      : count(args.tokens.count()),
        bits(std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(args.d_token_table.dims[0] - 1))))),
        array(padded(static_cast<std::size_t>(count) * sizeof(std::int32_t))),
        sort(sort_pairs_scratch(count, bits)),
        runs(run_sums_scratch(count, args.dy.dims[2])),
        columns(args.d_position_table ? column_sums_scratch(args.dy.dims[0], args.dy.dims[1] * args.dy.dims[2]) : 0) {}
  std::size_t bytes() const { return std::max(3 * array + std::max(sort, runs), columns); }
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
  void* behind = memory + 3 * scratch.array;
  sort_pairs(stream, args.tokens.as<std::uint32_t>(), positions, scratch.count, scratch.bits, sorted_tokens,
             sorted_positions, behind);
  const Index batch = args.dy.dims[0], seq = args.dy.dims[1], width = args.dy.dims[2];
  with_packs(args.dy.dtype, width, {args.dy.data, args.d_token_table.data}, [&]<class T, int N>() {
    sum_runs<T, N>(stream, sorted_tokens, sorted_positions, scratch.count, args.dy.as<T>(), width,
                   AddToTable{args.d_token_table.as<float>(), width}, behind);
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
