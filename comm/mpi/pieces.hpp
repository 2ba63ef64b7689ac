// In which pieces large tensors travel over MPI.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tw::comm {

/// Elements of one float32 reduction: 4 MiB, where Open MPI's all-reduce on one host is near its best.
inline constexpr std::int64_t all_reduce_piece = std::int64_t{1} << 20;
/// Bytes of one copying transfer: far from INT_MAX, and large enough for its start to cost nothing.
inline constexpr std::int64_t copy_piece_bytes = std::int64_t{4} << 20;

/// Calls f(begin, count) for [0, total) in pieces; not at all for 0.
template <class F>
void for_pieces(std::int64_t total, std::int64_t piece, F&& f) {
  for (std::int64_t begin = 0; begin < total; begin += piece) f(begin, std::min(piece, total - begin));
}

}  // namespace tw::comm
