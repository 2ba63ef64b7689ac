#include "models/compute/cuda/dnn/graphs.hpp"

#include <algorithm>
#include <vector>

#include "models/compute/cuda/kernels/kernels.hpp"

namespace tw::models::cuda::dnn {
namespace {

/// Extents in the library's order (n, c, h, w) of a tensor that lies in memory as (n, h, w, c).
struct ChannelsLast {
  Extents extents, strides;
  ChannelsLast(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w)
      : extents{n, c, h, w}, strides{h * w * c, 1, w * c, c} {}
};
ChannelsLast input_of(const ConvolutionShape& s) { return {s.batch, s.in_channels, s.height, s.width}; }
ChannelsLast output_of(const ConvolutionShape& s) { return {s.batch, s.out_channels, s.out_height(), s.out_width()}; }
/// With fewer input channels than the image the library takes groups.
ChannelsLast kernel_of(const ConvolutionShape& s) {
  return {s.out_channels, s.in_channels / s.groups, s.kernel.height, s.kernel.width};
}
Extents by_axis(const PerAxis& sizes) { return {sizes.height, sizes.width}; }

Kind kind_of(Op pass) {
  return pass == Op::convolution_forward          ? Kind::operation_convolution_forward
         : pass == Op::convolution_backward_input ? Kind::operation_convolution_backward_data
                                                  : Kind::operation_convolution_backward_filter;
}

/// The tensors and chains of operations that both directions have. Extents are (batch, heads, rows, columns).
class Attention {
 public:
  Attention(const Target& target, const AttentionShape& whole, const AttentionPart& part)
      : graph(target), type(data_type(whole.dtype)), whole_(whole), s_(part.of(whole)) {}

  Graph graph;
  DataType type;

  /// Of q, k or v, or of its gradient, in the packed (batch, seq, heads + 2 · kv_heads, head_dim).
  void packed(std::int64_t uid, bool transposed = false) {
    const Extents extents = by_head(uid == uid_q || uid == uid_dq ? s_.heads : s_.key_heads()),
                  strides = packed_strides();
    if (transposed) {
      graph.memory(uid, type, {extents[0], extents[1], extents[3], extents[2]},
                   {strides[0], strides[1], strides[3], strides[2]});
    } else {
      graph.memory(uid, type, extents, strides);
    }
  }
  /// Of out or its gradient: (batch, seq, heads, head_dim).
  void unpacked(std::int64_t uid) {
    const std::int64_t row = whole_.heads * s_.head_dim;
    graph.memory(uid, type, by_head(s_.heads), {s_.seq * row, s_.head_dim, row, 1});
  }
  /// float32 (batch, heads, seq)
  void row_values(std::int64_t uid) { graph.memory(uid, DataType::float32, rows(), row_strides(whole_)); }
  std::int64_t row_values_between() { return graph.between(DataType::float32, rows(), row_strides(s_)); }
  std::int64_t scores(DataType of = DataType::float32) {
    return graph.between(of, {s_.batch, s_.heads, s_.seq, s_.seq},
                         {s_.heads * s_.seq * s_.seq, s_.seq * s_.seq, s_.seq, 1});
  }
  /// The scores' transpose, rounded to the tensors' dtype as a matrix product wants it.
  std::int64_t transposed_scores(std::int64_t x) {
    const std::int64_t y = graph.between(type, {s_.batch, s_.heads, s_.seq, s_.seq},
                                         {s_.heads * s_.seq * s_.seq, s_.seq * s_.seq, 1, s_.seq});
    graph.reshape(x, y);
    return y;
  }
  /// k as (batch, kv_heads, seq, head_dim), seen from its transpose.
  std::int64_t untransposed(std::int64_t k) {
    const std::int64_t y = graph.between(type, by_head(s_.key_heads()), packed_strides());
    graph.reshape(k, y);
    return y;
  }
  std::int64_t products_by_head() { return graph.between(DataType::float32, by_head(s_.heads), head_strides()); }
  void sums_by_head(std::int64_t uid) { graph.memory(uid, DataType::float32, by_head(s_.heads), head_strides()); }
  /// uid = a · b, the gradient of keys or values; where query heads share these, the sum over each group of the
  /// products of its heads, which the library rounds to the tensors' dtype and keeps in its workspace.
  void group_product(std::int64_t a, std::int64_t b, std::int64_t uid) {
    if (s_.group() == 1) {
      graph.matmul(a, b, uid);
      return;
    }
    const std::int64_t each = graph.between(type, by_head(s_.heads), head_strides());
    graph.matmul(a, b, each);
    graph.reduce(Reduction::add, each, uid);
  }
  std::int64_t of_scores(Pointwise mode, std::int64_t x, std::int64_t b = 0) {
    const std::int64_t y = scores();
    graph.pointwise(mode, DataType::float32, {.x = x, .b = b, .y = y});
    return y;
  }
  /// −infinity where the column is greater than the row.
  std::int64_t masked(std::int64_t x) {
    if (!s_.causal) return x;
    const std::int64_t row = scores(DataType::int32), column = scores(DataType::int32),
                       visible = scores(DataType::boolean), y = scores();
    graph.pointwise(Pointwise::gen_index, DataType::float32, {.x = x, .y = row, .axis = 2});
    graph.pointwise(Pointwise::gen_index, DataType::float32, {.x = x, .y = column, .axis = 3});
    graph.pointwise(Pointwise::greater_or_equal, DataType::boolean, {.x = row, .b = column, .y = visible});
    graph.pointwise(Pointwise::select, DataType::float32, {.x = x, .b = uid_masked, .t = visible, .y = y});
    return y;
  }
  void scalars(bool backward) {
    graph.scalar(uid_scale, 4);
    if (s_.causal) graph.scalar(uid_masked, 4);
    if (backward) graph.scalar(uid_one, 4);
  }

