// Rows that are cut into parts, one block for each part: a thread's place in its row, and the number of blocks.
#pragma once

#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {

struct RowParts {
  Index width;
  unsigned parts;  // blocks of a row
};

/// Of a thread's pack: its row, and its place in it.
template <int N>
struct PlaceInRow {
  Index row, column;
  __device__ explicit PlaceInRow(const RowParts& p) {
    const unsigned block_row = blockIdx.x / p.parts;
    row = block_row;
    column = (static_cast<Index>(blockIdx.x - block_row * p.parts) * blockDim.x + threadIdx.x) * N;
  }
};

/// Of a launch over rows of `width`, in packs of n.
struct RowPartsShape {
  RowParts parts;
  unsigned blocks;
  int threads;
  RowPartsShape(Index rows, Index width, int n, int most_threads) {
    threads = std::min(round_to_warps(width / n), most_threads);
    parts = {width, static_cast<unsigned>(ceil_div(width / n, threads))};
    blocks = static_cast<unsigned>(rows) * parts.parts;
  }
};

}  // namespace tw::models::cuda
