// Kernels that work down the columns of a row-major matrix: a block has X threads side by side, each with its own pack
// of columns, and Y below each other, which take every Y-th row of the block's slice. Blocks: tiles of columns × slices
// of rows.
#pragma once

#include "models/compute/cuda/kernels/support.cuh"

namespace tw::models::cuda {

struct Columns {
  Index rows = 0, columns = 0, ld = 0;  // element (r, c) at r·ld + c
  int x = 1, y = 1;                     // threads of a block: powers of two, x·y a multiple of 32
  int x_bits = 0;                       // x = 2^x_bits
  Index tiles = 1, slices = 1, rows_per_slice = 0;

  unsigned blocks() const { return static_cast<unsigned>(tiles * slices); }
  unsigned threads() const { return static_cast<unsigned>(x * y); }
};

/// The cut of a matrix for packs of n columns: at least `rows_each` rows for a thread where there are as many, and
/// slices up to about `most_blocks` blocks. It follows from the extents alone.
inline Columns cut_columns(Index rows, Index columns, Index ld, int n, int threads, Index rows_each,
                           Index most_blocks) {
  Columns c{rows, columns, ld};
  const Index packs = ceil_div(columns, n);
  c.x = static_cast<int>(std::min<Index>(power_of_two_from(packs), warp_size));
  c.y = threads / c.x;
  const Index needed = std::max<Index>(power_of_two_from(rows), warp_size / c.x);  // a short matrix wants no tall block
  if (needed < c.y) {
    c.y = static_cast<int>(needed);
    c.x = static_cast<int>(std::min<Index>(power_of_two_from(packs), threads / c.y));
    c.y = std::max(c.y, warp_size / c.x);
  }
  c.x_bits = std::countr_zero(static_cast<unsigned>(c.x));
  c.tiles = ceil_div(packs, c.x);
  const Index slices = std::clamp<Index>(rows / (c.y * rows_each), 1, std::max<Index>(1, most_blocks / c.tiles));
  c.rows_per_slice = ceil_div(rows, slices);
  c.slices = ceil_div(rows, c.rows_per_slice);
  return c;
}

/// Where a thread stands.
template <int N>
struct ColumnThread {
  Index column;          // first of its pack; may lie behind the last
  Index width;           // columns of the pack that are there, up to N; ≤ 0 where none is
  Index row, end, step;  // its rows
  Index slice;
  int x, y;

  __device__ explicit ColumnThread(const Columns& c) : ColumnThread(c, threadIdx.x, blockIdx.x) {}

  /// The same once more, from the special registers: what the first one holds need not stay in registers until then,
  /// which spill on some architectures.
  __device__ static ColumnThread again(const Columns& c) {
#if defined(__CUDA_ARCH__)
    unsigned thread, block;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return ColumnThread(c, thread, block);
#else
    return ColumnThread(c);
#endif
  }

 private:
  __device__ ColumnThread(const Columns& c, unsigned thread, unsigned block) {
    x = static_cast<int>(thread) & (c.x - 1);
    y = static_cast<int>(thread) >> c.x_bits;
    const unsigned tiles = static_cast<unsigned>(c.tiles),
                   of_block = block / tiles;  // 64 bits would divide in software
    slice = of_block;
    column = (static_cast<Index>(block - of_block * tiles) * c.x + x) * N;
    width = c.columns - column < N ? c.columns - column : N;
    row = slice * c.rows_per_slice + y;
    end = (slice + 1) * c.rows_per_slice < c.rows ? (slice + 1) * c.rows_per_slice : c.rows;
    step = c.y;
  }
};

/// The elements of the thread's pack in its rows: begin, begin + stride, … below end, without a count of rows beside
/// them. Only for a thread with columns: me.column is below c.ld.
struct ElementsOfRows {
  Index begin, end, stride;

  template <int N>
  __device__ ElementsOfRows(const Columns& c, const ColumnThread<N>& me)
      : begin(me.row * c.ld + me.column), end(me.end * c.ld), stride(me.step * c.ld) {}
};

/// body(at) for the element of the thread's pack in each of its rows.
template <int N, class Body>
__device__ inline void over_rows(const Columns& c, const ColumnThread<N>& me, Body&& body) {
  const ElementsOfRows elements(c, me);
  for (Index at = elements.begin; at < elements.end; at += elements.stride) body(at);
}

/// body(std::true_type) or body(std::false_type): what is the same for all rows is asked before them.
template <class Body>
__device__ inline void with_flag(bool flag, Body&& body) {
  if (flag) {
    body(std::true_type{});
  } else {
    body(std::false_type{});
  }
}

/// Sum down the block of each of its x·N columns: every thread brings the sums of its pack; body(column in the tile,
/// sum) runs once for each column. `shared`: threads · N. All threads call it; the caller separates calls by a barrier.
template <int N, class T, class Body>
__device__ inline void sum_down(const Columns& c, int x, int y, const T (&pack)[N], T* shared, Body&& body) {
  const int width = c.x * N;
#pragma unroll
  for (int k = 0; k < N; ++k) shared[y * width + x * N + k] = pack[k];
  __syncthreads();
  for (int column = static_cast<int>(threadIdx.x); column < width; column += static_cast<int>(blockDim.x)) {
    T sum = shared[column];
    for (int other = 1; other < c.y; ++other) sum += shared[other * width + column];
    body(column, sum);
  }
}

/// Where sums of columns go: [0, split) to first, the rest to second.
struct ColumnTotals {
  float scale = 1;
  bool accumulate = false;
  float *first = nullptr, *second = nullptr;
  Index split = 0;
};

/// totals (+)= scale · Σ_rows x, T as dtype; `scratch` as column_sums_scratch(rows, columns).
void sum_columns(cudaStream_t stream, DType dtype, const void* x, Index rows, Index columns, Index ld,
                 const ColumnTotals& totals, void* scratch);

}  // namespace tw::models::cuda
