// Llama 3 (arXiv 2407.21783): embedding, pre-norm transformer blocks, output head. Names are Hugging Face's
// LlamaForCausalLM; q, k and v are one product here and exported apart, and so are gate and up. Initialisation is
// Megatron-LM's, with which MLPerf trains it: normal(0, 0.02), the projections into the residual stream divided by
// sqrt(2·layers) (scaled_init_method_normal), norms 1. Weight decay on all matrices, embeddings included.
#include <cmath>

#include "models/compute/error.hpp"
#include "models/families/build_blocks.hpp"
#include "models/families/llama/description.hpp"
#include "models/layers/token_blocks.hpp"

namespace tw::models::family::llama {
namespace {

constexpr double init_stddev = 0.02;
constexpr const char* token_table = "model.embed_tokens.weight";

struct Sizes : TokenBatch {
  LlamaDescription d;
  Dims heads_by(std::int64_t heads) const { return {batch, seq, heads, d.head_dim()}; }
};

/// cos and sin of each position and frequency, float32 (seq, head_dim / 2, 2), shared by all layers.
class Angles {
 public:
  explicit Angles(const Sizes& sizes) : sizes_(sizes) {}
  std::size_t bytes() const { return Tensor{nullptr, DType::float32, dims()}.bytes(); }
  Tensor on(Device& device) {
    if (!buffer_) fill(device);
    return {buffer_.data(), DType::float32, dims()};
  }

