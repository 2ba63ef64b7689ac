// Softmax rows of attention and of the classifier.
#include "models/compute/cpu/kernel_support.hpp"

namespace tw::cpu::TW_ISA {

namespace {
inline Index visible(Index row, Index first, Index columns, bool causal) {
  return causal && first + row + 1 < columns ? first + row + 1 : columns;
}
}  // namespace

void attention_probabilities(DType dtype, const float* scores, Index rows, Index first, Index columns, Index ld,
                             bool causal, float scale, void* p_data, float* log_sum_exp) {
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (Index r = 0; r < rows; ++r) {
      const float* s = scores + r * ld;
      T* p = static_cast<T*>(p_data) + r * ld;
      const Index seen = visible(r, first, columns, causal);
      float top = s[0];
      TW_SIMD_MAX(top)
      for (Index c = 0; c < seen; ++c) top = s[c] > top ? s[c] : top;
      float sum = 0, exponentials[2048];
      // e^x is kept where the row fits, so that it is computed once; longer rows compute it twice.
      const bool fits = seen <= 2048;
      if (fits) {
        TW_SIMD_SUM(sum)
        for (Index c = 0; c < seen; ++c) {
          exponentials[c] = formula::exponential((s[c] - top) * scale);
          sum += exponentials[c];
        }
        const float inverse = 1.0f / sum;
        TW_SIMD
        for (Index c = 0; c < seen; ++c) store(p + c, exponentials[c] * inverse);
      } else {
        TW_SIMD_SUM(sum)
        for (Index c = 0; c < seen; ++c) sum += formula::exponential((s[c] - top) * scale);
        const float inverse = 1.0f / sum;
        TW_SIMD
        for (Index c = 0; c < seen; ++c) store(p + c, formula::exponential((s[c] - top) * scale) * inverse);
      }
      for (Index c = seen; c < columns; ++c) p[c] = T{};
      log_sum_exp[r] = top * scale + std::log(sum);
    }
  });
}

void attention_gradient(DType dtype, const float* scores, const float* dp_data, Index rows, Index first, Index columns,
                        Index ld, bool causal, float scale, const float* log_sum_exp, const float* delta, void* p_data,
                        void* ds_data) {
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
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
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (Index r = 0; r < rows; ++r) {
      const T *a = static_cast<const T*>(a_data) + r * lda, *b = static_cast<const T*>(b_data) + r * ldb;
      float sum = 0;
      TW_SIMD_SUM(sum)
      for (Index c = 0; c < width; ++c) sum += to_float(a[c]) * to_float(b[c]);
      y[r] = sum;
    }
  });
}

void store_rows(DType dtype, const float* x, Index rows, Index width, void* y_data, Index ldy) {
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (Index r = 0; r < rows; ++r) {
      T* y = static_cast<T*>(y_data) + r * ldy;
      TW_SIMD
      for (Index c = 0; c < width; ++c) store(y + c, x[r * width + c]);
    }
  });
}

void classifier_statistics(int threads, DType dtype, const float* logits, Index rows, Index first, Index width,
                           const std::int32_t* targets, void* e_data, float* tile_max, float* tile_sum,
                           float* tile_logit_sum, float* best, std::int32_t* best_index, float* target_logit) {
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    in_parallel(threads, rows * width, [&](int part, int parts) {
      const Range range = share(rows, parts, part, 1);
      for (Index r = range.begin; r < range.end; ++r) {
        const float* l = logits + r * width;
        T* e = static_cast<T*>(e_data) + r * width;
        float top = l[0], sum = 0, linear = 0;
        TW_SIMD_MAX(top)
        for (Index c = 0; c < width; ++c) top = l[c] > top ? l[c] : top;
        if (top > best[r]) {  // strictly: the first of equals wins
          Index at = 0;
          while (at < width - 1 && l[at] != top) ++at;
          best[r] = top;
          best_index[r] = static_cast<std::int32_t>(first + at);
        }
        const Index target = targets[r] - first;
        if (target >= 0 && target < width) target_logit[r] = l[target];  // before e, which may share its memory
        TW_SIMD_SUM(sum, linear)
        for (Index c = 0; c < width; ++c) {
          const float value = formula::exponential(l[c] - top);
          linear += l[c];
          sum += value;
          store(e + c, value);
        }
        tile_max[r] = top;
        tile_sum[r] = sum;
        tile_logit_sum[r] = linear;
      }
    });
  });
}

void classifier_gradient(int threads, DType dtype, void* e_data, Index rows, Index first, Index width,
                         const std::int32_t* targets, const float* tile_max, const float* log_sum_exp,
                         LabelSmoothing smoothing, float scale) {
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    in_parallel(threads, rows * width, [&](int part, int parts) {
      const Range range = share(rows, parts, part, 1);
      const float everywhere = smoothing.everywhere * scale;
      for (Index r = range.begin; r < range.end; ++r) {
        T* e = static_cast<T*>(e_data) + r * width;
        const float factor = formula::exponential(tile_max[r] - log_sum_exp[r]) * scale;
        const Index target = targets[r] - first;
        const bool here = target >= 0 && target < width;
        const float at_target = here ? to_float(e[target]) * factor - everywhere - smoothing.on_target * scale : 0.0f;
        TW_SIMD
        for (Index c = 0; c < width; ++c) store(e + c, to_float(e[c]) * factor - everywhere);
        if (here) store(e + target, at_target);
      }
    });
  });
}

}  // namespace tw::cpu::TW_ISA
