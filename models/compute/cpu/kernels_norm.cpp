// Layer norm, RMS norm and batch norm.
#include "models/compute/cpu/kernel_support.hpp"

namespace tw::models::cpu::TW_ISA {

void layer_norm_forward(int threads, DType dtype, const LayerNormForward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index rows = args.x.dims[0], width = args.x.dims[1];
    const float inverse_width = 1.0f / static_cast<float>(width), epsilon = args.epsilon;
    in_shares(threads, rows * width, rows, 1, [&](Range range) {
      const T *gamma = args.gamma.as<T>(), *beta = args.beta.as<T>();
      for (Index row = range.begin; row < range.end; ++row) {
        const T* x = args.x.as<T>() + row * width;
        float sum = 0;
        if (args.residual) {
          const T* residual = args.residual.as<T>() + row * width;
          T* out = args.sum.as<T>() + row * width;
          TW_SIMD_SUM(sum)
          for (Index c = 0; c < width; ++c) {
            const T rounded = narrowed<T>(to_float(x[c]) + to_float(residual[c]));
            out[c] = rounded;
            sum += to_float(rounded);
          }
          x = out;
        } else {
          TW_SIMD_SUM(sum)
          for (Index c = 0; c < width; ++c) sum += to_float(x[c]);
        }
        const float mean = sum * inverse_width;
        float squares = 0;
        TW_SIMD_SUM(squares)
        for (Index c = 0; c < width; ++c) squares += (to_float(x[c]) - mean) * (to_float(x[c]) - mean);
        const float rstd = 1.0f / std::sqrt(squares * inverse_width + epsilon);
        T* y = args.y.as<T>() + row * width;
        TW_SIMD
        for (Index c = 0; c < width; ++c) {
          store(y + c, (to_float(x[c]) - mean) * rstd * to_float(gamma[c]) + to_float(beta[c]));
        }
        args.mean.as<float>()[row] = mean;
        args.rstd.as<float>()[row] = rstd;
      }
    });
  });
}

void layer_norm_backward(int threads, DType dtype, const LayerNormBackward& args, float* partials) {
  with_type(dtype, [&]<class T>(T*) {
    const Index rows = args.x.dims[0], width = args.x.dims[1];
    const float inverse_width = 1.0f / static_cast<float>(width);
    const int slices = rows * width <= serial_elements ? 1 : threads;
    in_slices(slices, rows * width, rows, 1, [&](int slice, Range range) {
      const T* gamma = args.gamma.as<T>();
      float *d_gamma = partials + 2 * slice * width, *d_beta = d_gamma + width;
      std::memset(d_gamma, 0, static_cast<std::size_t>(2 * width) * sizeof(float));
      for (Index row = range.begin; row < range.end; ++row) {
        const T *x = args.x.as<T>() + row * width, *dy = args.dy.as<T>() + row * width;
        const float mean = args.mean.as<float>()[row], rstd = args.rstd.as<float>()[row];
        float sum = 0, dot = 0;
        TW_SIMD_SUM(sum, dot)
        for (Index c = 0; c < width; ++c) {
          const float g = to_float(dy[c]) * to_float(gamma[c]);
          sum += g;
          dot += g * (to_float(x[c]) - mean);
        }
        sum *= inverse_width;
        dot *= inverse_width * rstd;
        T* dx = args.dx.as<T>() + row * width;
        if (args.d_residual) {
          const T* d_residual = args.d_residual.as<T>() + row * width;
          TW_SIMD
          for (Index c = 0; c < width; ++c) {
            const float g = to_float(dy[c]), normal = (to_float(x[c]) - mean) * rstd;
            d_gamma[c] += g * normal;
            d_beta[c] += g;
            store(dx + c, (g * to_float(gamma[c]) - sum - normal * dot) * rstd + to_float(d_residual[c]));
          }
        } else {
          TW_SIMD
          for (Index c = 0; c < width; ++c) {
            const float g = to_float(dy[c]), normal = (to_float(x[c]) - mean) * rstd;
            d_gamma[c] += g * normal;
            d_beta[c] += g;
            store(dx + c, (g * to_float(gamma[c]) - sum - normal * dot) * rstd);
          }
        }
      }
    });
    float *d_gamma = args.d_gamma.as<float>(), *d_beta = args.d_beta.as<float>();
    for (Index c = 0; c < width; ++c) {
      float gamma_sum = args.accumulate ? d_gamma[c] : 0.0f, beta_sum = args.accumulate ? d_beta[c] : 0.0f;
      for (int slice = 0; slice < slices; ++slice) {
        gamma_sum += partials[2 * slice * width + c];
        beta_sum += partials[(2 * slice + 1) * width + c];
      }
      d_gamma[c] = gamma_sum;
      d_beta[c] = beta_sum;
    }
  });
}