 private:
  Dims dims() const { return {sizes_.seq, sizes_.d.head_dim() / 2, 2}; }
  void fill(Device& device) {
    std::vector<float> values;
    const std::vector<double> frequencies = rotary_frequencies(sizes_.d);
    for (std::int64_t position = 0; position < sizes_.seq; ++position) {
      for (const double frequency : frequencies) {
        const double angle = static_cast<double>(position) * frequency;
        values.push_back(static_cast<float>(std::cos(angle)));
        values.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    buffer_ = Buffer(device, bytes());
    const std::unique_ptr<Stream> stream = device.create_stream();
    device.copy_from_host(*stream, buffer_.data(), values.data(), bytes());
    stream->synchronize();
  }
  Sizes sizes_;
  Buffer buffer_;
};

class TransformerBlock final : public Block {
 public:
  TransformerBlock(const Sizes& sizes, int layer, std::shared_ptr<Angles> angles)
      : sizes_(sizes), layer_(layer), angles_(std::move(angles)) {}
  std::string name() const override { return "layers." + std::to_string(layer_); }

  std::vector<ParameterSpec> parameters() const override {
    const LlamaDescription& d = sizes_.d;
    const std::int64_t c = d.width, q = d.heads * d.head_dim(), kv = d.kv_heads * d.head_dim(), hidden = d.hidden;
    const double residual_stddev = init_stddev / std::sqrt(2.0 * d.layers);
    const std::string prefix = "model." + name() + ".", attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    return {
        vector_of(prefix + "input_layernorm.weight", c, 1),
        matrix(
            attention + "qkv_proj.weight", {d.qkv_width(), c}, init_stddev,
            {{attention + "q_proj.weight", q}, {attention + "k_proj.weight", kv}, {attention + "v_proj.weight", kv}}),
        matrix(attention + "o_proj.weight", {c, c}, residual_stddev),
        vector_of(prefix + "post_attention_layernorm.weight", c, 1),
        matrix(mlp + "gate_up_proj.weight", {2 * hidden, c}, init_stddev,
               {{mlp + "gate_proj.weight", hidden}, {mlp + "up_proj.weight", hidden}}),
        matrix(mlp + "down_proj.weight", {c, hidden}, residual_stddev)};
  }
  ActivationSpec output() const override { return {name(), sizes_.rows_by(sizes_.d.width), sizes_.dtype}; }
  std::vector<ActivationSpec> saved() const override {
    const LlamaDescription& d = sizes_.d;
    const DType t = sizes_.dtype;
    std::vector<ActivationSpec> specs = {saved_input("input_norm", qkv_shape()),
                                         {"input_norm.rstd", {sizes_.rows()}, DType::float32},
                                         {"qkv", sizes_.heads_by(d.heads + 2 * d.kv_heads), t},
                                         {"attention", sizes_.heads_by(d.heads), t},
                                         {"log_sum_exp", {sizes_.batch, d.heads, sizes_.seq}, DType::float32},
                                         {"sum", sizes_.rows_by(d.width), t},
                                         saved_input("mlp_norm", gate_up_shape()),
                                         {"mlp_norm.rstd", {sizes_.rows()}, DType::float32},
                                         {"gate_up", sizes_.rows_by(2 * d.hidden), t},
                                         saved_input("gated", down_shape())};
    save_rounded(specs, "attention", projection_shape());
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    const LlamaDescription& d = sizes_.d;
    std::vector<ActivationSpec> specs = {{"wide", sizes_.rows_by(std::max(2 * d.hidden, d.qkv_width())), sizes_.dtype},
                                         {"d_gated", sizes_.rows_by(d.hidden), sizes_.dtype},
                                         {"narrow", sizes_.rows_by(d.width), sizes_.dtype}};
    add_rounded_gradient(specs, {qkv_shape(), projection_shape(), gate_up_shape(), down_shape()});
    return specs;
  }
  std::size_t constant_bytes() const override { return layer_ == 0 ? angles_->bytes() : 0; }

  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    own_ = {&device, own};
    table_ = angles_->on(device);
    const LlamaDescription& d = sizes_.d;
    qkv_ = own_.linear(qkv_shape(), qkv_proj);
    projection_ = own_.linear(projection_shape(), o_proj);
    gate_up_ = own_.linear(gate_up_shape(), gate_up_proj);
    down_ = own_.linear(down_shape(), down_proj);
    AttentionShape attention{
        sizes_.batch, sizes_.seq, d.heads, d.head_dim(), true, sizes_.dtype, math_beside_linear(sizes_.precision)};
    attention.kv_heads = d.kv_heads;
    attention_ = device.plan(attention);
  }
  std::vector<NamedPlan> plans() const override {
    return {
        {"linear", qkv_}, {"attention", attention_}, {"linear", projection_}, {"linear", gate_up_}, {"linear", down_}};
  }

  void forward(BlockRun& run, Tensor x, Tensor y) override {
    const Saved s = saved_of(run);
    const bool follows = run.update_statistics;
    const Tensor d_gated = run.scratch[1], narrow = run.scratch[2], attention = sizes_.flat(s.attention);
    const LinearInput n1 = input_of(run, *qkv_, s.input_norm, narrow);
    own_.norm_forward(run, x, input_norm, norm_epsilon, n1, no_mean, s.input_rstd);
    qkv_->forward(run.stream, {n1.x(), {}, {}, {}, sizes_.flat(s.qkv), follows, n1.left, n1.rounded});
    own_.device->rotary(run.stream, {s.qkv, table_, rotated(), false});
    attention_->forward(run.stream, {s.qkv, s.attention, s.log_sum_exp});
    projection_->forward(run.stream, {attention, {}, x, {}, s.sum, follows, left_of(s.projection_input)});
    const LinearInput n2 = input_of(run, *gate_up_, s.mlp_norm, narrow);
    own_.norm_forward(run, s.sum, mlp_norm, norm_epsilon, n2, no_mean, s.mlp_rstd);
    gate_up_->forward(run.stream, {n2.x(), {}, {}, {}, s.gate_up, follows, n2.left, n2.rounded});
    const LinearInput gated = input_of(run, *down_, s.gated, d_gated);
    own_.device->swiglu_forward(run.stream, {s.gate_up, gated.y, gated.rounded});
    down_->forward(run.stream, {gated.x(), {}, s.sum, {}, y, follows, gated.left, gated.rounded});
  }

  void backward(BlockRun& run, Tensor x, Tensor, Tensor dy, Tensor dx) override {
    const Saved s = saved_of(run);
    const Tensor wide = run.scratch[0], d_gated = run.scratch[1], narrow = run.scratch[2];
    Tensor operand = own_.weights_backward(run, *down_, s.gated, dy, down_proj, false);
    down_->backward_input(run.stream, {operand, {}, d_gated});
    const Tensor d_gate_up = wide.slice(0, s.gate_up.dims);
    own_.device->swiglu_backward(run.stream, {s.gate_up, d_gated, d_gate_up});
    operand = own_.weights_backward(run, *gate_up_, s.mlp_norm, d_gate_up, gate_up_proj, false);
    gate_up_->backward_input(run.stream, {operand, {}, narrow});
    // dy becomes the gradient of `sum`.
    own_.norm_backward(run, narrow, s.sum, mlp_norm, no_mean, s.mlp_rstd, dy, dy);

    operand = own_.weights_backward(run, *projection_, s.projection_input, dy, o_proj, false);
    projection_->backward_input(run.stream, {operand, {}, narrow});
    const Tensor d_qkv = wide.slice(0, s.qkv.dims);
    attention_->backward(run.stream, {narrow.reshaped(s.attention.dims), s.qkv, s.attention, s.log_sum_exp, d_qkv});
    own_.device->rotary(run.stream, {d_qkv, table_, rotated(), true});
    operand = own_.weights_backward(run, *qkv_, s.input_norm, sizes_.flat(d_qkv), qkv_proj, false);
    qkv_->backward_input(run.stream, {operand, {}, narrow});
    own_.norm_backward(run, narrow, x, input_norm, no_mean, s.input_rstd, dy, dx);
  }

 private:
  /// Places in parameters().
  static constexpr int input_norm = 0, qkv_proj = 1, o_proj = 2, mlp_norm = 3, gate_up_proj = 4, down_proj = 5;
  static constexpr Tensor no_mean{};
  struct Saved {
    Tensor input_norm, input_rstd, qkv, attention, log_sum_exp, sum, mlp_norm, mlp_rstd, gate_up, gated,
        projection_input;
  };
  Saved saved_of(const BlockRun& run) const {
    const std::vector<Tensor>& t = run.saved;
    Saved s{t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], sizes_.flat(t[3])};
    if (t.size() > 10) s.projection_input = t[10];  // in fp8
    return s;
  }
  LinearShape linear(std::int64_t in, std::int64_t out) const {
    return {sizes_.rows(), in, out, sizes_.dtype, Activation::none, math(sizes_.precision)};
  }
  LinearShape qkv_shape() const { return linear(sizes_.d.width, sizes_.d.qkv_width()); }
  LinearShape projection_shape() const { return linear(sizes_.d.width, sizes_.d.width); }
  LinearShape gate_up_shape() const { return linear(sizes_.d.width, 2 * sizes_.d.hidden); }
  LinearShape down_shape() const { return linear(sizes_.d.hidden, sizes_.d.width); }
  std::int64_t rotated() const { return sizes_.d.heads + sizes_.d.kv_heads; }

