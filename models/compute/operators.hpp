// Argument structs of all operators. A new field breaks no override. Shapes stand beside each field; `T` is the
// activation dtype (float32, bf16 or fp16), gradients of parameters and optimizer state are always float32.
// Absent optional tensors have data == nullptr.
#pragma once

#include <cstdint>
#include <string>

#include "models/compute/tensor.hpp"

namespace tw::models {

/// Names of the operators, for `supports()` and for the per-operator shares of a step.
enum class Op : std::uint8_t {
#define TW_OP(op) op,
#include "models/compute/operators.def"
  count_  // number of operators
};
const char* to_string(Op op);

/// What changes from step to step. Lives in device memory, so that a captured graph replays correctly.
struct StepScalars {
  float learning_rate = 0;
  float bias_correction1 = 1;   ///< 1 − beta1^step
  float bias_correction2 = 1;   ///< 1 − beta2^step
  float gradient_scale = 1;     ///< 1 / (micro-batches × ranks): turns the summed gradient into a mean
  float clip_factor = 1;        ///< written by global_norm: min(1, max_norm / norm)
  float gradient_norm = 0;      ///< written by global_norm: unclipped L2 norm of gradient_scale/loss_scale × gradient
  // Dynamic loss scaling (fp16). Who uses it starts with loss_scale = formula::first_loss_scale; afterwards the device
  // keeps the fields below, and the host writes no more than what stands above them.
  float loss_scale = 1;         ///< the classifier multiplied its gradient by this; the optimizers divide by it
  std::int32_t found_non_finite = 0;  ///< written by global_norm where asked: 1 where a gradient is inf or NaN; the
                                      ///< optimizers then change nothing
  std::int32_t good_steps = 0;        ///< since loss_scale last changed
  std::int32_t skipped_steps = 0;     ///< with found_non_finite, since the start
  std::int32_t taken_steps = 0;       ///< the others
};

/// One range of the flat parameter buffer under one weight decay. Device memory; ranges ascend and do not overlap.
/// Elements outside every range are padding and stay untouched.
struct DecaySegment {
  std::int64_t begin = 0, end = 0;
  float weight_decay = 0;
};

/// Along the height and the width of an image; one number is both.
struct PerAxis {
  int height = 0, width = 0;
  constexpr PerAxis() = default;
  constexpr PerAxis(int both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor): as a number
  constexpr PerAxis(int the_height, int the_width) : height(the_height), width(the_width) {}
  constexpr std::int64_t area() const { return std::int64_t{height} * width; }
  /// "3x3"
  std::string str() const;
  bool operator==(const PerAxis&) const = default;
};

/// Linear plans fuse `gelu` (its tanh form); gelu_erf, tanh and relu are operators of their own (ActivationForward).
enum class Activation : std::uint8_t { none, gelu, gelu_erf, tanh, relu };

struct Fp8Scale;

/// The input x (rows, columns) of a linear layer in fp8 that another operator writes rounded, so that the layer need
/// not read and round it: LinearPlan::round_ahead() makes it. What is rounded is the value in T (bf16) that would stand
/// in its place, so that all bits are those of a layer that rounds by itself.
struct RoundedInput {
  Tensor straight;            // byte (rows · columns): e4m3, row by row, on 16 bytes
  Tensor transposed;          // byte (rows · columns + 16): the same column by column, then the inverse of the scale;
                              // optional, on 16 bytes
  Fp8Scale* scale = nullptr;  ///< device memory: the layer's
  bool follows = true;        ///< the greatest magnitude goes to the scale
  explicit operator bool() const { return scale != nullptr; }
};

// ---- operators without a plan ----
struct EmbeddingForward {       // y[b,t,:] = token_table[tokens[b,t],:] + position_table[t,:]
  Tensor tokens;                // int32 (batch, seq)
  Tensor token_table;           // T (vocabulary, width)
  Tensor position_table;        // T (max_seq, width); optional
  Tensor y;                     // T (batch, seq, width)
};
struct EmbeddingBackward {      // deterministic: the tokens alone say in which order contributions of one are added
  Tensor tokens;                // int32 (batch, seq)
  Tensor dy;                    // T (batch, seq, width)
  Tensor d_token_table;         // float32 (vocabulary, width); always accumulated into (the tied head writes it first)
  Tensor d_position_table;      // float32 (max_seq, width); optional
  bool accumulate_position = false;  ///< false: d_position_table is overwritten (rows beyond seq with zero)
};
struct LayerNormForward {       // s = x + residual; y = (s − mean)·rstd·gamma + beta, biased variance
  Tensor x;                     // T (rows, width)
  Tensor residual;              // T (rows, width); optional
  Tensor sum;                   // T (rows, width): s; required where residual is given, may alias x or residual
  Tensor gamma, beta;           // T (width)
  float epsilon = 1e-5f;
  Tensor y;                     // T (rows, width); optional where y is rounded
  Tensor mean, rstd;            // float32 (rows)
  RoundedInput rounded{};       // optional: y for a linear layer
};
struct LayerNormBackward {
  Tensor dy, x;                 // T (rows, width); x is the normalised operator's input (s above)
  Tensor gamma;                 // T (width)
  Tensor mean, rstd;            // float32 (rows)
  Tensor d_residual;            // T (rows, width); optional, added to dx (the gradient past the norm); may alias dx
  Tensor dx;                    // T (rows, width)
  Tensor d_gamma, d_beta;       // float32 (width)
  bool accumulate = false;      ///< d_gamma, d_beta: += instead of =
};
struct RmsNormForward {         // s = x + residual; y = s·rstd·gamma, rstd = 1/sqrt(mean(s²) + epsilon)
                                // (arXiv 1910.07467)
  Tensor x;                     // T (rows, width)
  Tensor residual;              // T (rows, width); optional
  Tensor sum;                   // T (rows, width): s; required where residual is given, may alias x or residual
  Tensor gamma;                 // T (width)
  float epsilon = 1e-5f;
  Tensor y;                     // T (rows, width); optional where y is rounded
  Tensor rstd;                  // float32 (rows)
  RoundedInput rounded{};       // optional: y for a linear layer
};
struct RmsNormBackward {
  Tensor dy, x;                 // T (rows, width); x is the normalised operator's input (s above)
  Tensor gamma;                 // T (width)
  Tensor rstd;                  // float32 (rows)
  Tensor d_residual;            // T (rows, width); optional, added to dx (the gradient past the norm); may alias dx
  Tensor dx;                    // T (rows, width)
  Tensor d_gamma;               // float32 (width)
  bool accumulate = false;      ///< d_gamma: += instead of =
};
struct BatchNormForward {       // training mode over (batch, height, width), at least 2 values a channel:
                                // y = [relu](norm(x)·gamma + beta [+ residual])
  Tensor x;                     // T (batch, height, width, channels)
  Tensor gamma, beta;           // float32 (channels): batch norm keeps float32 parameters in every precision
  Tensor running_mean, running_var;  // float32 (channels); both or neither; updated with `momentum`, as in PyTorch by
                                     // the unbiased variance
  float momentum = 0.1f, epsilon = 1e-5f;
  Tensor residual;              // T, as x; optional
  bool relu = false;
  Tensor y;                     // T, as x; may alias neither x nor residual
  Tensor mean, rstd;            // float32 (channels): of this batch, saved for backward
};
struct BatchNormBackward {
  Tensor dy;                    // T (batch, height, width, channels)
  Tensor dy_more;               // T, as dy; optional, only with d_residual: dy + dy_more, rounded to T, is the gradient
  Tensor x;                     // T, as dy
  Tensor y;                     // T, as dy; only where relu: its mask is y > 0. Optional where forward had no residual
                                // and d_residual is absent: y is then computed again from x, with forward's bits
  Tensor gamma, beta;           // float32 (channels); beta only where y is computed again
  Tensor mean, rstd;            // float32 (channels)
  bool relu = false;
  Tensor dx;                    // T, as dy; may alias dy
  Tensor d_residual;            // T, as dy; optional: the gradient under the ReLU's mask; may alias dy_more, but
                                // neither dy nor dx
  Tensor d_gamma, d_beta;       // float32 (channels)
  bool accumulate = false;
  bool computes_mask() const { return relu && !y; }
};
struct MaxPoolForward {
  Tensor x;                     // T (batch, height, width, channels)
  PerAxis kernel = 3, stride = 2, padding = 1;
  Tensor y;                     // T (batch, out_height, out_width, channels), out: (in + 2·padding − kernel)/stride + 1
  Tensor argmax;                // int32, as y: kh·kernel.width + kw of the first maximum inside its window
};
struct MaxPoolBackward {
  Tensor dy;                    // T (batch, out_height, out_width, channels)
  Tensor argmax;                // int32, as dy
  PerAxis kernel = 3, stride = 2, padding = 1;
  Tensor dx;                    // T (batch, height, width, channels); overwritten
};
struct AveragePoolForward {     // mean over windows, or over the whole image; padding counts as zeros
  Tensor x;                     // T (batch, height, width, channels)
  Tensor y;                     // T (batch, out_height, out_width, channels), as of MaxPoolForward;
                                // of the whole image: T (batch, channels)
  PerAxis kernel = 0;           ///< 0: the whole image, without stride and padding
  PerAxis stride = 1, padding = 0;
  bool sum = false;             ///< the sum over windows in place of their mean; not of the whole image
};
struct AveragePoolBackward {    // with `sum` and stride = kernel: nearest upsampling of dy by the kernel's
                                // extents; forward, likewise, is its gradient
  Tensor dy;                    // T, as y
  Tensor dx;                    // T (batch, height, width, channels); overwritten
  PerAxis kernel = 0, stride = 1, padding = 0;  ///< as in forward
  bool sum = false;             ///< as in forward
};
struct CopyChannels {           // y[.., to + c] = x[.., from + c] for c in [0, count): joins tensors along their
                                // channels (one call for each), and splits them
  Tensor x, y;                  // T, equal extents but for the last axis; y's other channels are left as they are
  std::int64_t from = 0, to = 0, count = 0;
};
struct Rotary {                 // rotary positions (arXiv 2104.09864), rotate-half form: of each head of a position,
                                // the pair (i, i + head_dim/2) is turned by the angle of that position and frequency i
  Tensor x;                     // T (batch, seq, heads, head_dim), in place; head_dim even
  Tensor table;                 // float32 (max_seq ≥ seq, head_dim/2, 2): cos and sin of each angle
  std::int64_t rotated = 0;     ///< the first heads, in [1, heads]; the others (v of a packed tensor) are left
  bool inverse = false;         ///< turns back: the transposed rotation, which backward applies to gradients
};
struct SwigluForward {          // y = silu(gate)·up (arXiv 2002.05202)
  Tensor x;                     // T (rows, 2·hidden): gate | up
  Tensor y;                     // T (rows, hidden); absent where y is rounded
  RoundedInput rounded{};       // optional, in place of y
};
struct SwigluBackward {
  Tensor x;                     // T (rows, 2·hidden): gate | up
  Tensor dy;                    // T (rows, hidden)
  Tensor dx;                    // T (rows, 2·hidden): d_gate | d_up; may alias neither x nor dy
};
struct GatherRows {             // y[i, :] = x[indices[i], :]
  Tensor x;                     // T (rows, width)
  Tensor indices;               // int32 (n), in [0, rows)
  Tensor y;                     // T (n, width)
};
struct ScatterRows {            // backward of GatherRows: dx[indices[i], :] = dy[i, :], zero in all other rows
  Tensor dy;                    // T (n, width)
  Tensor indices;               // int32 (n), in [0, rows), each value once: what the caller answers for
  Tensor dx;                    // T (rows, width); overwritten
};
// Embedding bags (Naumov et al., arXiv 1906.00091): for each sample and table, the sum of the rows that its bag names.
// Several tables of one width lie behind each other in `rows`, always float32; a slot without rows is empty.
struct EmbeddingBagForward {    // y[i, s, :] = Σ_h rows[tables[s].first + indices[i, s, h], :]; 0 in an empty slot
  Tensor rows;                  // float32 (all rows, width)
  Tensor tables;                // int32 (slots, 2): first row and number of rows of each table
  Tensor indices;               // int32 (batch, slots, hot), in [0, number of rows of the table); any in an empty slot
  Tensor y;                     // T (batch, slots, width)
};
struct EmbeddingBagUpdate {     // backward and SGD in one: each row that occurs becomes
                                // row − learning_rate · f · Σ dy[i, s, :] over its occurrences, in an order that the
                                // indices alone give; f = gradient_scale · clip_factor / loss_scale. Nothing where
                                // found_non_finite
  Tensor rows;                  // float32 (all rows, width), in place
  Tensor tables, indices;       // as in forward
  Tensor dy;                    // T (batch, slots, width)
  const StepScalars* scalars = nullptr;  ///< device memory
};
struct InteractionForward {     // of features z_0 = dense, z_f = the bag at places[f − 1]: y = (z_0, z_1·z_0, z_2·z_0,
                                // z_2·z_1, z_3·z_0, …): the lower triangle of all dot products without its diagonal
  Tensor dense;                 // T (batch, width)
  Tensor bags;                  // T (shards, batch, slots, width): as all_to_all leaves the bags of several ranks
  Tensor places;                // int32 (features): shard · slots + slot of each feature behind the first
  Tensor y;                     // T (batch, width + features·(features + 1)/2)
};
struct InteractionBackward {
  Tensor dy;                    // T, as y
  Tensor dense, bags, places;   // as in forward
  Tensor d_dense;               // T (batch, width); NaN for a sample with an inf or NaN in its d_bags: so it is
                                // found in gradients of the layers in front of `dense`, which all ranks sum
  Tensor d_bags;                // T, as bags; slots that are no feature's place are left as they are
};
struct BinaryCrossEntropy {     // loss = mean of log(1 + exp(z)) − target·z, for logits z
  Tensor logits;                // T (rows)
  Tensor targets;               // int32 (rows): 0 or 1
  Tensor loss;                  // float32 (1): overwritten
  Tensor correct;               // int32 (1); optional: rows with target 1 and z > 0, or 0 and z ≤ 0; overwritten
  Tensor d_logits;              // T (rows): (sigmoid(z) − target)/rows; absent: loss only. May alias logits
  const StepScalars* scalars = nullptr;  ///< device memory; optional: d_logits is that of scalars->loss_scale × loss
};
struct MeanSquaredError {       // loss = mean over all elements of (prediction − target)²
  Tensor predictions;           // T
  Tensor targets;               // float32, as predictions
  Tensor loss;                  // float32 (1): overwritten
  Tensor d_predictions;         // T: 2·(prediction − target)/elements; absent: loss only. May alias predictions
  const StepScalars* scalars = nullptr;  ///< device memory; optional: d_predictions is of scalars->loss_scale × loss
};
struct AddBias {                // y[.., c] = x[.., c] + bias[c]
  Tensor x, y;                  // T (…, channels), equal extents; y may alias x
  Tensor bias;                  // T (channels)
};
struct BiasBackward {           // d_bias[c] = Σ dy[.., c]
  Tensor dy;                    // T (…, channels)
  Tensor d_bias;                // float32 (channels)
  bool accumulate = false;      ///< d_bias: += instead of =
};
struct ActivationForward {      // y = act(x)
  Tensor x, y;                  // T, equal extents; y may alias x, and is absent where it is rounded
  Activation activation = Activation::none;  ///< gelu_erf, tanh or relu
  RoundedInput rounded{};       // optional, in place of y: of x (rows, columns)
};
struct ActivationBackward {     // dx = dy ⊙ act'(x)
  Tensor dy, x, dx;             // T, equal extents; x as in forward, of relu also its y; dx may alias dy
  Activation activation = Activation::none;  ///< as in forward
};
struct Add { Tensor a, b, y; };        // T, equal extents; y may alias a or b
struct Cast { Tensor x, y; };          // float32 ↔ bf16, float32 ↔ fp16; equal count
struct Fill { Tensor y; float value = 0; };
struct GlobalNorm {             // float64 accumulation; gradient_norm and clip_factor go to *scalars
  Tensor gradient;              // float32 (count): the flat buffer
  StepScalars* scalars = nullptr;  ///< device memory
  float max_norm = 0;           ///< 0: measure only, clip_factor = 1
  bool find_non_finite = false; ///< dynamic loss scaling: writes found_non_finite. Elsewhere a NaN goes its way: a run
                                ///< that diverges must not look as if it went on
};
struct AdamW {                  // formula::adamw on gradient · gradient_scale · clip_factor / loss_scale
  Tensor master;                // float32 (count)
  Tensor weights;               // bf16 or fp16 (count): rounded copy of master; absent in float32
  Tensor gradient, first_moment, second_moment;  // float32 (count)
  const DecaySegment* segments = nullptr;        ///< device memory
  int segment_count = 0;
  const StepScalars* scalars = nullptr;          ///< device memory
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
};
struct Sgd {                    // formula::sgd, likewise
  Tensor master, weights, gradient, momentum_buffer;
  const DecaySegment* segments = nullptr;
  int segment_count = 0;
  const StepScalars* scalars = nullptr;
  float momentum = 0.9f;
};
struct UpdateLossScale {        // formula::next_loss_scale, once a step behind the optimizer; clears found_non_finite
  StepScalars* scalars = nullptr;  ///< device memory
  int growth_interval = 2000;      ///< good steps until loss_scale is doubled
  /// AdamW's corrections are those of the next step to be taken: a skipped step is none. So this writes
  /// bias_correction_k = 1 − beta_k^(taken_steps + 1), and the host does not.
  float beta1 = 0.9f, beta2 = 0.999f;
};

// Synthetic samples [first_sample, first_sample + batch), by the formulas of synthetic.hpp: the bits that models/data
// makes on the host. What changes from batch to batch is in the arguments, so that these stay out of captured graphs.
struct GenerateTokens {  // targets[b, t] follows inputs[b, t]
  Tensor table;          // int32 (vocabulary): 4 · permutation + group of each token
  std::int32_t offset[4] = {};
  std::uint64_t seed = 0, purpose = 0, first_sample = 0;
  Tensor inputs;   // int32 (batch, seq)
  Tensor targets;  // int32 (batch · seq)
};
struct GenerateImages {
  Tensor frequencies;  // int32 (classes, 2): x and y of each class, in [0, size)
  std::uint64_t seed = 0, purpose = 0, first_sample = 0;
  float amplitude = 1, sigma = 1, label_noise = 0;
  Tensor inputs;   // T (batch, size, size, channels)
  Tensor targets;  // int32 (batch)
};
/// What the rows of a table of clicks are drawn by (models/data/click_source.hpp): octave L of its ranks begins at
/// 2^L − 1. Device memory.
struct ClickTable {
  std::uint32_t number = 0;              ///< among the tables of all ranks
  std::uint32_t pairs = 0;               ///< of rows, at most 2^30 − 1; 0 in an empty slot
  std::uint32_t factor = 1, offset = 0;  ///< rank r is pair (r·factor + offset) mod pairs; at most pairs + 1
  std::uint64_t inverse = 0;             ///< ⌊(2^64 − 1) / pairs⌋
  std::uint64_t meaning = 0;             ///< stream that says which row of a pair votes for a click
  std::uint32_t last_octave = 0;
  std::uint32_t until[31] = {};  ///< shares of 2^32 up to the end of each octave; 2^32 − 1 from the last octave on
};
struct GenerateClicks {  // the rank's samples, but indices of all ranks' samples, into the tables that the rank holds
  const ClickTable* tables = nullptr;                                ///< (slots), device memory
  std::uint64_t seed = 0, of_label = 0, of_dense = 0, of_index = 0;  ///< and the purposes of its numbers
  std::uint64_t first_sample = 0, first_of_all = 0;                  ///< of the rank, and of all ranks
  float mean = 0;                 ///< of the dense features of a click; −mean of those of the others
  std::uint32_t wrong_below = 0;  ///< of 2^32 votes, how many are wrong
  Tensor dense;                   // float32 (batch, features)
  Tensor indices;                 // int32 (ranks · batch, slots, hot); 0 in an empty slot
  Tensor targets;                 // int32 (batch): 1 for a click
};

// ---- plans: built once per shape and weight, outside the timed region ----

/// How a product multiplies what its dtype stores; sums are float32 in each.
enum class Math : std::uint8_t {
  standard,  ///< the stored values themselves
  tf32,      ///< float32 inputs rounded to 10 fraction bits
  bf16,      ///< float32 inputs rounded to bf16, or not: a library leaves small products and some gradients in float32
  fp8,       ///< bf16 inputs of linear layers rounded to e4m3 (gradients to e5m2) under a scale for each tensor, which
             ///< follows the greatest magnitudes of the last calls; attention and classifier compute as with standard
};
const char* to_string(Math math);

struct LinearShape {            // y = act(x·Wᵀ + b) [+ residual]
  std::int64_t rows = 0, in_features = 0, out_features = 0;
  DType dtype = DType::float32;
  Activation activation = Activation::none;
  Math math = Math::standard;
  bool operator==(const LinearShape&) const = default;