void rms_norm_forward(int threads, DType dtype, const RmsNormForward& args) {
  with_type(dtype, [&]<class T>(T*) {
    const Index rows = args.x.dims[0], width = args.x.dims[1];
    const float inverse_width = 1.0f / static_cast<float>(width), epsilon = args.epsilon;
    in_shares(threads, rows * width, rows, 1, [&](Range range) {
      const T* gamma = args.gamma.as<T>();
      for (Index row = range.begin; row < range.end; ++row) {
        const T* x = args.x.as<T>() + row * width;
        float squares = 0;
        if (args.residual) {
          const T* residual = args.residual.as<T>() + row * width;
          T* out = args.sum.as<T>() + row * width;
          TW_SIMD_SUM(squares)
          for (Index c = 0; c < width; ++c) {
            const T rounded = narrowed<T>(to_float(x[c]) + to_float(residual[c]));
            out[c] = rounded;
            squares += to_float(rounded) * to_float(rounded);
          }
          x = out;
        } else {
          TW_SIMD_SUM(squares)
          for (Index c = 0; c < width; ++c) squares += to_float(x[c]) * to_float(x[c]);
        }
        const float rstd = formula::rms_norm_rstd(squares * inverse_width, epsilon);
        T* y = args.y.as<T>() + row * width;
        TW_SIMD
        for (Index c = 0; c < width; ++c) store(y + c, to_float(x[c]) * rstd * to_float(gamma[c]));
        args.rstd.as<float>()[row] = rstd;
      }
    });
  });
}

void rms_norm_backward(int threads, DType dtype, const RmsNormBackward& args, float* partials) {
  with_type(dtype, [&]<class T>(T*) {
    const Index rows = args.x.dims[0], width = args.x.dims[1];
    const float inverse_width = 1.0f / static_cast<float>(width);
    const int slices = rows * width <= serial_elements ? 1 : threads;
    in_slices(slices, rows * width, rows, 1, [&](int slice, Range range) {
      const T* gamma = args.gamma.as<T>();
      float* d_gamma = partials + slice * width;
      std::memset(d_gamma, 0, static_cast<std::size_t>(width) * sizeof(float));
      for (Index row = range.begin; row < range.end; ++row) {
        const T *x = args.x.as<T>() + row * width, *dy = args.dy.as<T>() + row * width;
        const float rstd = args.rstd.as<float>()[row];
        float dot = 0;
        TW_SIMD_SUM(dot)
        for (Index c = 0; c < width; ++c) dot += to_float(dy[c]) * to_float(gamma[c]) * to_float(x[c]);
        const float mean = dot * inverse_width * rstd;
        T* dx = args.dx.as<T>() + row * width;
        if (args.d_residual) {
          const T* d_residual = args.d_residual.as<T>() + row * width;
          TW_SIMD
          for (Index c = 0; c < width; ++c) {
            const float g = to_float(dy[c]), normal = to_float(x[c]) * rstd;
            d_gamma[c] += g * normal;
            const float d = formula::rms_norm_gradient(g * to_float(gamma[c]), normal, mean, rstd);
            store(dx + c, d + to_float(d_residual[c]));
          }
        } else {
          TW_SIMD
          for (Index c = 0; c < width; ++c) {
            const float g = to_float(dy[c]), normal = to_float(x[c]) * rstd;
            d_gamma[c] += g * normal;
            store(dx + c, formula::rms_norm_gradient(g * to_float(gamma[c]), normal, mean, rstd));
          }
        }
      }
    });
    float* d_gamma = args.d_gamma.as<float>();
    for (Index c = 0; c < width; ++c) {
      float sum = args.accumulate ? d_gamma[c] : 0.0f;
      for (int slice = 0; slice < slices; ++slice) sum += partials[slice * width + c];
      d_gamma[c] = sum;
    }
  });
}

