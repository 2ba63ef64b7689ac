// Our own kernels: what no library does, or what fused is one pass over memory. Each function enqueues on `stream` of
// the current device and returns; nothing allocates or synchronises, so that all of it can be captured in a graph.
// Shapes and dtypes have been checked by Device. T is the tensors' dtype; sums, statistics and formulas are float32 or
// wider.
//
// Deterministic: no atomics on floating point, and launch shapes follow from the extents alone, so that a result
// depends neither on the run nor on the size of the GPU. Loads and stores are 16 bytes wide where address and extent
// allow. Private to models/compute/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "models/compute/fp8.hpp"
#include "models/compute/operators.hpp"

namespace tw::models::cuda {

using Index = std::int64_t;

/// What the runtime says about this program's code on the current device: cudaSuccess, or
/// cudaErrorNoKernelImageForDevice.
cudaError_t find_kernel_image();

// ---- operators of Device; `scratch` has at least scratch_bytes(args), 256-byte aligned, whatever they hold ----
void embedding_forward(cudaStream_t stream, const EmbeddingForward& args);
std::size_t scratch_bytes(const EmbeddingBackward& args);  // of the sort too
void embedding_backward(cudaStream_t stream, const EmbeddingBackward& args, void* scratch);
void layer_norm_forward(cudaStream_t stream, const LayerNormForward& args);
std::size_t scratch_bytes(const LayerNormBackward& args);
void layer_norm_backward(cudaStream_t stream, const LayerNormBackward& args, void* scratch);
void rms_norm_forward(cudaStream_t stream, const RmsNormForward& args);
std::size_t scratch_bytes(const RmsNormBackward& args);
void rms_norm_backward(cudaStream_t stream, const RmsNormBackward& args, void* scratch);
std::size_t scratch_bytes(const BatchNormForward& args);
void batch_norm_forward(cudaStream_t stream, const BatchNormForward& args, void* scratch);
std::size_t scratch_bytes(const BatchNormBackward& args);
void batch_norm_backward(cudaStream_t stream, const BatchNormBackward& args, void* scratch);
void max_pool_forward(cudaStream_t stream, const MaxPoolForward& args);
void max_pool_backward(cudaStream_t stream, const MaxPoolBackward& args);  // gathers: no atomics
void average_pool_forward(cudaStream_t stream, const AveragePoolForward& args);
void average_pool_backward(cudaStream_t stream, const AveragePoolBackward& args);
void copy_channels(cudaStream_t stream, const CopyChannels& args);
void rotary(cudaStream_t stream, const Rotary& args);
void swiglu_forward(cudaStream_t stream, const SwigluForward& args);
void swiglu_backward(cudaStream_t stream, const SwigluBackward& args);
void gather_rows(cudaStream_t stream, const GatherRows& args);
void scatter_rows(cudaStream_t stream, const ScatterRows& args);
void embedding_bag_forward(cudaStream_t stream, const EmbeddingBagForward& args);
std::size_t scratch_bytes(const EmbeddingBagUpdate& args);  // of the sort too
void embedding_bag_update(cudaStream_t stream, const EmbeddingBagUpdate& args, void* scratch);
void interaction_forward(cudaStream_t stream, const InteractionForward& args);
void interaction_backward(cudaStream_t stream, const InteractionBackward& args);
std::size_t scratch_bytes(const BinaryCrossEntropy& args);
void binary_cross_entropy(cudaStream_t stream, const BinaryCrossEntropy& args, void* scratch);
std::size_t scratch_bytes(const MeanSquaredError& args);
void mean_squared_error(cudaStream_t stream, const MeanSquaredError& args, void* scratch);
void add_bias(cudaStream_t stream, const AddBias& args);
std::size_t scratch_bytes(const BiasBackward& args);
void bias_backward(cudaStream_t stream, const BiasBackward& args, void* scratch);
void activation_forward(cudaStream_t stream, const ActivationForward& args);
void activation_backward(cudaStream_t stream, const ActivationBackward& args);
void add(cudaStream_t stream, const Add& args);
void cast(cudaStream_t stream, const Cast& args);
void fill(cudaStream_t stream, const Fill& args);
std::size_t scratch_bytes(const GlobalNorm& args);
void global_norm(cudaStream_t stream, const GlobalNorm& args, void* scratch);
void adamw(cudaStream_t stream, const AdamW& args);
void sgd(cudaStream_t stream, const Sgd& args);
void update_loss_scale(cudaStream_t stream, const UpdateLossScale& args);
void generate_tokens(cudaStream_t stream, const GenerateTokens& args);
void generate_images(cudaStream_t stream, const GenerateImages& args);
void generate_clicks(cudaStream_t stream, const GenerateClicks& args);

// ---- parts of plans ----
/// y[r, c] = bias[c] (+ residual[r, c] where it is given); y may be residual.
void bias_rows(cudaStream_t stream, DType dtype, const void* bias, const void* residual, void* y, Index rows,
               Index columns);
/// y = gelu(x), and dx *= gelu'(x); `count` elements of dtype. y may be x.
void gelu_forward(cudaStream_t stream, DType dtype, const void* x, void* y, Index count);
void gelu_backward(cudaStream_t stream, DType dtype, const void* x, void* dx, Index count);
/// sums[c] (+)= scale · Σ_r x[r·ld + c]
std::size_t column_sums_scratch(Index rows, Index columns);
void column_sums(cudaStream_t stream, DType dtype, const void* x, Index rows, Index columns, Index ld, float scale,
                 float* sums, bool accumulate, void* scratch);

/// y (rows, padded_channels) = x (rows, channels) with zeros behind; bf16 or fp16, channels ≤ padded_channels.
constexpr Index padded_channels = 8;
void pad_channels(cudaStream_t stream, DType dtype, const void* x, Index rows, Index channels, void* y);

/// A chunk of rows of the output head.
struct ClassifierRows {
  DType dtype = DType::float32;           ///< of logits
  void* logits = nullptr;                 ///< T (rows, ld); columns from `classes` on are padding
  const void* bias = nullptr;             ///< T (classes); optional, added to the logits first
  const std::int32_t* targets = nullptr;  ///< (rows)
  Index rows = 0, classes = 0, ld = 0;
  float label_smoothing = 0;
  bool backward = true;       ///< logits become factor · (softmax − target distribution), padding 0
  float gradient_factor = 1;  ///< the factor, times scalars->loss_scale where they are given
  const StepScalars* scalars = nullptr;
  float* row_loss = nullptr;            ///< (rows)
  std::int32_t* row_correct = nullptr;  ///< (rows): 1 where the first of the greatest logits is the target's
};
void classifier_rows(cudaStream_t stream, const ClassifierRows& args);
/// loss = weight · mean of row_loss, correct = Σ row_correct (may be null), over all rows, in a fixed order.
void classifier_totals(cudaStream_t stream, const float* row_loss, const std::int32_t* row_correct, Index rows,
                       float weight, float* loss, std::int32_t* correct);

/// scale->greatest = max |x|, which must be 0: for a tensor without history.
void fp8_greatest(cudaStream_t stream, const bf16* x, Index count, Fp8Scale* scale);
/// formula::next_fp8_scale, for e5m2 where `gradient`, else e4m3.
void fp8_next_scale(cudaStream_t stream, bool gradient, Fp8Scale* scale);
/// x (rows, columns), both multiples of 16, as e4m3, as e5m2 where `gradient`: `straight` (rows, columns) and
/// `transposed` (columns, rows), each optional; saturates. scale->greatest = max |x| where the scale `follows`;
/// *inverse, where given: scale->inverse. `sums`, optional and of a `gradient` alone: (fp8_tiles(rows), columns), sums
/// of x over the rows of each tile; column_sums() adds up the tiles.
void fp8_round(cudaStream_t stream, bool gradient, const bf16* x, Index rows, Index columns, Fp8Scale* scale,
               void* straight, void* transposed, bool follows = true, float* inverse = nullptr, float* sums = nullptr);
Index fp8_tiles(Index rows);

// Operators whose result goes to a linear layer in fp8 alone, or beside y: args.rounded, whose scale is the one that
// fp8_next_scale() has left. All bits are those of the operator and fp8_round() behind it.
void layer_norm_rounded(cudaStream_t stream, const LayerNormForward& args);
void rms_norm_rounded(cudaStream_t stream, const RmsNormForward& args);
void swiglu_rounded(cudaStream_t stream, const SwigluForward& args);
void activation_rounded(cudaStream_t stream, const ActivationForward& args);
/// gelu(x) of x (rows, columns).
void gelu_rounded(cudaStream_t stream, const bf16* x, Index rows, Index columns, const RoundedInput& to);
/// As find_kernel_image(), of these kernels, which the driver thereby loads: a step may be recorded in a graph before
/// any of them has run.
cudaError_t find_rounding_images();

// Attention where the library's fused one refuses: `matrices` of (seq, seq), row r sees columns [0, r] where causal.
/// p = softmax(scale · scores) as T, zero where masked; log_sum_exp of scale · scores, float32 (matrices, seq).
void attention_softmax(cudaStream_t stream, DType dtype, const float* scores, Index matrices, Index seq, bool causal,
                       float scale, void* p, float* log_sum_exp);
/// p = exp(scale · scores − log_sum_exp) as T; ds = scale · p · (dp − delta) as T, both zero where masked.
void attention_gradient(cudaStream_t stream, DType dtype, const float* scores, const float* dp, Index matrices,
                        Index seq, bool causal, float scale, const float* log_sum_exp, const float* delta, void* p,
                        void* ds);
/// delta[b, h, t] = Σ_d a[b, t, h, d] · b[b, t, h, d]; T (batch, seq, heads, head_dim), float32 (batch, heads, seq)
void attention_delta(cudaStream_t stream, DType dtype, const void* a, const void* b, Index batch, Index seq,
                     Index heads, Index head_dim, float* delta);
/// Gradients of keys or values that `group` query heads share: y[t, h, d] = Σ_member each[h · group + member, t, d];
/// float32 (kv_heads · group, seq, head_dim), T (seq, kv_heads, head_dim) with `ld` elements from position to position.
void attention_group_sums(cudaStream_t stream, DType dtype, const float* each, Index seq, Index kv_heads, Index group,
                          Index head_dim, void* y, Index ld);

// ---- sort.cu: a stable sort by the toolkit's library; the harness of the tests has one of the host's in its place
// ----
/// Of `count` pairs with keys below 2^bits. `scratch` of sort_pairs(), 256-byte aligned.
std::size_t sort_pairs_scratch(std::int64_t count, int bits);
/// Pairs in ascending order of keys, those with equal keys in the order in which they came.
void sort_pairs(cudaStream_t stream, const std::uint32_t* keys, const std::int32_t* values, std::int64_t count,
                int bits, std::uint32_t* sorted_keys, std::int32_t* sorted_values, void* scratch);

}  // namespace tw::models::cuda