  /// In fp8 each operand is rounded once for all of the layer's products. Extents of what forward leaves of x, and
  /// backward_weights of dy, for the product that reads it last: the elements in the layout that this product wants,
  /// then their scale; it lies on 16 bytes. Rank 0 in other maths.
  Dims x_for_weights() const { return left_of(in_features); }
  Dims dy_for_input() const { return left_of(out_features); }
  Dims left_of(std::int64_t features) const { return math == Math::fp8 ? Dims{rows * features + 16} : Dims{}; }
};
struct LinearForward {
  Tensor x;                     // T (rows, in); absent where x is rounded
  Tensor bias;                  // T (out); optional
  Tensor residual;              // T (rows, out); optional, not with an activation; may alias y
  Tensor pre_activation;        // T (rows, out): x·Wᵀ + b; exactly with an activation (saved for backward)
  Tensor y;                     // T (rows, out); absent where y is rounded
  bool follows = true;          // fp8: false: rounds x under the last scale, or its own where there is none, and leaves
                                // no trace in the scales to come (evaluation, recomputed forward)
  Tensor x_for_weights{};       // byte, shape.x_for_weights(); fp8 alone, optional: for backward_weights. Absent where
                                // x is rounded: that has it
  RoundedInput x_rounded{};     // fp8 alone, optional, in place of x: of this plan's round_ahead()
  RoundedInput y_rounded{};     // fp8 with an activation alone, optional, in place of y: for the next linear layer
};
struct LinearBackwardInput {    // dx = (dy ⊙ [1])·W, then ⊙ gelu'(input_pre_activation) where that is given
  Tensor dy;                    // T (rows, out): gradient of x·Wᵀ + b (the caller has passed the activation already);
                                // in fp8 byte: what backward_weights has left in dy_for_input
  Tensor input_pre_activation;  // T (rows, in); optional: this layer's input was gelu(input_pre_activation)
  Tensor dx;                    // T (rows, in)
};
struct LinearBackwardWeights {  // dW = dyᵀ·x, db = Σ_rows dy
  Tensor x;                     // T (rows, in); in fp8 byte: what forward has left in x_for_weights
  Tensor dy;                    // T (rows, out)
  Tensor d_weight;              // float32 (out, in)
  Tensor d_bias;                // float32 (out); optional
  bool accumulate = false;
  Tensor dy_for_input{};        // byte, shape.dy_for_input(); fp8 alone, optional: for backward_input
};

struct ConvolutionShape {       // NHWC, cross-correlation, no bias, no dilation
  std::int64_t batch = 0, height = 0, width = 0, in_channels = 0, out_channels = 0;
  PerAxis kernel = 1, stride = 1, padding = 0;
  DType dtype = DType::float32;
  Math math = Math::standard;   ///< not fp8
  /// Divides in_channels and out_channels. Output channels [g·out/groups, (g+1)·out/groups) see input channels
  /// [g·in/groups, (g+1)·in/groups).
  std::int64_t groups = 1;