  Sizes sizes_;
  int layer_;
  std::shared_ptr<Angles> angles_;
  Tensor table_;
  Weights own_;
  std::shared_ptr<LinearPlan> qkv_, projection_, gate_up_, down_;
  std::shared_ptr<AttentionPlan> attention_;
};

void check(const LlamaDescription& d, std::int64_t seq_len) {
  if (d.layers < 1 || d.heads < 1 || d.kv_heads < 1 || d.width < 1 || d.hidden < 1 || d.heads % d.kv_heads != 0 ||
      d.width % (2 * d.heads) != 0) {
    throw Error(Failure::usage, "Llama of width " + std::to_string(d.width) + " does not divide into " +
                                    std::to_string(d.heads) + " heads of an even width that share " +
                                    std::to_string(d.kv_heads) + " heads of keys and values");
  }
  check_sequence(seq_len, d.max_seq);
}

}  // namespace

std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision,
                                           std::int64_t micro_batch, std::int64_t seq_len) {
  const LlamaDescription& shape = network.as<LlamaDescription>();
  check(shape, seq_len);
  const Sizes sizes{{precision, micro_batch, seq_len}, shape};
  const auto angles = std::make_shared<Angles>(sizes);
  const Dims of_tokens{shape.vocabulary, shape.width};
  const ParameterSpec tokens = table(token_table, of_tokens, init_stddev);
  std::vector<std::unique_ptr<Block>> chain;
  chain.push_back(
      token_embedding(sizes, {.tables = {shape.tied_head ? of_head(tokens) : tokens}, .is_tied = shape.tied_head}));
  for (int layer = 0; layer < shape.layers; ++layer)
    chain.push_back(std::make_unique<TransformerBlock>(sizes, layer, angles));
  TokenHeadOptions head{.norm = "norm",
                        .own = {vector_of("model.norm.weight", shape.width, 1)},
                        .tied_to = shape.tied_head ? token_table : "",
                        .epsilon = norm_epsilon,
                        .is_layer_norm = false,
                        .width = shape.width,
                        .vocabulary = shape.vocabulary};
  if (!shape.tied_head) head.own.push_back(of_head(matrix("lm_head.weight", of_tokens, init_stddev)));
  chain.push_back(token_head(sizes, std::move(head)));
  return chain;
}

}  // namespace tw::models::family::llama
