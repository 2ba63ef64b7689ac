// Softmax rows of attention and of the classifier.
#include <type_traits>

#include "models/compute/cpu/kernel_support.hpp"

namespace tw::models::cpu::TW_ISA {

namespace {
struct Sums {
  float exact, rounded;
};
/// e = exp((s − top) · scale) as T, with the sums of both.
template <class T>
TW_LOOP Sums exponentials_loop(const float* s, float top, float scale, T* e, Index count) {
  constexpr Index lanes = 32;
  float sums[lanes] = {}, rounded_sums[lanes] = {};
  for (Index c = 0; c < count; c += lanes) {
    float values[lanes];
    const Index run = count - c < lanes ? count - c : lanes;
    if (run == lanes) {
      TW_SIMD
      for (Index k = 0; k < lanes; ++k) values[k] = formula::exponential((s[c + k] - top) * scale);
      TW_SIMD
      for (Index k = 0; k < lanes; ++k) store(e + c + k, values[k]);
      TW_SIMD
      for (Index k = 0; k < lanes; ++k) rounded_sums[k] += to_float(e[c + k]);
      TW_SIMD
      for (Index k = 0; k < lanes; ++k) sums[k] += values[k];
    } else {
      for (Index k = 0; k < run; ++k) {
        const float value = formula::exponential((s[c + k] - top) * scale);
        store(e + c + k, value);
        rounded_sums[k] += to_float(e[c + k]);
        sums[k] += value;
      }
    }
  }
  Sums total{0, 0};
  for (Index k = 0; k < lanes; ++k) {
    total.exact += sums[k];
    total.rounded += rounded_sums[k];
  }
  return total;
}
/// The largest of top and of 32 lanes.
TW_LOOP float maximum_of_lanes(float* lanes, float top) {
  TW_SIMD
  for (Index k = 0; k < 16; ++k) lanes[k] = lanes[k + 16] > lanes[k] ? lanes[k + 16] : lanes[k];
  TW_SIMD
  for (Index k = 0; k < 8; ++k) lanes[k] = lanes[k + 8] > lanes[k] ? lanes[k + 8] : lanes[k];
  for (Index k = 0; k < 8; ++k) top = lanes[k] > top ? lanes[k] : top;
  return top;
}
/// In lanes: clang does not vectorise a reduction of floats by >, because they may be NaN.
TW_LOOP float maximum_loop(const float* s, Index count) {
  constexpr Index lanes = 32;
  float top = s[0], tops[lanes];
  for (Index k = 0; k < lanes; ++k) tops[k] = s[0];
  Index c = 0;
  for (; c + lanes <= count; c += lanes) {
    TW_SIMD
    for (Index k = 0; k < lanes; ++k) tops[k] = s[c + k] > tops[k] ? s[c + k] : tops[k];
  }
  for (; c < count; ++c) top = s[c] > top ? s[c] : top;
  return count < lanes ? top : maximum_of_lanes(tops, top);
}
TW_LOOP float sum_loop(const float* s, Index count) {
  float sum = 0;
  TW_SIMD_SUM(sum)
  for (Index c = 0; c < count; ++c) sum += s[c];
  return sum;
}
inline Index visible(Index row, Index first, Index columns, bool causal) {
  return causal && first + row + 1 < columns ? first + row + 1 : columns;
}
}  // namespace

void attention_exponentials(DType dtype, const float* scores, Index rows, Index first, Index columns, Index ld,
                            bool causal, float scale, void* e_data, float* inverse_sum, float* log_sum_exp) {
  with_type(dtype, [&]<class T>(T*) {
    for (Index r = 0; r < rows; ++r) {
      const float* s = scores + r * ld;
      T* e = static_cast<T*>(e_data) + r * ld;
      const Index seen = visible(r, first, columns, causal);
      const float top = maximum_loop(s, seen);
      const Sums sums = exponentials_loop(s, top, scale, e, seen);
      for (Index c = seen; c < columns; ++c) e[c] = T{};
      inverse_sum[r] = 1.0f / sums.rounded;
      log_sum_exp[r] = top * scale + std::log(sums.exact);
    }
  });
}

void attention_gradient(DType dtype, const float* scores, const float* dp_data, Index rows, Index first, Index columns,
                        Index ld, bool causal, float scale, const float* log_sum_exp, const float* delta, void* p_data,
                        void* ds_data) {
  with_type(dtype, [&]<class T>(T*) {
    for (Index r = 0; r < rows; ++r) {
      const float *s = scores + r * ld, *dp = dp_data + r * ld;
      T *p = static_cast<T*>(p_data) + r * ld, *ds = static_cast<T*>(ds_data) + r * ld;
      const Index seen = visible(r, first, columns, causal);
      const float level = log_sum_exp[r], mean = delta[r];
      TW_SIMD
      for (Index c = 0; c < seen; ++c) {
        const float e = formula::exponential(s[c] * scale - level);
        store(p + c, e);
        store(ds + c, e * (dp[c] - mean) * scale);
      }
      for (Index c = seen; c < columns; ++c) p[c] = ds[c] = T{};
    }
  });
}

void row_dots(DType dtype, const void* a_data, Index lda, const void* b_data, Index ldb, Index rows, Index width,
              float* y) {
  with_type(dtype, [&]<class T>(T*) {
    for (Index r = 0; r < rows; ++r) {
      const T *a = static_cast<const T*>(a_data) + r * lda, *b = static_cast<const T*>(b_data) + r * ldb;
      float sum = 0;
      TW_SIMD_SUM(sum)
      for (Index c = 0; c < width; ++c) sum += to_float(a[c]) * to_float(b[c]);
      y[r] = sum;
    }
  });
}

void store_rows(DType dtype, const float* x, Index rows, Index width, const float* row_factor, void* y_data,
                Index ldy) {
  with_type(dtype, [&]<class T>(T*) {
    for (Index r = 0; r < rows; ++r) {
      T* y = static_cast<T*>(y_data) + r * ldy;
      const float factor = row_factor != nullptr ? row_factor[r] : 1.0f;
      TW_SIMD
      for (Index c = 0; c < width; ++c) store(y + c, x[r * width + c] * factor);
    }
  });
}

namespace {

/// Exponentials are kept where the gradient made from them will stand, and one loop reads the former and writes the
/// latter. Both go through one type, the bits of an element: with a class for each, the compiler might take them for
/// different memory.
template <class T>
using Bits = std::conditional_t<std::is_same_v<T, bf16>, std::uint16_t, float>;

/// In 16 bits a number in [0, 1] has 5 bits of exponent, 11 of fraction, no sign. Rounding errs by 2^-12, so that
/// dlogits made from it are as good as rounded once to bf16; numbers below 2^-31 become 0.
constexpr std::uint32_t unit16_bias = (127u - 31u) << 11;

inline void store_unit(std::uint16_t* destination, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7ffu + ((bits >> 12) & 1u)) >> 12;
  *destination = static_cast<std::uint16_t>(rounded > unit16_bias ? rounded - unit16_bias : 0u);
}
inline void store_unit(float* destination, float value) { *destination = value; }
inline float unit_to_float(std::uint16_t value) {
  const std::uint32_t bits = (static_cast<std::uint32_t>(value) + unit16_bias) << 12;
  return value == 0 ? 0.0f : std::bit_cast<float>(bits);
}
inline float unit_to_float(float value) { return value; }
inline void store_gradient(std::uint16_t* destination, float value) { *destination = to_bf16(value).bits; }
inline void store_gradient(float* destination, float value) { *destination = value; }

/// e = exp(l − top); returns their sum. Sums of single lanes meet in float64: 1 − p of a sure prediction keeps its
/// digits.
template <class E>
TW_LOOP double unit_exponentials_loop(const float* l, float top, E* e, Index count) {
  constexpr Index lanes = 32;
  float sums[lanes] = {};
  Index c = 0;
  for (; c + lanes <= count; c += lanes) {
    float values[lanes];
    TW_SIMD
    for (Index k = 0; k < lanes; ++k) values[k] = formula::exponential(l[c + k] - top);
    TW_SIMD
    for (Index k = 0; k < lanes; ++k) store_unit(e + c + k, values[k]);
    TW_SIMD
    for (Index k = 0; k < lanes; ++k) sums[k] += values[k];
  }
  for (Index k = 0; c < count; ++c, ++k) {
    const float value = formula::exponential(l[c] - top);
    sums[k] += value;
    store_unit(e + c, value);
  }
  double sum = 0;
  for (const float lane : sums) sum += static_cast<double>(lane);
  return sum;
}

}  // namespace