  std::int64_t out_height() const { return (height + 2 * padding.height - kernel.height) / stride.height + 1; }
  std::int64_t out_width() const { return (width + 2 * padding.width - kernel.width) / stride.width + 1; }
  Dims in() const { return {batch, height, width, in_channels}; }                 ///< of x
  Dims out() const { return {batch, out_height(), out_width(), out_channels}; }  ///< of y
  Dims weight() const { return {out_channels, kernel.height, kernel.width, in_channels / groups}; }
  bool operator==(const ConvolutionShape&) const = default;
};
struct ConvolutionForward { Tensor x, y; };         // T (batch, h, w, in), (batch, oh, ow, out)
struct ConvolutionBackwardInput { Tensor dy, dx; };  // dx overwritten
struct ConvolutionBackwardWeights {
  Tensor x, dy;
  Tensor d_weight;              // float32 (out, kernel height, kernel width, in / groups)
  bool accumulate = false;
};

/// softmax(q·kᵀ/sqrt(head_dim) [+ causal mask])·v. Query head h uses key and value head h / (heads / kv_heads): grouped
/// queries (arXiv 2305.13245), or one query head for each where kv_heads = heads.
struct AttentionShape {
  std::int64_t batch = 0, seq = 0, heads = 0, head_dim = 0;
  bool causal = true;
  DType dtype = DType::float32;
  Math math = Math::standard;
  std::int64_t kv_heads = 0;    ///< divides heads; 0: as many as heads. In a plan's shape() it is never 0.

