// Elementwise loops, activations, rotary positions, gates, rows by index, column sums, transposition, the embedding.
#include <type_traits>

#include "models/compute/cpu/kernel_support.hpp"

namespace tw::models::cpu::TW_ISA {

namespace {
template <class T>
TW_LOOP void gelu_loop(const T* x, T* y, Index count) {
  TW_SIMD
  for (Index i = 0; i < count; ++i) store(y + i, formula::gelu(to_float(x[i])));
}
template <class T>
TW_LOOP void gelu_derivative_loop(const T* x, T* dx, Index count) {
  TW_SIMD
  for (Index i = 0; i < count; ++i) store(dx + i, to_float(dx[i]) * formula::gelu_derivative(to_float(x[i])));
}
template <class T>
TW_LOOP void add_loop(const T* a, const T* b, T* y, Index count) {
  TW_SIMD
  for (Index i = 0; i < count; ++i) store(y + i, to_float(a[i]) + to_float(b[i]));
}
}  // namespace

void gelu_forward(int threads, DType dtype, const void* x, void* y, Index count) {
  with_type(dtype, [&]<class T>(T*) {
    in_shares(threads, count, count, 64, [&](Range range) {
      gelu_loop(static_cast<const T*>(x) + range.begin, static_cast<T*>(y) + range.begin, range.end - range.begin);
    });
  });
}

void gelu_backward(int threads, DType dtype, const void* x, void* dx, Index count) {
  with_type(dtype, [&]<class T>(T*) {
    in_shares(threads, count, count, 64, [&](Range range) {
      gelu_derivative_loop(static_cast<const T*>(x) + range.begin, static_cast<T*>(dx) + range.begin,
                           range.end - range.begin);
    });
  });
}

void add(int threads, DType dtype, const void* a, const void* b, void* y, Index count) {
  with_type(dtype, [&]<class T>(T*) {
    in_shares(threads, count, count, 64, [&](Range range) {
      add_loop(static_cast<const T*>(a) + range.begin, static_cast<const T*>(b) + range.begin,
               static_cast<T*>(y) + range.begin, range.end - range.begin);
    });
  });
}

namespace {
template <class From, class To>
TW_LOOP void convert(const From* x, To* y, Range range) {
  TW_SIMD
  for (Index i = range.begin; i < range.end; ++i) store(y + i, to_float(x[i]));
}
}  // namespace

void cast(int threads, DType from, const void* x, void* y, Index count) {
  in_shares(threads, count, count, 64, [&](Range range) {
    if (from == DType::float32) {
      convert(static_cast<const float*>(x), static_cast<bf16*>(y), range);
    } else {
      convert(static_cast<const bf16*>(x), static_cast<float*>(y), range);
    }
  });
}

void fill(int threads, DType dtype, void* y_data, Index count, float value) {
  with_type(dtype, [&]<class T>(T*) {
    in_shares(threads, count, count, 64, [&](Range range) {
      const T filler = narrowed<T>(value);
      T* y = static_cast<T*>(y_data);
      for (Index i = range.begin; i < range.end; ++i) y[i] = filler;
    });
  });
}

void copy(int threads, const void* x, void* y, Index bytes) {
  in_shares(threads, bytes / 4, bytes, 4096, [&](Range range) {
    std::memcpy(static_cast<char*>(y) + range.begin, static_cast<const char*>(x) + range.begin,
                static_cast<std::size_t>(range.end - range.begin));
  });
}

namespace {
/// One head of one position; `angles`: cos and sin of each pair.
template <class T>
TW_LOOP void rotary_loop(T* x, const float* angles, float direction, Index half) {
  TW_SIMD
  for (Index i = 0; i < half; ++i) {
    const formula::Pair<float> turned =
        formula::rotated<float>({to_float(x[i]), to_float(x[i + half])}, angles[2 * i], direction * angles[2 * i + 1]);
    store(x + i, turned.first);
    store(x + i + half, turned.second);
  }
}
template <class T>
TW_LOOP void swiglu_loop(const T* gate, const T* up, T* y, Index count) {
  TW_SIMD
  for (Index i = 0; i < count; ++i) store(y + i, formula::silu(to_float(gate[i])) * to_float(up[i]));
}
template <class T>
TW_LOOP void swiglu_gradient_loop(const T* gate, const T* up, const T* dy, T* d_gate, T* d_up, Index count) {
  TW_SIMD
  for (Index i = 0; i < count; ++i) {
    const formula::SwigluGradient<float> gradient =
        formula::swiglu_gradient(to_float(gate[i]), to_float(up[i]), to_float(dy[i]));
    store(d_gate + i, gradient.gate);
    store(d_up + i, gradient.up);
  }
}
}  // namespace

void rotary(int threads, DType dtype, const Rotary& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index seq = args.x.dims[1], heads = args.x.dims[2], width = args.x.dims[3], positions = args.x.dims[0] * seq;
    const float direction = args.inverse ? -1.0f : 1.0f;
    in_shares(threads, positions * args.rotated * width, positions, 1, [&](Range range) {
      for (Index position = range.begin; position < range.end; ++position) {
        T* x = args.x.as<T>() + position * heads * width;
        const float* angles = args.table.as<float>() + position % seq * width;
        for (Index head = 0; head < args.rotated; ++head) rotary_loop(x + head * width, angles, direction, width / 2);
      }
    });
  });
}