namespace {

constexpr Index run_rows = 32;      // rows summed in float32 before they go into float64
constexpr Index block_width = 512;  // channels at a time: their sums stay in the first-level cache

/// Rows to call ahead: without that a core waits for memory a third longer where several rows are read at once.
template <class T>
Index rows_ahead(Index channels) {
  constexpr Index bytes = 2048;
  const Index row = channels * static_cast<Index>(sizeof(T));
  return (bytes + row - 1) / row;
}

/// Two sums over the rows of each channel, in float64: run(first_row, rows, first_channel, width, float* a, float* b)
/// adds a short run of rows. Result: sums[0 … C) and sums[C … 2C). `partials`: double (threads × 2 × C).
template <class Run>
void channel_sums(int threads, Index rows, Index channels, double* partials, Run&& run) {
  const int slices = rows * channels <= serial_elements ? 1 : threads;
  in_slices(slices, rows * channels, rows, 1, [&](int slice, Range range) {
    double* mine = partials + 2 * slice * channels;
    std::memset(mine, 0, static_cast<std::size_t>(2 * channels) * sizeof(double));
    for (Index row = range.begin; row < range.end; row += run_rows) {
      const Index count = range.end - row < run_rows ? range.end - row : run_rows;
      for (Index c = 0; c < channels; c += block_width) {
        const Index width = channels - c < block_width ? channels - c : block_width;
        float a[block_width], b[block_width];
        TW_SIMD
        for (Index k = 0; k < width; ++k) a[k] = b[k] = 0.0f;
        run(row, count, c, width, a, b);
        TW_SIMD
        for (Index k = 0; k < width; ++k) mine[c + k] += static_cast<double>(a[k]);
        TW_SIMD
        for (Index k = 0; k < width; ++k) mine[channels + c + k] += static_cast<double>(b[k]);
      }
    }
  });
  for (int slice = 1; slice < slices; ++slice) {
    for (Index c = 0; c < 2 * channels; ++c) partials[c] += partials[2 * slice * channels + c];
  }
}

/// Sums of (x − shift) and its square do not cancel when shift is near the mean: the mean of 16 rows spread over all.
template <class T>
void find_shift(const T* x, Index rows, Index channels, float* shift) {
  const Index samples = rows < 16 ? rows : 16;
  for (Index c = 0; c < channels; ++c) shift[c] = 0.0f;
  for (Index s = 0; s < samples; ++s) {
    const T* row = x + rows * s / samples * channels;
    TW_SIMD
    for (Index c = 0; c < channels; ++c) shift[c] += to_float(row[c]);
  }
  for (Index c = 0; c < channels; ++c) shift[c] /= static_cast<float>(samples);
}

/// What forward writes without residual and ReLU; the mask of backward is that of these bits.
inline float normalised(float x, float mean, float factor, float beta) { return (x - mean) * factor + beta; }

/// Statistics of each channel, and factor = rstd · gamma in float32, as backward has it, from the sums of (x − shift)
/// and its square.
void write_statistics(const BatchNormForward& args, Index rows, Index channels, const double* sums, const float* shift,
                      float* factor) {
  const double count = static_cast<double>(rows);
  for (Index c = 0; c < channels; ++c) {
    const double delta = sums[c] / count;
    const double spread = sums[channels + c] / count - delta * delta;
    const double variance = spread < 0 ? 0 : spread;  // not max(): a NaN must stay
    const double mean = static_cast<double>(shift[c]) + delta;
    const double rstd = 1.0 / std::sqrt(variance + static_cast<double>(args.epsilon));
    args.mean.as<float>()[c] = static_cast<float>(mean);
    args.rstd.as<float>()[c] = static_cast<float>(rstd);
    factor[c] = args.rstd.as<float>()[c] * args.gamma.as<float>()[c];
    if (!args.running_mean) continue;
    const double unbiased = rows > 1 ? variance * count / (count - 1) : variance;
    float &running_mean = args.running_mean.as<float>()[c], &running_var = args.running_var.as<float>()[c];
    running_mean = static_cast<float>((1.0 - args.momentum) * running_mean + args.momentum * mean);
    running_var = static_cast<float>((1.0 - args.momentum) * running_var + args.momentum * unbiased);
  }
}

}  // namespace