 private:
  Extents by_head(std::int64_t heads) const { return {s_.batch, heads, s_.seq, s_.head_dim}; }
  Extents head_strides() const { return {s_.heads * s_.seq * s_.head_dim, s_.seq * s_.head_dim, s_.head_dim, 1}; }
  Extents packed_strides() const {
    const std::int64_t row = whole_.packed_heads() * s_.head_dim;
    return {s_.seq * row, s_.head_dim, row, 1};
  }
  Extents rows() const { return {s_.batch, s_.heads, s_.seq, 1}; }
  static Extents row_strides(const AttentionShape& s) { return {s.heads * s.seq, s.seq, 1, 1}; }

  AttentionShape whole_;  // whose strides tensors in memory have
  AttentionShape s_;      // the part
};

// Engines of attention's backward with a fixed order of sums that heuristics do not propose: numbers and settings are
// those of cudnn-frontend (scaled_dot_product_flash_attention.h, override_heuristics_query() of the backward node).
constexpr std::size_t new_settings = 92300;             // the version from which tiles are settings of their own
constexpr std::size_t several_kernels_version = 91801;  // TransformerEngine#2584; cudnn-frontend says 9.18.0
constexpr std::size_t in_turn_version = 92500;          // cudnn-frontend#398
constexpr int several_kernels_from = 100, several_kernels_to = 103;  // the architectures

EngineChoice several_kernels_engine(std::size_t version, std::int64_t head_dim) {
  const std::int64_t stages = version >= new_settings && head_dim == 256 ? 3 : 2;
  if (version < new_settings) return {5, {{Knob::kernel_config, 31}, {Knob::stages, stages}}};
  return {5,
          {{Knob::tile_m, 3},
           {Knob::tile_n, 2},
           {Knob::kernel_config, 2},
           {Knob::stream_k, 0},
           {Knob::tile_cga_m, 0},
           {Knob::stages, stages}}};
}

EngineChoice in_turn_engine() {
  return {6,
          {{Knob::tile_m, 2},
           {Knob::tile_n, 1},
           {Knob::kernel_config, 2},
           {Knob::stream_k, 0},
           {Knob::tile_cga_m, 0},
           {Knob::stages, 4}}};
}

}  // namespace

DataType data_type(DType dtype) {
  return dtype == DType::bf16 ? DataType::bf16 : dtype == DType::fp16 ? DataType::fp16 : DataType::float32;
}

// ---- convolution ----

Graph convolution_graph(const Target& target, const ConvolutionShape& shape, Op pass) {
  Graph graph(target);
  const DataType type = data_type(shape.dtype);
  const ChannelsLast x = input_of(shape), w = kernel_of(shape), y = output_of(shape);
  graph.memory(uid_x, type, x.extents, x.strides);
  graph.memory(uid_w, type, w.extents, w.strides);
  graph.memory(uid_y, type, y.extents, y.strides);
  graph.convolution({.pass = kind_of(pass),
                     .x = uid_x,
                     .w = uid_w,
                     .y = uid_y,
                     .stride = by_axis(shape.stride),
                     .padding = by_axis(shape.padding),
                     .beta = pass == Op::convolution_backward_weights ? 1.0f : 0.0f});
  graph.finalize();
  return graph;
}

Graph added_weights_graph(const Target& target, const ConvolutionShape& shape) {
  Graph graph(target);
  const DataType type = data_type(shape.dtype);
  const ChannelsLast x = input_of(shape), w = kernel_of(shape), y = output_of(shape);
  graph.memory(uid_x, type, x.extents, x.strides);
  graph.memory(uid_y, type, y.extents, y.strides);
  graph.memory(uid_addend, DataType::float32, w.extents, w.strides);
  graph.memory(uid_sum, DataType::float32, w.extents, w.strides);
  const std::int64_t gradient = graph.between(DataType::float32, w.extents, w.strides);
  graph.convolution({.pass = Kind::operation_convolution_backward_filter,
                     .x = uid_x,
                     .w = gradient,
                     .y = uid_y,
                     .stride = by_axis(shape.stride),
                     .padding = by_axis(shape.padding)});
  graph.pointwise(Pointwise::add, DataType::float32, {.x = gradient, .b = uid_addend, .y = uid_sum});
  graph.finalize();
  return graph;
}

Demands demands_of(const ConvolutionShape& shape) {
  return {.deterministic = true,
          .tensor_cores = is_half(shape.dtype) || shape.math == Math::tf32,
          .most_workspace_bytes = std::size_t{1} << 30};
}

std::optional<ConvolutionShape> padded_part(const ConvolutionShape& shape) {
  if (shape.groups != 1 || shape.in_channels >= padded_channels) return std::nullopt;
  ConvolutionShape part = shape;
  part.in_channels = padded_channels;
  return part;
}

ConvolutionShape widened_part(const ConvolutionShape& shape) {
  constexpr std::size_t most_bytes = std::size_t{512} << 20;
  ConvolutionShape part = shape;
  part.dtype = DType::float32;
  part.math = Math::tf32;
  while (part.batch > 1 && (shape.batch % part.batch != 0 || widened_bytes(part) > most_bytes)) --part.batch;
  return part;
}

std::size_t widened_bytes(const ConvolutionShape& part) {
  const auto bytes = [](const Dims& dims) { return aligned(static_cast<std::size_t>(dims.count()) * sizeof(float)); };
  return bytes(part.in()) + bytes(part.out());
}

// ---- attention ----

AttentionShape AttentionPart::of(const AttentionShape& whole) const {
  AttentionShape s = whole;
  if (batch > 0) s.batch = batch;
  if (kv_heads > 0) s.heads = kv_heads * whole.group(), s.kv_heads = kv_heads;
  return s;
}

Graph attention_forward_graph(const Target& target, const AttentionShape& shape) {
  Attention a(target, shape, {});
  a.packed(uid_q);
  a.packed(uid_k, true);
  a.packed(uid_v);
  a.unpacked(uid_out);
  a.row_values(uid_log_sum_exp);
  a.scalars(false);
  std::int64_t x = a.scores();
  a.graph.matmul(uid_q, uid_k, x);
  x = a.masked(a.of_scores(Pointwise::mul, x, uid_scale));
  const std::int64_t greatest = a.row_values_between(), sum = a.row_values_between(), log = a.row_values_between();
  a.graph.reduce(Reduction::max, x, greatest);
  x = a.of_scores(Pointwise::exp, a.of_scores(Pointwise::sub, x, greatest));
  a.graph.reduce(Reduction::add, x, sum);
  a.graph.pointwise(Pointwise::log, DataType::float32, {.x = sum, .y = log});
  a.graph.pointwise(Pointwise::add, DataType::float32, {.x = greatest, .b = log, .y = uid_log_sum_exp});
  const std::int64_t p = a.scores(a.type);
  a.graph.pointwise(Pointwise::div, DataType::float32, {.x = x, .b = sum, .y = p});
  a.graph.matmul(p, uid_v, uid_out);
  a.graph.finalize();
  return std::move(a.graph);
}

// cudnn-frontend takes `kept` at any size on sm_90 unless it is told that it has not the memory, and calls it the
// faster.
std::vector<DqSums> dq_sums(bool deterministic, int architecture, std::size_t version) {
  if (!deterministic) return {DqSums::any_order};
  if (architecture > several_kernels_to) return {};
  if (architecture >= several_kernels_from) {
    if (version < several_kernels_version) return {};
    return {DqSums::several_kernels};
  }
  if (architecture == 90 && version >= in_turn_version) return {DqSums::kept, DqSums::in_turn};
  return {DqSums::kept};
}

Graph attention_backward_graph(const Target& target, const AttentionShape& shape, DqSums sums,
                               const AttentionPart& part) {
  Attention a(target, shape, part);
  a.packed(uid_q);
  a.packed(uid_k, true);
  a.packed(uid_v, true);
  a.unpacked(uid_out);
  a.unpacked(uid_d_out);
  for (const std::int64_t uid : {uid_dq, uid_dk, uid_dv}) a.packed(uid);
  a.row_values(uid_log_sum_exp);
  a.row_values(uid_row_dot);
  a.scalars(true);
  // Σ d_out · out of each row
  const std::int64_t products = a.products_by_head(), dot = a.row_values_between();
  a.graph.pointwise(Pointwise::mul, DataType::float32, {.x = uid_d_out, .b = uid_out, .y = products});
  a.graph.reduce(Reduction::add, products, dot);
  a.graph.pointwise(Pointwise::mul, DataType::float32, {.x = dot, .b = uid_one, .y = uid_row_dot});
  // p = exp(scaled, masked scores − log_sum_exp), and dv = pᵀ · d_out
  std::int64_t x = a.scores();
  a.graph.matmul(uid_q, uid_k, x);
  x = a.of_scores(Pointwise::mul, x, uid_scale);
  x = a.masked(a.of_scores(Pointwise::sub, x, uid_log_sum_exp));
  const std::int64_t p = a.of_scores(Pointwise::exp, x);
  a.group_product(a.transposed_scores(p), uid_d_out, uid_dv);
  // ds = scale · p ⊙ (d_out · vᵀ − row_dot), dk = dsᵀ · q, dq = ds · k
  std::int64_t ds = a.scores();
  a.graph.matmul(uid_d_out, uid_v, ds);
  ds = a.of_scores(Pointwise::sub, ds, uid_row_dot);
  ds = a.of_scores(Pointwise::mul, ds, p);
  ds = a.of_scores(Pointwise::mul, ds, uid_scale);
  a.group_product(a.transposed_scores(ds), uid_q, uid_dk);
  const std::int64_t k = a.untransposed(uid_k);
  if (has_dq_sum(sums)) {
    a.sums_by_head(uid_dq_sum);
    a.graph.matmul(ds, k, uid_dq_sum);
    a.graph.pointwise(Pointwise::identity, DataType::float32, {.x = uid_dq_sum, .y = uid_dq});
  } else {
    a.graph.matmul(ds, k, uid_dq);
  }
  a.graph.finalize();
  if (sums == DqSums::several_kernels)
    a.graph.ask_for(several_kernels_engine(target.library()->version(), shape.head_dim));
  if (sums == DqSums::in_turn) a.graph.ask_for(in_turn_engine());
  return std::move(a.graph);
}

Demands attention_demands(bool deterministic, std::size_t memory_bytes) {
  return {.deterministic = deterministic, .most_workspace_bytes = std::min(std::size_t{8} << 30, memory_bytes / 8)};
}

AttentionPart fitting_part(const Target& target, const AttentionShape& shape, DqSums sums, const Demands& demands) {
  const std::int64_t all_kv_heads = shape.key_heads();
  std::vector<AttentionPart> parts = {{shape.batch, all_kv_heads}};
  const auto add = [&](std::int64_t batch, std::int64_t kv_heads) {
    // row values of each begin 16-byte aligned
    if (batch * kv_heads * shape.group() * shape.seq % 4 == 0) parts.push_back({batch, kv_heads});
  };
  for (std::int64_t batch = shape.batch - 1; batch > 0; --batch) {
    if (shape.batch % batch == 0) add(batch, all_kv_heads);
  }
  for (std::int64_t kv_heads = all_kv_heads - 1; kv_heads > 0; --kv_heads) {
    if (all_kv_heads % kv_heads == 0) add(1, kv_heads);
  }
  for (const AttentionPart& part : parts) {
    const Graph graph = attention_backward_graph(target, shape, sums, part);
    if (least_workspace_bytes(graph, demands) <= demands.most_workspace_bytes) return part;
  }
  return parts.back();
}

std::string why_no_attention(const AttentionShape& shape, int architecture, bool deterministic) {
  if (!is_half(shape.dtype))
    return "cuDNN's fused attention takes bf16 and fp16, not " + std::string(to_string(shape.dtype));
  if (shape.head_dim % 8 != 0)
    return "cuDNN's fused attention wants a head_dim that 8 divides, not " + std::to_string(shape.head_dim);
  if (shape.seq == 1) return "cuDNN's fused attention has no backward for one position";
  if (architecture < 80) return "cuDNN's fused attention wants sm_80 or later";
  if (deterministic && architecture > several_kernels_to)
    return "cuDNN's deterministic attention is for sm_80 to sm_" + std::to_string(several_kernels_to) +
           ", this is sm_" + std::to_string(architecture) + ": --deterministic no has another one";
  return {};
}

std::string why_too_old(const Library& library, int architecture, bool deterministic) {
  if (library.version() < 91501)  // wants lengths beside sequences that 128 does not divide
    return "cuDNN " + library.version_text() + " is too old for fused attention: 9.15.1 or later";
  // Backward of earlier ones was reported to read workspace that nobody has written (TransformerEngine#2186).
  if (library.version() < 91800 && architecture == 90)
    return "cuDNN " + library.version_text() + " is too old for fused attention on sm_90: 9.18 or later";
  if (dq_sums(deterministic, architecture, library.version()).empty())
    return "cuDNN " + library.version_text() + " is too old for deterministic attention on sm_" +
           std::to_string(architecture) + ": 9.18.1 or later; --deterministic no has another one";
  return {};
}

}  // namespace tw::models::cuda::dnn
