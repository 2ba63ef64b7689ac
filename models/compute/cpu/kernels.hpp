// The vectorised loops of the cpu device: one table of functions for each instruction set. The sources kernels_*.cpp
// are compiled once for each of TW_CPU_INSTRUCTION_SETS in a namespace of that name, and the device takes one table at
// run time, so that a program built on one machine runs on another. Those sources call only functions with internal
// linkage: a shared inline function compiled with AVX-512 could otherwise be the copy that the linker keeps for all.
//
// `threads` is the most that a kernel may use; small work runs on the calling thread. Rows and columns are dense unless
// a leading dimension (`ld…`, elements) says otherwise. T is float32 or bf16 as the dtype argument says.
#pragma once

#include <cstdint>

#include "models/compute/operators.hpp"

namespace tw::models::cpu {

using Index = std::int64_t;

struct LabelSmoothing {
  float on_target = 1;   ///< 1 − ε
  float everywhere = 0;  ///< ε / classes
};

// clang-format off
#define TW_CPU_KERNELS(X)                                                                                                  \
  /* elementwise; `count` elements; outputs may alias inputs */                                                            \
  X(void, gelu_forward, (int threads, DType dtype, const void* x, void* y, Index count))                                   \
  X(void, gelu_backward, (int threads, DType dtype, const void* x, void* dx, Index count)) /* dx *= gelu'(x) */            \
  X(void, add, (int threads, DType dtype, const void* a, const void* b, void* y, Index count))                             \
  X(void, cast, (int threads, DType from, const void* x, void* y, Index count)) /* float32 ↔ bf16 */                       \
  X(void, fill, (int threads, DType dtype, void* y, Index count, float value))                                             \
  X(void, copy, (int threads, const void* x, void* y, Index bytes))                                                        \
  /* sums[c] (+)= scale · Σ_r x[r,c]; partials: double (threads × columns) */                                              \
  X(void, column_sums, (int threads, DType dtype, const void* x, Index rows, Index columns, float scale, float* sums,      \
                        bool accumulate, double* partials))                                                                                \
  X(void, transpose, (int threads, DType dtype, const void* x, Index rows, Index columns, void* y))                        \
  /* x, 16-bit (rows × columns), element (r, c) at r·ld + c, or at c·ld + r where stored by columns → the layout of the    \
     library's 16-bit products, BA16a<width>b2a: blocks of 32 rows × `width` columns, those of the same columns behind     \
     each other; in a block 16 pairs of rows, column after column. rows % 32 = columns % width = width % 16 = 0 */         \
  X(void, pack_row_pairs, (int threads, const void* x, bool by_columns, Index rows, Index columns, Index ld, Index width,  \
                           void* y))                                                                                       \
  /* convolutions as products of rows: one row for each output position, (kernel, kernel, in) elements; `count` rows from     \
     `first` on. spread_pixels: kernel 1, no padding: rows (batch·oh·ow, in) → dx, zero where no output position looks */   \
  X(void, gather_patches, (int threads, const ConvolutionShape& shape, const void* x, Index first, Index count, void* rows)) \
  X(void, spread_pixels, (int threads, const ConvolutionShape& shape, const void* rows, void* dx))                         \
  /* embedding */                                                                                                            \
  X(void, embedding_forward, (int threads, DType dtype, const EmbeddingForward& args))                                     \
  X(void, embedding_backward, (int threads, DType dtype, const EmbeddingBackward& args))                                   \
  /* norms; partials: layer norm float (threads × 2 × width); batch norm double (threads × 2 × channels) + float (4 × C) */ \
  X(void, layer_norm_forward, (int threads, DType dtype, const LayerNormForward& args))                                    \
  X(void, layer_norm_backward, (int threads, DType dtype, const LayerNormBackward& args, float* partials))                 \
  X(void, batch_norm_forward, (int threads, DType dtype, const BatchNormForward& args, void* partials))                    \
  X(void, batch_norm_backward, (int threads, DType dtype, const BatchNormBackward& args, void* partials))                  \
  /* pooling */                                                                                                            \
  X(void, max_pool_forward, (int threads, DType dtype, const MaxPoolForward& args))                                        \
  X(void, max_pool_backward, (int threads, DType dtype, const MaxPoolBackward& args))                                      \
  X(void, average_pool_forward, (int threads, DType dtype, const AveragePoolForward& args))                                \
  X(void, average_pool_backward, (int threads, DType dtype, const AveragePoolBackward& args))                              \
  /* attention, one block of query rows on the calling thread. Row r sees keys [0, min(columns, first + r + 1)) where      \
     causal, else all; the rest of e, p and ds is zeroed. scores, dp: float (rows × ld).                                   \
     e = exp(scale · (score − its row's maximum)); inverse_sum: of the rounded e, to be applied to the product e·v */      \
  X(void, attention_exponentials, (DType dtype, const float* scores, Index rows, Index first, Index columns, Index ld,     \
                                   bool causal, float scale, void* e, float* inverse_sum, float* log_sum_exp))             \
  X(void, attention_gradient, (DType dtype, const float* scores, const float* dp, Index rows, Index first, Index columns,  \
                               Index ld, bool causal, float scale, const float* log_sum_exp, const float* delta, void* p,  \
                               void* ds))                                                                                  \
  X(void, row_dots, (DType dtype, const void* a, Index lda, const void* b, Index ldb, Index rows, Index width, float* y))  \
  X(void, store_rows, (DType dtype, const float* x, Index rows, Index width, const float* row_factor, void* y, Index ldy)) \
  /* classifier, one tile of classes [first, first + width): logits float (rows × width) →                                 \
     e = exp(logit − max of the row in this tile), in sizeof(T) bytes (Unit16 in bf16), statistics of the tile;            \
     tile_logit_sum is optional; best, best_index and target_logit are updated */                                          \
  X(void, classifier_statistics, (int threads, DType dtype, const float* logits, Index rows, Index first, Index width,     \
                                  const std::int32_t* targets, void* e, float* tile_max, double* tile_sum,                 \
                                  float* tile_logit_sum, float* best, std::int32_t* best_index, float* target_logit))      \
  /* e → rows · dlogits as T, in place: e·exp(tile_max − best)/sum − target distribution */                                \
  X(void, classifier_gradient, (int threads, DType dtype, void* e, Index rows, Index first, Index width,                   \
                                const std::int32_t* targets, const float* tile_max, const float* best, const double* sum,  \
                                LabelSmoothing smoothing))                                                                 \
  /* optimizer; partials: double (threads) */                                                                              \
  X(double, sum_of_squares, (int threads, const float* x, Index count, double* partials))                                  \
  X(void, adamw, (int threads, const AdamW& args))                                                                         \
  X(void, sgd, (int threads, const Sgd& args))
// clang-format on

struct Kernels {
  const char* name;
#define TW_CPU_MEMBER(result, kernel, arguments) result(*kernel) arguments;
  TW_CPU_KERNELS(TW_CPU_MEMBER)
#undef TW_CPU_MEMBER
};

namespace baseline {
extern const Kernels table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
#endif

}  // namespace tw::models::cpu