void batch_norm_forward(int threads, DType dtype, const BatchNormForward& args, void* workspace) {
  with_type(dtype, [&]<class T>(T*) {
    const Index channels = args.x.dims[3], rows = args.x.count() / channels;
    const Index ahead = rows_ahead<T>(channels) * channels;
    const T *x = args.x.as<T>(), *residual = args.residual.as<T>();
    double* sums = static_cast<double*>(workspace);
    float* shift = reinterpret_cast<float*>(sums + 2 * threads * channels);
    float* factor = shift + channels;
    find_shift(x, rows, channels, shift);
    channel_sums(threads, rows, channels, sums,
                 [&](Index row, Index count, Index first, Index width, float* a, float* b) {
                   const float* base = shift + first;
                   for (Index r = row; r < row + count; ++r) {
                     const T* values = x + r * channels + first;
                     prefetch(values + ahead, width);
                     TW_SIMD
                     for (Index k = 0; k < width; ++k) {
                       const float d = to_float(values[k]) - base[k];
                       a[k] += d;
                       b[k] += d * d;
                     }
                   }
                 });
    write_statistics(args, rows, channels, sums, shift, factor);
    const float *centre = args.mean.as<float>(), *beta = args.beta.as<float>();
    T* y = args.y.as<T>();
    const bool relu = args.relu;
    in_shares(threads, rows * channels, rows, 1, [&](Range range) {
      for (Index r = range.begin; r < range.end; ++r) {
        const T* in = x + r * channels;
        T* out = y + r * channels;
        prefetch(in + ahead, channels);
        if (residual != nullptr) {
          const T* other = residual + r * channels;
          prefetch(other + ahead, channels);
          TW_SIMD
          for (Index c = 0; c < channels; ++c) {
            const float v = normalised(to_float(in[c]), centre[c], factor[c], beta[c]) + to_float(other[c]);
            store(out + c, relu && v < 0.0f ? 0.0f : v);
          }
        } else {
          TW_SIMD
          for (Index c = 0; c < channels; ++c) {
            const float v = normalised(to_float(in[c]), centre[c], factor[c], beta[c]);
            store(out + c, relu && v < 0.0f ? 0.0f : v);
          }
        }
      }
    });
  });
}

namespace {

/// The ReLU's mask: none, by the sign of what forward wrote, or by the sign of that computed again.
enum class Mask { none, stored, computed };

/// A row and the figures of its channels; what is not used is null.
template <class T>
struct GradientRow {
  const T *x, *dy, *more, *y;
  T* kept;
  const float *mean, *factor, *beta;
};

/// dy at k under the mask.
template <Mask mask, class T>
inline float masked(const GradientRow<T>& row, Index k, float g) {
  if (mask == Mask::stored) return to_float(row.y[k]) > 0.0f ? g : 0.0f;
  if (mask == Mask::none) return g;
  const T y = narrowed<T>(normalised(to_float(row.x[k]), row.mean[k], row.factor[k], row.beta[k]));
  return to_float(y) > 0.0f ? g : 0.0f;
}

/// Σ g and Σ g·(x − mean): dy, with what is added, under the mask; kept where another branch wants it.
template <Mask mask, bool keep, bool add, class T>
TW_LOOP void gradient_sums_loop(const GradientRow<T> row, Index width, float* __restrict a, float* __restrict b) {
  TW_SIMD
  for (Index k = 0; k < width; ++k) {
    float g = to_float(row.dy[k]);
    if (add) g = to_float(narrowed<T>(g + to_float(row.more[k])));
    g = masked<mask>(row, k, g);
    if (keep) store(row.kept + k, g);
    a[k] += g;
    b[k] += g * (to_float(row.x[k]) - row.mean[k]);
  }
}
/// Those that may occur: what is computed again is not kept, and what is added is.
template <class T>
auto gradient_sums_loop_for(Mask mask, bool keep, bool add) {
  using enum Mask;
  if (mask == computed) return gradient_sums_loop<computed, false, false, T>;
  if (mask == stored)
    return !keep ? gradient_sums_loop<stored, false, false, T>
           : add ? gradient_sums_loop<stored, true, true, T>
                 : gradient_sums_loop<stored, true, false, T>;
  return !keep ? gradient_sums_loop<none, false, false, T>
         : add ? gradient_sums_loop<none, true, true, T>
               : gradient_sums_loop<none, true, false, T>;
}

template <Mask mask, class T>
TW_LOOP void gradient_loop(const GradientRow<T> row, const float* slope, const float* offset, Index width, T* dx) {
  TW_SIMD
  for (Index k = 0; k < width; ++k) {
    const float g = masked<mask>(row, k, to_float(row.dy[k]));
    store(dx + k, row.factor[k] * g + slope[k] * (to_float(row.x[k]) - row.mean[k]) + offset[k]);
  }
}

}  // namespace

