// The graphs of convolution and attention. Private to models/compute/cuda. No GPU is needed to build them.
#pragma once

#include <optional>
#include <vector>

#include "models/compute/cuda/dnn/graph.hpp"
#include "models/compute/operators.hpp"

namespace tw::models::cuda::dnn {

// ---- convolution: NHWC tensors, weights as ConvolutionShape::weight(), sums in float32 ----
enum ConvolutionUid : std::int64_t { uid_x = 1, uid_w, uid_y, uid_addend, uid_sum };  ///< or their gradients

/// One pass, all tensors of the shape's dtype. backward_weights adds to what uid_w holds, which is float32 only where
/// the dtype is.
Graph convolution_graph(const Target& target, const ConvolutionShape& shape, Op pass);
/// Gradient of the weights of a 16-bit convolution without a rounding to 16 bits, which the operation alone cannot:
/// uid_sum = uid_addend + the float32 gradient. cuDNN compiles it at run time, for channels in multiples of 8.
Graph added_weights_graph(const Target& target, const ConvolutionShape& shape);
/// What engines of this shape must obey, with at most 1 GiB of workspace.
Demands demands_of(const ConvolutionShape& shape);
/// Where there is no engine for that graph and the images have few channels: the shape with zeros as further channels.
/// Without a value: no channels are added.
std::optional<ConvolutionShape> padded_part(const ConvolutionShape& shape);
/// Where neither has an engine, the gradient is computed of inputs made float32, of this part of a 16-bit
/// shape at once: as many images as divide the batch and take at most 512 MiB so, or one.
ConvolutionShape widened_part(const ConvolutionShape& shape);
/// Of the part's x and dy, each a multiple of 256.
std::size_t widened_bytes(const ConvolutionShape& part);

// ---- attention: the pattern of operations that cuDNN's fused engines know (arXiv 2307.08691); nothing of size
// seq × seq reaches memory in forward ----
enum AttentionUid : std::int64_t {
  uid_q = 1,
  uid_k,
  uid_v,
  uid_out,
  uid_log_sum_exp,
  uid_d_out,
  uid_dq,
  uid_dk,
  uid_dv,
  uid_row_dot,  ///< float32 (batch, heads, seq), scratch: Σ d_out · out
  uid_dq_sum,   ///< float32 (batch, heads, seq, head_dim), scratch; only where has_dq_sum()
  uid_scale,    ///< float on the host: 1/sqrt(head_dim)
  uid_masked,   ///< float on the host: −infinity; only where causal
  uid_one       ///< float on the host: 1; backward
};

/// Of the tensors of a shape, some samples and some key heads with the query heads that use them; 0: all.
struct AttentionPart {
  std::int64_t batch = 0, kv_heads = 0;
  AttentionShape of(const AttentionShape& whole) const;
};

/// In what order backward adds the terms of dq, which blocks of keys compute.
enum class DqSums {
  any_order,  ///< blocks add to uid_dq_sum as they come: not deterministic
  kept,       ///< the gradient of the probabilities goes through batch · heads · seq² 16-bit elements of workspace
  several_kernels,  ///< an engine that is asked for by number, of sm_100 to sm_103; workspace linear in seq
  in_turn,          ///< an engine that is asked for by number, of sm_90: blocks add to uid_dq_sum one after the other
};
constexpr bool has_dq_sum(DqSums sums) { return sums == DqSums::any_order || sums == DqSums::in_turn; }
/// What such a device with this version of the library can do, the best first; empty where it has nothing of the kind.
std::vector<DqSums> dq_sums(bool deterministic, int architecture, std::size_t version);

Graph attention_forward_graph(const Target& target, const AttentionShape& shape);
/// Of the part, whose tensors have the strides of the whole (uid_dq_sum and the workspace their own).
Graph attention_backward_graph(const Target& target, const AttentionShape& shape, DqSums sums,
                               const AttentionPart& part = {});

/// What engines must obey on a device with so much memory. The workspace, where kept 2 · batch · heads · seq² bytes, is
/// at most 8 GiB and at most an eighth of the memory.
Demands attention_demands(bool deterministic, std::size_t memory_bytes);
/// What backward computes at once: the whole, or where its workspace is more than the demands allow the largest part
/// that divides it and fits; else the smallest.
AttentionPart fitting_part(const Target& target, const AttentionShape& shape, DqSums sums, const Demands& demands);
/// Why the library is not asked for attention on such a device ("sm_90" is 90); empty where it is. The rest it refuses
/// by itself.
std::string why_no_attention(const AttentionShape& shape, int architecture, bool deterministic);
/// Why this version of the library is not asked for attention; empty where it is.
std::string why_too_old(const Library& library, int architecture, bool deterministic);

DataType data_type(DType dtype);
/// The next multiple of 256: where a part of the workspace begins.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace tw::models::cuda::dnn