void classifier_statistics(int threads, DType dtype, const float* logits, Index rows, Index first, Index width,
                           const std::int32_t* targets, void* e_data, float* tile_max, double* tile_sum,
                           float* tile_logit_sum, float* best, std::int32_t* best_index, float* target_logit) {
  with_type(dtype, [&]<class T>(T*) {
    using E = Bits<T>;
    in_shares(threads, rows * width, rows, 1, [&](Range range) {
      for (Index r = range.begin; r < range.end; ++r) {
        const float* l = logits + r * width;
        E* e = static_cast<E*>(e_data) + r * width;
        const float top = maximum_loop(l, width);
        if (top > best[r]) {  // strictly: the first of equals wins
          Index at = 0;
          while (at < width - 1 && l[at] != top) ++at;
          best[r] = top;
          best_index[r] = static_cast<std::int32_t>(first + at);
        }
        const Index target = targets[r] - first;
        if (target >= 0 && target < width) target_logit[r] = l[target];  // before e, which may share its memory
        if (tile_logit_sum != nullptr) tile_logit_sum[r] = sum_loop(l, width);
        tile_sum[r] = unit_exponentials_loop(l, top, e, width);
        tile_max[r] = top;
      }
    });
  });
}

void classifier_gradient(int threads, DType dtype, void* e_data, Index rows, Index first, Index width,
                         const std::int32_t* targets, const float* tile_max, const float* best, const double* sum,
                         LabelSmoothing smoothing) {
  with_type(dtype, [&]<class T>(T*) {
    using E = Bits<T>;
    in_parallel(threads, rows * width, [&](int part, int parts) {  // in_shares() takes a quarter longer on AVX2
      const Range range = share(rows, parts, part, 1);
      for (Index r = range.begin; r < range.end; ++r) {
        E* e = static_cast<E*>(e_data) + r * width;  // becomes the gradient
        const double exact_factor = std::exp(static_cast<double>(tile_max[r]) - static_cast<double>(best[r])) / sum[r];
        const float factor = static_cast<float>(exact_factor), everywhere = smoothing.everywhere;
        const Index target = targets[r] - first;
        const bool here = target >= 0 && target < width;
        const double at_target = here ? static_cast<double>(unit_to_float(e[target])) * exact_factor -
                                            static_cast<double>(everywhere) - static_cast<double>(smoothing.on_target)
                                      : 0.0;
        TW_SIMD
        for (Index c = 0; c < width; ++c) store_gradient(e + c, unit_to_float(e[c]) * factor - everywhere);
        if (here) store_gradient(e + target, static_cast<float>(at_target));
      }
    });
  });
}

}  // namespace tw::models::cpu::TW_ISA
