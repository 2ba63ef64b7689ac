// Blocks of several teams: the threads of a team lie side by side over the columns of one row, so that narrow rows fill
// a block too.
#pragma once

#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {

/// `lanes` threads are a team, each with every lanes-th pack of a row's columns. Threads behind the last team are idle.
struct Teams {
  unsigned lanes, teams;
  /// For rows of so many packs: a team of up to `most_lanes`, and as many teams as `threads` hold, at least one and at
  /// most `most`.
  Teams(Index packs, int most_lanes, int threads, Index most)
      : lanes(static_cast<unsigned>(std::min<Index>(packs, most_lanes))),
        teams(static_cast<unsigned>(std::clamp<Index>(threads / static_cast<int>(lanes), 1, most))) {}
  int threads() const { return round_to_warps(lanes * teams); }
  /// For `count` rows, one for each team.
  unsigned blocks(Index count) const { return static_cast<unsigned>(ceil_div(count, teams)); }
};

/// Of a thread: its team in the block, and its place there.
struct InTeam {
  unsigned team, lane;
  bool idle;
  __device__ explicit InTeam(const Teams& t)
      : team(threadIdx.x / t.lanes), lane(threadIdx.x - team * t.lanes), idle(team >= t.teams) {}
};

}  // namespace tw::models::cuda