void swiglu_forward(int threads, DType dtype, const SwigluForward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index rows = args.y.dims[0], hidden = args.y.dims[1];
    in_shares(threads, rows * hidden, rows, 1, [&](Range range) {
      for (Index row = range.begin; row < range.end; ++row) {
        const T* gate = args.x.as<T>() + row * 2 * hidden;
        swiglu_loop(gate, gate + hidden, args.y.as<T>() + row * hidden, hidden);
      }
    });
  });
}

void swiglu_backward(int threads, DType dtype, const SwigluBackward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index rows = args.dy.dims[0], hidden = args.dy.dims[1];
    in_shares(threads, rows * hidden, rows, 1, [&](Range range) {
      for (Index row = range.begin; row < range.end; ++row) {
        const T* gate = args.x.as<T>() + row * 2 * hidden;
        T* d_gate = args.dx.as<T>() + row * 2 * hidden;
        swiglu_gradient_loop(gate, gate + hidden, args.dy.as<T>() + row * hidden, d_gate, d_gate + hidden, hidden);
      }
    });
  });
}

namespace {
/// The hyperbolic tangent is a call of the C library for each value, which cannot be vectorised.
template <class Of>
constexpr bool is_vectorised = !std::is_same_v<Of, formula::HyperbolicTangent>;

template <class Of, class T>
TW_LOOP void activation_loop(const T* x, T* y, Index count) {
  if constexpr (is_vectorised<Of>) {
    TW_SIMD
    for (Index i = 0; i < count; ++i) store(y + i, Of::value(to_float(x[i])));
  } else {
    for (Index i = 0; i < count; ++i) store(y + i, Of::value(to_float(x[i])));
  }
}
template <class Of, class T>
TW_LOOP void activation_gradient_loop(const T* dy, const T* x, T* dx, Index count) {
  if constexpr (is_vectorised<Of>) {
    TW_SIMD
    for (Index i = 0; i < count; ++i) store(dx + i, to_float(dy[i]) * Of::derivative(to_float(x[i])));
  } else {
    for (Index i = 0; i < count; ++i) store(dx + i, to_float(dy[i]) * Of::derivative(to_float(x[i])));
  }
}
}  // namespace

void activation_forward(int threads, DType dtype, const ActivationForward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index count = args.x.count();
    in_shares(threads, count, count, 64, [&](Range range) {
      formula::with_activation(args.activation, [&]<class Of>(Of) {
        activation_loop<Of>(args.x.as<T>() + range.begin, args.y.as<T>() + range.begin, range.end - range.begin);
      });
    });
  });
}

void activation_backward(int threads, DType dtype, const ActivationBackward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index count = args.x.count();
    in_shares(threads, count, count, 64, [&](Range range) {
      formula::with_activation(args.activation, [&]<class Of>(Of) {
        activation_gradient_loop<Of>(args.dy.as<T>() + range.begin, args.x.as<T>() + range.begin,
                                     args.dx.as<T>() + range.begin, range.end - range.begin);
      });
    });
  });
}

void gather_rows(int threads, DType dtype, const GatherRows& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index rows = args.y.dims[0], width = args.y.dims[1];
    const std::int32_t* indices = args.indices.as<std::int32_t>();
    in_shares(threads, rows * width, rows, 1, [&](Range range) {
      for (Index row = range.begin; row < range.end; ++row)
        std::memcpy(args.y.as<T>() + row * width, args.x.as<T>() + indices[row] * width,
                    static_cast<std::size_t>(width) * sizeof(T));
    });
  });
}

