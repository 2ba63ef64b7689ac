// Sums down columns in one or two stages of fixed shape: slices of rows, then the slices.
#include "models/compute/cuda/kernels/columns.cuh"

namespace tw::models::cuda {
namespace {

constexpr int sum_threads = 256, final_threads = occupancy::column_sums_kernel.threads;

/// One slice: its sums to `partial` (slices, columns), or where there is only one, to the totals.
template <class T, int N>
__global__ void __launch_bounds__(final_threads, occupancy::column_sums_kernel.blocks)
    column_sums_kernel(const T* x, Columns c, float* partial, ColumnTotals totals) {
  const ColumnThread<N> me(c);
  float sums[N] = {};
  const auto add = [&](const Floats<N>& of_row) {
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k] += of_row[k];
  };
  constexpr int ahead = 4;  // rows on their way before the first is added
  const Index stride = me.step * c.ld;
  const T* values = x + me.row * c.ld + me.column;
  Index row = me.row;
  if (me.width == N) {
    for (; row + (ahead - 1) * me.step < me.end; row += ahead * me.step, values += ahead * stride) {
      Pack<T, N> packs[ahead];
#pragma unroll
      for (int r = 0; r < ahead; ++r) packs[r] = load_pack<N>(values + r * stride);
#pragma unroll
      for (int r = 0; r < ahead; ++r) add(to_floats(packs[r]));
    }
    for (; row < me.end; row += me.step, values += stride) add(load<N>(values));
  } else if (me.width > 0) {
    for (; row < me.end; row += me.step, values += stride) add(load_some<N>(values, me.width));
  }
  const Index tile_begin = me.column - me.x * N, slice = me.slice;
  sum_down(c, me.x, me.y, sums, dynamic_shared<float>(), [&](int in_tile, float sum) {
    const Index column = tile_begin + in_tile;
    if (column >= c.columns) return;
    if (c.slices > 1) {
      partial[slice * c.columns + column] = sum;
      return;
    }
    float* total = column < totals.split ? totals.first + column : totals.second + (column - totals.split);
    *total = totals.accumulate ? *total + totals.scale * sum : totals.scale * sum;
  });
}

template <int N>
Columns first_cut(Index rows, Index columns, Index ld) {
  return cut_columns(rows, columns, ld, N, sum_threads, 16, 2048);
}

template <class T, int N>
void launch_sums(cudaStream_t stream, const T* x, const Columns& c, float* partial, const ColumnTotals& totals) {
  launch<column_sums_kernel<T, N>>(c.blocks(), c.threads(), c.threads() * N * sizeof(float), stream, x, c, partial,
                                   totals);
}

template <class T, int N>
void sum_in_stages(cudaStream_t stream, const T* x, Index rows, Index columns, Index ld, const ColumnTotals& totals,
                   float* partial) {
  const Columns c = first_cut<N>(rows, columns, ld);
  launch_sums<T, N>(stream, x, c, partial, totals);
  if (c.slices == 1) return;
  const Columns last = cut_columns(c.slices, columns, columns, 1, final_threads, c.slices, 1);
  launch_sums<float, 1>(stream, partial, last, nullptr, totals);
}

}  // namespace

std::size_t column_sums_scratch(Index rows, Index columns) {
  Index most = 1;  // slices of any dtype and alignment
  for (const int n : {1, width_of<float>, width_of<bf16>}) {
    most = std::max(most, cut_columns(rows, columns, columns, n, sum_threads, 16, 2048).slices);
  }
  return most == 1 ? 0 : static_cast<std::size_t>(most * columns) * sizeof(float);
}

void sum_columns(cudaStream_t stream, DType dtype, const void* x, Index rows, Index columns, Index ld,
                 const ColumnTotals& totals, void* scratch) {
  with_type(dtype, [&]<class T>(T*) {
    constexpr int n = width_of<T>;
    const T* values = static_cast<const T*>(x);
    float* partial = static_cast<float*>(scratch);
    if (aligned(x) && ld % n == 0 && columns >= n) {
      sum_in_stages<T, n>(stream, values, rows, columns, ld, totals, partial);
    } else {
      sum_in_stages<T, 1>(stream, values, rows, columns, ld, totals, partial);
    }
  });
}

void column_sums(cudaStream_t stream, DType dtype, const void* x, Index rows, Index columns, Index ld, float scale,
                 float* sums, bool accumulate, void* scratch) {
  sum_columns(stream, dtype, x, rows, columns, ld, {scale, accumulate, sums, nullptr, columns}, scratch);
}

std::size_t scratch_bytes(const BiasBackward& args) {
  const Index channels = args.d_bias.count();
  return column_sums_scratch(args.dy.count() / channels, channels);
}

void bias_backward(cudaStream_t stream, const BiasBackward& args, void* scratch) {
  const Index channels = args.d_bias.count();
  column_sums(stream, args.dy.dtype, args.dy.data, args.dy.count() / channels, channels, channels, 1.0f,
              args.d_bias.as<float>(), args.accumulate, scratch);
}

}  // namespace tw::models::cuda