  std::int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  std::int64_t group() const { return heads / key_heads(); }  ///< query heads of each key and value head
  std::int64_t packed_heads() const { return heads + 2 * key_heads(); }
  Dims packed() const { return {batch, seq, packed_heads(), head_dim}; }  ///< of qkv: q heads, k heads, v heads
  Dims unpacked() const { return {batch, seq, heads, head_dim}; }         ///< of out
  Dims row_values() const { return {batch, heads, seq}; }                 ///< of log_sum_exp
  bool operator==(const AttentionShape&) const = default;
};
struct AttentionForward {
  Tensor qkv;                   // T (batch, seq, heads + 2·kv_heads, head_dim): one position's q, k and v heads
  Tensor out;                   // T (batch, seq, heads, head_dim)
  Tensor log_sum_exp;           // float32 (batch, heads, seq): of the scaled, masked scores
};
struct AttentionBackward {
  Tensor d_out, qkv, out;       // as above
  Tensor log_sum_exp;           // float32 (batch, heads, seq)
  Tensor d_qkv;                 // T, as qkv
};

struct ClassifierShape {        // logits = x·Wᵀ [+ b]; loss = loss_weight · mean over rows of the label-smoothed
                                // cross-entropy
  std::int64_t rows = 0, in_features = 0, classes = 0;
  float label_smoothing = 0;    ///< ε: the target is (1−ε)·onehot + ε/classes (arXiv 1512.00567 §7; PyTorch)
  DType dtype = DType::float32;
  Math math = Math::standard;
  float loss_weight = 1;        ///< above 0: what this loss counts in a sum of several
  /// Rows of memory from the first one of W and of d_weight on, at least `classes`; 0: as many as classes. A device may
  /// compute with all of them. Those of W behind `classes` are finite, and count in no result; those of d_weight are
  /// left alone or become 0.
  std::int64_t reserved_classes = 0;
  bool operator==(const ClassifierShape&) const = default;
};
/// ClassifierShape::reserved_classes for memory of one's own: whole tiles of 128 classes, because matrix libraries have
/// slow kernels for odd extents; `classes` where that would be more than an eighth above.
constexpr std::int64_t whole_tiles_of_classes(std::int64_t classes) {
  const std::int64_t tiles = (classes + 127) / 128 * 128;
  return tiles - classes <= classes / 8 ? tiles : classes;
}
struct ClassifierForwardBackward {
  Tensor x;                     // T (rows, in)
  Tensor targets;               // int32 (rows), in [0, classes)
  Tensor bias;                  // T (classes); optional
  Tensor loss;                  // float32 (1): loss of these rows, overwritten
  Tensor correct;               // int32 (1); optional: rows whose arg max (first of equals) is the target, overwritten
  bool backward = true;         ///< false: loss only (evaluation); the fields below are then ignored
  Tensor dx;                    // T (rows, in)
  Tensor d_weight;              // float32 (classes, in)
  Tensor d_bias;                // float32 (classes); optional
  bool accumulate = false;      ///< d_weight, d_bias: += instead of =
  const StepScalars* scalars = nullptr;  ///< device memory; optional: dx, d_weight and d_bias are those of
                                         ///< scalars->loss_scale × loss. Where the device has fp16
};

}  // namespace tw::models
