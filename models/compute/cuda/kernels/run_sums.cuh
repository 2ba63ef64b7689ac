// Sums of the rows of a matrix that have the same key. The rows come sorted by key: those with one key are a run of
// neighbours. However long a run is, no thread adds much of it alone, and the order of the sums follows from the keys
// and the count alone:
//
//   1. The sorted order is cut into pieces of 64 places. A team of threads, side by side over the columns, adds up what
//      one run has in one piece. A run within one piece is then complete; else its first piece leaves a tail, and each
//      later one a head.
//   2. The heads are cut into groups of 64 pieces, and what one run has in one group is added up, where it began before
//      the group.
//   3. For each run of several pieces: its tail, its heads up to the next group, then its groups.
//
// So a run of n places takes at most 64, 64, and 64 + n/4096 additions one after the other.
#pragma once

#include "models/compute/cuda/kernels/teams.cuh"

namespace tw::models::cuda {

constexpr Index run_piece = 64;  // places
constexpr Index run_group = 64;  // pieces
constexpr int run_threads = occupancy::common_threads(
    {occupancy::run_pieces_kernel, occupancy::run_groups_kernel, occupancy::run_totals_kernel});

struct Runs {
  const std::uint32_t* keys;  // ascending
  const std::int32_t* rows;   // in their order
  Index count, width, pieces, groups;
  float *tails, *heads;  // (pieces, width)
  float* of_groups;      // (groups, width)
};

/// The end of the run of keys[first] among keys[first], keys[first + stride] …: the first that is no longer of it, or
/// `limit`; in units of the stride.
__device__ inline Index run_end(const std::uint32_t* keys, Index stride, Index first, Index limit) {
  const Index second = first + 1 < limit ? first + 1 : first;
  const std::uint32_t key = keys[first * stride], next = keys[second * stride], last = keys[(limit - 1) * stride];
  if (last == key) return limit;
  if (next != key) return first + 1;
  Index low = second, high = limit - 1;  // of the run, and not
  while (high - low > 1) {
    const Index middle = (low + high) / 2;
    if (keys[middle * stride] == key)
      low = middle;
    else
      high = middle;
  }
  return high;
}

/// sum += the packs at row(begin), row(begin + 1) … row(end − 1), in this order; several are on their way at once.
template <int N, class Row>
__device__ inline void add_rows(Floats<N>& sum, Index begin, Index end, Row&& row) {
  constexpr int ahead = 8;
  using Packed = decltype(load_pack<N>(row(begin)));
  const auto add = [&](const Packed& pack) {
    const Floats<N> values = to_floats(pack);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += values[k];
  };
  Index i = begin;
  for (; i + ahead <= end; i += ahead) {
    Packed packs[ahead];
#pragma unroll
    for (int r = 0; r < ahead; ++r) packs[r] = load_pack<N>(row(i + r));
#pragma unroll
    for (int r = 0; r < ahead; ++r) add(packs[r]);
  }
  Packed packs[ahead] = {};
#pragma unroll
  for (int r = 0; r < ahead; ++r)
    if (i + r < end) packs[r] = load_pack<N>(row(i + r));
#pragma unroll
  for (int r = 0; r < ahead; ++r)
    if (i + r < end) add(packs[r]);
}

/// A team for each place: it has work where a run begins, and at the first place of a piece. The teams of a block lie a
/// piece apart, so that in a long run all of them have work or none. Sink: see sum_runs().
template <class T, int N, class Sink>
__global__ void __launch_bounds__(run_threads, occupancy::run_pieces_kernel.blocks)
    run_pieces_kernel(Runs a, const T* x, Teams t, Sink sink) {
  const InTeam me(t);
  if (me.idle) return;
  const unsigned offsets = static_cast<unsigned>(a.count < run_piece ? a.count : run_piece);
  const unsigned round = blockIdx.x / offsets, offset = blockIdx.x - round * offsets;
  const Index piece = static_cast<Index>(round) * t.teams + me.team, first = piece * run_piece + offset;
  if (first >= a.count) return;
  const std::uint32_t key = a.keys[first];
  const bool begins = first == 0 || a.keys[first - 1] != key;
  if ((!begins && offset != 0) || !sink.takes(key)) return;
  const Index limit = (piece + 1) * run_piece < a.count ? (piece + 1) * run_piece : a.count;
  const Index end = run_end(a.keys, 1, first, limit);
  const bool ends = end < limit || end == a.count || a.keys[end] != key;
  for (Index column = static_cast<Index>(me.lane) * N; column < a.width; column += t.lanes * N) {
    Floats<N> sum{};
    add_rows(sum, first, end, [&](Index i) { return x + a.rows[i] * a.width + column; });
    if (begins && ends)
      sink.add(key, column, sum);
    else
      store((begins ? a.tails : a.heads) + piece * a.width + column, sum);
  }
}

/// A team for each group behind the first: it has work where a run goes on from the group before.
template <int N, class Sink>
__global__ void __launch_bounds__(run_threads, occupancy::run_groups_kernel.blocks)
    run_groups_kernel(Runs a, Teams t, Sink sink) {
  const InTeam me(t);
  if (me.idle) return;
  const Index group = static_cast<Index>(blockIdx.x) * t.teams + me.team + 1, first = group * run_group;
  if (group >= a.groups) return;
  const std::uint32_t key = a.keys[first * run_piece];
  if (a.keys[first * run_piece - 1] != key || !sink.takes(key)) return;
  const Index limit = first + run_group < a.pieces ? first + run_group : a.pieces;
  const Index end = run_end(a.keys, run_piece, first, limit);
  for (Index column = static_cast<Index>(me.lane) * N; column < a.width; column += t.lanes * N) {
    Floats<N> sum{};
    add_rows(sum, first, end, [&](Index i) -> const float* { return a.heads + i * a.width + column; });
    store(a.of_groups + group * a.width + column, sum);
  }
}

/// A team for each piece but the last: it has work where a run begins that goes on in the next piece.
template <int N, class Sink>
__global__ void __launch_bounds__(run_threads, occupancy::run_totals_kernel.blocks)
    run_totals_kernel(Runs a, Teams t, Sink sink) {
  const InTeam me(t);
  if (me.idle) return;
  const Index piece = static_cast<Index>(blockIdx.x) * t.teams + me.team, next = piece + 1;
  if (next >= a.pieces) return;
  const std::uint32_t key = a.keys[next * run_piece];
  if (a.keys[next * run_piece - 1] != key || !sink.takes(key)) return;
  if (piece > 0 && a.keys[piece * run_piece - 1] == key) return;  // began before
  const Index group = ceil_div(next, run_group), group_piece = group * run_group;
  const Index limit = group_piece < a.pieces ? group_piece : a.pieces;
  const Index end = next < limit ? run_end(a.keys, run_piece, next, limit) : limit;
  const bool goes_on = end == group_piece && group < a.groups && a.keys[group_piece * run_piece] == key;
  const Index end_group = goes_on ? run_end(a.keys, run_piece * run_group, group, a.groups) : group;
  for (Index column = static_cast<Index>(me.lane) * N; column < a.width; column += t.lanes * N) {
    Floats<N> sum = load<N>(a.tails + piece * a.width + column);
    add_rows(sum, next, end, [&](Index i) -> const float* { return a.heads + i * a.width + column; });
    add_rows(sum, group, end_group, [&](Index i) -> const float* { return a.of_groups + i * a.width + column; });
    sink.add(key, column, sum);
  }
}

/// Of sum_runs(); 256-byte aligned.
inline std::size_t run_sums_scratch(Index count, Index width) {
  const Index pieces = ceil_div(count, run_piece), groups = ceil_div(pieces, run_group);
  return pieces < 2 ? 0 : static_cast<std::size_t>((2 * pieces + groups) * width) * sizeof(float);
}

/// For each key that `sink` takes and that occurs among `count` of them in ascending order, once for each pack of N or
/// fewer columns: sink.add(key, first column, the sum of x's rows `rows` with this key). x: T (any, width), packs of N.
/// `sink.takes(key)` must not change before the last kernel has run.
template <class T, int N, class Sink>
void sum_runs(cudaStream_t stream, const std::uint32_t* keys, const std::int32_t* rows, Index count, const T* x,
              Index width, const Sink& sink, void* scratch) {
  const Index pieces = ceil_div(count, run_piece), groups = ceil_div(pieces, run_group);
  auto* tails = static_cast<float*>(scratch);
  float *const heads = tails + pieces * width, *const of_groups = heads + pieces * width;
  const Runs a{keys, rows, count, width, pieces, groups, tails, heads, of_groups};
  const Teams first(width / N, run_threads, run_threads, pieces);
  launch<run_pieces_kernel<T, N, Sink>>(first.blocks(pieces) * static_cast<unsigned>(std::min(count, run_piece)),
                                        first.threads(), 0, stream, a, x, first, sink);
  constexpr int n = N == 1 ? 1 : width_of<float>;
  if (groups > 1) {
    const Teams teams(width / n, run_threads, warp_size, groups - 1);  // few and slow: spread over the SMs
    launch<run_groups_kernel<n, Sink>>(teams.blocks(groups - 1), teams.threads(), 0, stream, a, teams, sink);
  }
  if (pieces > 1) {
    const Teams teams(width / n, run_threads, run_threads, pieces - 1);
    launch<run_totals_kernel<n, Sink>>(teams.blocks(pieces - 1), teams.threads(), 0, stream, a, teams, sink);
  }
}

}  // namespace tw::models::cuda