void batch_norm_backward(int threads, DType dtype, const BatchNormBackward& args, void* workspace) {
  with_type(dtype, [&]<class T>(T*) {
    const Index channels = args.x.dims[3], rows = args.x.count() / channels;
    const Index ahead = rows_ahead<T>(channels) * channels;
    const T *dy = args.dy.as<T>(), *more = args.dy_more.as<T>();
    T *dx = args.dx.as<T>(), *d_residual = args.d_residual.as<T>();
    Mask mask = !args.relu ? Mask::none : args.y ? Mask::stored : Mask::computed;
    const float *gamma = args.gamma.as<float>(), *mean = args.mean.as<float>(), *rstd = args.rstd.as<float>();
    double* sums = static_cast<double*>(workspace);
    float* factor = reinterpret_cast<float*>(sums + 2 * threads * channels);
    float *slope = factor + channels, *offset = slope + channels;
    for (Index c = 0; c < channels; ++c) factor[c] = rstd[c] * gamma[c];
    const auto row_at = [&](Index r, Index first) {
      const Index at = r * channels + first;
      return GradientRow<T>{.x = args.x.as<T>() + at,
                            .dy = dy + at,
                            .more = more != nullptr ? more + at : nullptr,
                            .y = mask == Mask::stored ? args.y.as<T>() + at : nullptr,
                            .kept = d_residual != nullptr ? d_residual + at : nullptr,
                            .mean = mean + first,
                            .factor = factor + first,
                            .beta = mask == Mask::computed ? args.beta.as<float>() + first : nullptr};
    };
    const auto prefetch_row = [&](const GradientRow<T>& row, Index width) {
      prefetch(row.x + ahead, width);
      prefetch(row.dy + ahead, width);
      if (mask == Mask::stored) prefetch(row.y + ahead, width);
      if (more != nullptr) prefetch(row.more + ahead, width);
    };
    const auto sums_loop = gradient_sums_loop_for<T>(mask, d_residual != nullptr, more != nullptr);
    channel_sums(threads, rows, channels, sums,
                 [&](Index first_row, Index count, Index first, Index width, float* a, float* b) {
                   for (Index r = first_row; r < first_row + count; ++r) {
                     const GradientRow<T> row = row_at(r, first);
                     prefetch_row(row, width);
                     sums_loop(row, width, a, b);
                   }
                 });
    const double count = static_cast<double>(rows);
    for (Index c = 0; c < channels; ++c) {
      const double r = static_cast<double>(rstd[c]), g = static_cast<double>(gamma[c]);
      const double sum = sums[c], dot = sums[channels + c] * r;  // Σ dy, Σ dy·x̂
      float &d_beta = args.d_beta.as<float>()[c], &d_gamma = args.d_gamma.as<float>()[c];
      d_beta = static_cast<float>(args.accumulate ? d_beta + sum : sum);
      d_gamma = static_cast<float>(args.accumulate ? d_gamma + dot : dot);
      // dx = γ·rstd·(dy − Σdy/n − x̂·Σ(dy·x̂)/n) = factor·dy + slope·(x − mean) + offset; centred, because folding the
      // mean into the offset would cancel where a channel's mean is large against its spread
      slope[c] = static_cast<float>(-g * r * r * dot / count);
      offset[c] = static_cast<float>(-g * r * sum / count);
    }
    if (d_residual != nullptr) dy = d_residual, more = nullptr, mask = Mask::none;  // through the ReLU already
    const auto loop = mask == Mask::stored     ? gradient_loop<Mask::stored, T>
                      : mask == Mask::computed ? gradient_loop<Mask::computed, T>
                                               : gradient_loop<Mask::none, T>;
    in_shares(threads, rows * channels, rows, 1, [&](Range range) {
      for (Index r = range.begin; r < range.end; ++r) {
        const GradientRow<T> row = row_at(r, 0);
        prefetch_row(row, channels);
        loop(row, slope, offset, channels, dx + r * channels);
      }
    });
  });
}

}  // namespace tw::models::cpu::TW_ISA