void scatter_rows(int threads, DType dtype, const ScatterRows& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index given = args.dy.dims[0], rows = args.dx.dims[0], width = args.dx.dims[1];
    const std::int32_t* indices = args.indices.as<std::int32_t>();
    const std::size_t bytes = static_cast<std::size_t>(width) * sizeof(T);
    // Each thread clears its rows and copies what belongs into them.
    in_shares(threads, rows * width, rows, 1, [&](Range range) {
      std::memset(args.dx.as<T>() + range.begin * width, 0, static_cast<std::size_t>(range.end - range.begin) * bytes);
      for (Index i = 0; i < given; ++i) {
        if (indices[i] >= range.begin && indices[i] < range.end)
          std::memcpy(args.dx.as<T>() + indices[i] * width, args.dy.as<T>() + i * width, bytes);
      }
    });
  });
}

namespace {

template <class T>
TW_LOOP void add_bias_loop(const T* x, const T* bias, T* y, Index channels) {
  TW_SIMD
  for (Index c = 0; c < channels; ++c) store(y + c, to_float(x[c]) + to_float(bias[c]));
}

template <class T>
TW_LOOP double squared_errors(const T* predictions, const float* targets, Index count) {
  double sum = 0;
  TW_SIMD_SUM(sum)
  for (Index i = 0; i < count; ++i) {
    const double error = static_cast<double>(to_float(predictions[i]) - targets[i]);
    sum += error * error;
  }
  return sum;
}
template <class T>
TW_LOOP void squared_error_gradients(const T* predictions, const float* targets, float factor, T* d, Index count) {
  TW_SIMD
  for (Index i = 0; i < count; ++i) store(d + i, factor * (to_float(predictions[i]) - targets[i]));
}

}  // namespace

void add_bias(int threads, DType dtype, const AddBias& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index channels = args.bias.count();
    in_shares(threads, args.x.count(), args.x.count() / channels, 1, [&](Range range) {
      for (Index row = range.begin * channels; row < range.end * channels; row += channels)
        add_bias_loop(args.x.as<T>() + row, args.bias.as<T>(), args.y.as<T>() + row, channels);
    });
  });
}

void mean_squared_error(int threads, DType dtype, const MeanSquaredError& args, double* partials) {
  with_type(dtype, [&]<class T>(T*) {
    const Index count = args.predictions.count();
    const float scale = args.scalars != nullptr ? args.scalars->loss_scale : 1.0f;
    const float factor = 2.0f * scale / static_cast<float>(count);
    const int slices = threads <= 1 || count <= serial_elements ? 1 : threads;
    in_slices(slices, count, count, 1, [&](int slice, Range range) {
      const T* predictions = args.predictions.as<T>() + range.begin;
      const float* targets = args.targets.as<float>() + range.begin;
      partials[slice] = squared_errors(predictions, targets, range.end - range.begin);
      if (args.d_predictions)
        squared_error_gradients(predictions, targets, factor, args.d_predictions.as<T>() + range.begin,
                                range.end - range.begin);
    });
    double sum = 0;
    for (int slice = 0; slice < slices; ++slice) sum += partials[slice];
    *args.loss.as<float>() = static_cast<float>(sum / static_cast<double>(count));
  });
}

namespace {

/// sums[0, width) += Σ over rows of x[r, 0 … width); few columns, so that the sums stay in the first-level cache.
template <class T>
TW_LOOP void add_columns(const T* x, Index rows, Index ld, Index width, double* sums) {
  for (Index r = 0; r < rows; ++r) {
    const T* row = x + r * ld;
    TW_SIMD
    for (Index c = 0; c < width; ++c) sums[c] += static_cast<double>(to_float(row[c]));
  }
}

}  // namespace

void column_sums(int threads, DType dtype, const void* x_data, Index rows, Index columns, float scale, float* sums,
                 bool accumulate, double* partials) {
  with_type(dtype, [&]<class T>(T*) {
    const T* x = static_cast<const T*>(x_data);
    const int slices = threads <= 1 || rows * columns <= serial_elements ? 1 : threads;
    in_slices(slices, rows * columns, rows, 1, [&](int slice, Range range) {
      double* mine = partials + slice * columns;
      std::memset(mine, 0, static_cast<std::size_t>(columns) * sizeof(double));
      constexpr Index block = 1024;
      for (Index c = 0; c < columns; c += block) {
        const Index width = columns - c < block ? columns - c : block;
        add_columns(x + range.begin * columns + c, range.end - range.begin, columns, width, mine + c);
      }
    });
    for (Index c = 0; c < columns; ++c) {
      double sum = 0;
      for (int slice = 0; slice < slices; ++slice) sum += partials[slice * columns + c];
      sum *= static_cast<double>(scale);
      sums[c] = static_cast<float>(accumulate ? static_cast<double>(sums[c]) + sum : sum);
    }
  });
}

namespace {
/// 16 bytes of T, and the interleaving of two of them: three (two) rounds of it transpose 8 × 8 (4 × 4) elements.
template <class T>
struct Lanes;
template <>
struct Lanes<bf16> {
  using Vector = std::uint16_t __attribute__((vector_size(16)));
  static Vector low(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
  static Vector high(Vector a, Vector b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
};
template <>
struct Lanes<float> {
  using Vector = float __attribute__((vector_size(16)));
  static Vector low(Vector a, Vector b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
  static Vector high(Vector a, Vector b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
};

template <class T>
inline void transpose_lanes(const T* x, Index ldx, T* y, Index ldy) {
  using Vector = typename Lanes<T>::Vector;
  constexpr int n = 16 / sizeof(T);
  Vector rows[n], next[n];
  for (int r = 0; r < n; ++r) std::memcpy(&rows[r], x + r * ldx, sizeof(Vector));
  // Each round interleaves row r with row r + n/2: a rotation of the index bits (row, column).
  for (int round = 1; round < n; round *= 2) {
    for (int r = 0; r < n / 2; ++r) {
      next[2 * r] = Lanes<T>::low(rows[r], rows[r + n / 2]);
      next[2 * r + 1] = Lanes<T>::high(rows[r], rows[r + n / 2]);
    }
    for (int r = 0; r < n; ++r) rows[r] = next[r];
  }
  for (int r = 0; r < n; ++r) std::memcpy(y + r * ldy, &rows[r], sizeof(Vector));
}

/// y[c,r] = x[r,c] for a block small enough for the first-level cache.
template <class T>
TW_LOOP void transpose_block(const T* __restrict x, Index rows, Index columns, Index ldx, T* __restrict y, Index ldy) {
  constexpr Index n = 16 / sizeof(T);
  const Index whole_rows = rows / n * n, whole_columns = columns / n * n;
  for (Index c = 0; c < whole_columns; c += n) {
    for (Index r = 0; r < whole_rows; r += n) transpose_lanes(x + r * ldx + c, ldx, y + c * ldy + r, ldy);
  }
  for (Index c = 0; c < columns; ++c) {
    for (Index r = c < whole_columns ? whole_rows : 0; r < rows; ++r) y[c * ldy + r] = x[r * ldx + c];
  }
}
}  // namespace

void transpose(int threads, DType dtype, const void* x_data, Index rows, Index columns, void* y_data) {
  with_type(dtype, [&]<class T>(T*) {
    const T* x = static_cast<const T*>(x_data);
    T* y = static_cast<T*>(y_data);
    constexpr Index block = 32;
    in_shares(threads, rows * columns, columns, block, [&](Range range) {
      // Rows outermost: x is read as it lies in memory, the next rows on their way meanwhile.
      for (Index r0 = 0; r0 < rows; r0 += block) {
        const Index r_end = r0 + block < rows ? r0 + block : rows;
        for (Index c0 = range.begin; c0 < range.end; c0 += block) {
          const Index c_end = c0 + block < range.end ? c0 + block : range.end;
          for (Index r = r_end; r < r_end + block && r < rows; ++r) prefetch(x + r * columns + c0, c_end - c0);
          transpose_block(x + r0 * columns + c0, r_end - r0, c_end - c0, columns, y + c0 * rows + r0, rows);
        }
      }
    });
  });
}

namespace {
constexpr Index packed_rows = 32;  // of a block of a packed matrix

/// A block from rows: each pair of rows interleaved.
TW_LOOP void pack_rows(const std::uint16_t* __restrict x, Index ld, Index width, std::uint16_t* __restrict y) {
  for (Index r = 0; r < packed_rows; r += 2) {
    const std::uint16_t *even = x + r * ld, *odd = even + ld;
    std::uint16_t* pairs = y + r * width;
    TW_SIMD
    for (Index c = 0; c < width; ++c) {
      pairs[2 * c] = even[c];
      pairs[2 * c + 1] = odd[c];
    }
  }
}

/// A block from columns: the pairs are there already, as 32-bit elements; 16 × 16 of them are transposed at a time.
TW_LOOP void pack_columns(const std::uint16_t* __restrict x, Index ld, Index width, std::uint16_t* __restrict y) {
  constexpr int n = packed_rows / 2;
  using Vector = std::uint32_t __attribute__((vector_size(4 * n)));
  for (Index c = 0; c < width; c += n) {
    Vector rows[n], next[n];
    for (int r = 0; r < n; ++r) std::memcpy(&rows[r], x + (c + r) * ld, sizeof(Vector));
    // As in transpose_lanes.
    for (int round = 1; round < n; round *= 2) {
      for (int r = 0; r < n / 2; ++r) {
        next[2 * r] =
            __builtin_shufflevector(rows[r], rows[r + n / 2], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        next[2 * r + 1] = __builtin_shufflevector(rows[r], rows[r + n / 2], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                                  29, 14, 30, 15, 31);
      }
      for (int r = 0; r < n; ++r) rows[r] = next[r];
    }
    for (int r = 0; r < n; ++r) std::memcpy(y + 2 * (r * width + c), &rows[r], sizeof(Vector));
  }
}
}  // namespace

void pack_row_pairs(int threads, const void* x_data, bool by_columns, Index rows, Index columns, Index ld, Index width,
                    void* y_data) {
  const std::uint16_t* x = static_cast<const std::uint16_t*>(x_data);
  std::uint16_t* y = static_cast<std::uint16_t*>(y_data);
  const Index down = rows / packed_rows, across = columns / width, block = packed_rows * width;
  in_shares(threads, rows * columns, down * across, 1, [&](Range range) {
    for (Index i = range.begin; i < range.end; ++i) {  // in the order of the source: it is read from memory
      if (by_columns) {
        pack_columns(x + i / down * width * ld + i % down * packed_rows, ld, width, y + i * block);
      } else {
        const Index row = i / across, column = i % across;
        const std::uint16_t* rows_of_block = x + row * packed_rows * ld + column * width;
        for (Index r = packed_rows; r < 2 * packed_rows && row + 1 < down; ++r) prefetch(rows_of_block + r * ld, width);
        pack_rows(rows_of_block, ld, width, y + (column * down + row) * block);
      }
    }
  });
}

void embedding_forward(int threads, DType dtype, const EmbeddingForward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index rows = args.tokens.count(), seq = args.tokens.dims[1], width = args.token_table.dims[1];
    const std::int32_t* tokens = args.tokens.as<std::int32_t>();
    in_shares(threads, rows * width, rows, 1, [&](Range range) {
      for (Index row = range.begin; row < range.end; ++row) {
        const T* token = args.token_table.as<T>() + tokens[row] * width;
        T* y = args.y.as<T>() + row * width;
        if (args.position_table) {
          const T* position = args.position_table.as<T>() + row % seq * width;
          TW_SIMD
          for (Index c = 0; c < width; ++c) store(y + c, to_float(token[c]) + to_float(position[c]));
        } else {
          std::memcpy(y, token, static_cast<std::size_t>(width) * sizeof(T));
        }
      }
    });
  });
}

void embedding_backward(int threads, DType dtype, const EmbeddingBackward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index batch = args.dy.dims[0], seq = args.dy.dims[1], width = args.dy.dims[2];
    const std::int32_t* tokens = args.tokens.as<std::int32_t>();
    in_parallel(threads, batch * seq * width, [&](int part, int parts) {
      // Each thread owns the tokens with token % parts == part: in order of position, whatever the number of threads.
      for (Index row = 0; row < batch * seq; ++row) {
        if (tokens[row] % parts != part) continue;
        const T* dy = args.dy.as<T>() + row * width;
        float* sum = args.d_token_table.as<float>() + tokens[row] * width;
        TW_SIMD
        for (Index c = 0; c < width; ++c) sum[c] += to_float(dy[c]);
      }
      if (!args.d_position_table) return;
      const Range range = share(args.d_position_table.dims[0], parts, part, 1);
      for (Index t = range.begin; t < range.end; ++t) {
        float* sum = args.d_position_table.as<float>() + t * width;
        if (!args.accumulate_position) std::memset(sum, 0, static_cast<std::size_t>(width) * sizeof(float));
        if (t >= seq) continue;
        for (Index b = 0; b < batch; ++b) {
          const T* dy = args.dy.as<T>() + (b * seq + t) * width;
          TW_SIMD
          for (Index c = 0; c < width; ++c) sum[c] += to_float(dy[c]);
        }
      }
    });
  });
}

}  // namespace tw::models::cpu::TW_ISA
