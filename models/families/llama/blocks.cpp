// Llama 3 (arXiv 2407.21783): embedding, pre-norm transformer blocks, output head. Names are Hugging Face's
// LlamaForCausalLM; q, k and v are one product here and exported apart, and so are gate and up. Initialisation is
// Megatron-LM's, with which MLPerf trains it: normal(0, 0.02), the projections into the residual stream divided by
// sqrt(2·layers) (scaled_init_method_normal), norms 1. Weight decay on all matrices, embeddings included.
#include <cmath>

#include "models/compute/error.hpp"
#include "models/families/build_blocks.hpp"
#include "models/families/llama/description.hpp"
#include "models/layers/blocks.hpp"

namespace tw::models::family::llama {
namespace {

constexpr double init_stddev = 0.02;
constexpr const char* token_table = "model.embed_tokens.weight";

struct Sizes {
  LlamaDescription d;
  Precision precision;
  DType dtype;
  std::int64_t batch, seq;
  std::int64_t rows() const { return Dims{batch, seq}.count(); }
  Dims rows_by(std::int64_t columns) const { return {rows(), columns}; }
  Dims heads_by(std::int64_t heads) const { return {batch, seq, heads, d.head_dim()}; }
};

/// One matrix of the network; `parts`: the names and rows under which it is exported.
ParameterSpec matrix(const std::string& name, Dims dims, double stddev, std::vector<NamedRows> parts = {}) {
  return {name, dims, normal(stddev), true, false, ParameterSpec::Export::as_is, false, std::move(parts)};
}
ParameterSpec norm_weight(const std::string& name, std::int64_t width) {
  return {name, {width}, constant(1), false, false, ParameterSpec::Export::as_is};
}

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

class EmbeddingBlock final : public Block {
 public:
  explicit EmbeddingBlock(const Sizes& sizes) : sizes_(sizes) {}
  std::string name() const override { return "embedding"; }
  std::vector<ParameterSpec> parameters() const override {
    const ParameterSpec table{token_table,
                              {sizes_.d.vocabulary, sizes_.d.width},
                              normal(init_stddev),
                              true,
                              false,
                              ParameterSpec::Export::as_is,
                              true};
    return {sizes_.d.tied_head ? of_head(table) : table};
  }
  ActivationSpec output() const override { return {"embedding", sizes_.rows_by(sizes_.d.width), sizes_.dtype}; }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    device_ = &device;
    tokens_ = own[0];
  }
  void forward(BlockRun& run, Tensor, Tensor y) override {
    device_->embedding_forward(run.stream, {run.tokens_or_images, tokens_.weight, {}, y.reshaped(by_position())});
  }
  void backward(BlockRun& run, Tensor, Tensor, Tensor dy, Tensor) override {
    // A tied head has written this gradient already.
    if (!sizes_.d.tied_head && !run.accumulate) device_->fill(run.stream, {tokens_.gradient, 0});
    device_->embedding_backward(run.stream,
                                {run.tokens_or_images, dy.reshaped(by_position()), tokens_.gradient, {}, false});
    announce(run, 0, 0);
  }

 private:
  Dims by_position() const { return {sizes_.batch, sizes_.seq, sizes_.d.width}; }
  Sizes sizes_;
  Device* device_ = nullptr;
  Parameter tokens_;
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
        norm_weight(prefix + "input_layernorm.weight", c),
        matrix(
            attention + "qkv_proj.weight", {d.qkv_width(), c}, init_stddev,
            {{attention + "q_proj.weight", q}, {attention + "k_proj.weight", kv}, {attention + "v_proj.weight", kv}}),
        matrix(attention + "o_proj.weight", {c, c}, residual_stddev),
        norm_weight(prefix + "post_attention_layernorm.weight", c),
        matrix(mlp + "gate_up_proj.weight", {2 * hidden, c}, init_stddev,
               {{mlp + "gate_proj.weight", hidden}, {mlp + "up_proj.weight", hidden}}),
        matrix(mlp + "down_proj.weight", {c, hidden}, residual_stddev)};
  }
  ActivationSpec output() const override { return {name(), sizes_.rows_by(sizes_.d.width), sizes_.dtype}; }
  std::vector<ActivationSpec> saved() const override {
    const LlamaDescription& d = sizes_.d;
    const DType t = sizes_.dtype;
    return {{"input_norm", sizes_.rows_by(d.width), t},
            {"input_norm.rstd", {sizes_.rows()}, DType::float32},
            {"qkv", sizes_.heads_by(d.heads + 2 * d.kv_heads), t},
            {"attention", sizes_.heads_by(d.heads), t},
            {"log_sum_exp", {sizes_.batch, d.heads, sizes_.seq}, DType::float32},
            {"sum", sizes_.rows_by(d.width), t},
            {"mlp_norm", sizes_.rows_by(d.width), t},
            {"mlp_norm.rstd", {sizes_.rows()}, DType::float32},
            {"gate_up", sizes_.rows_by(2 * d.hidden), t},
            {"gated", sizes_.rows_by(d.hidden), t}};
  }
  std::vector<ActivationSpec> scratch() const override {
    const LlamaDescription& d = sizes_.d;
    return {{"wide", sizes_.rows_by(std::max(2 * d.hidden, d.qkv_width())), sizes_.dtype},
            {"d_gated", sizes_.rows_by(d.hidden), sizes_.dtype},
            {"narrow", sizes_.rows_by(d.width), sizes_.dtype}};
  }
  std::size_t constant_bytes() const override { return layer_ == 0 ? angles_->bytes() : 0; }

  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    device_ = &device;
    parameter_ = own;
    table_ = angles_->on(device);
    const LlamaDescription& d = sizes_.d;
    const auto linear = [&](std::int64_t in, std::int64_t out, int weight_index) {
      std::shared_ptr<LinearPlan> plan =
          device.plan(LinearShape{sizes_.rows(), in, out, sizes_.dtype, Activation::none, math(sizes_.precision)});
      plan->bind(weight(weight_index));
      return plan;
    };
    qkv_ = linear(d.width, d.qkv_width(), qkv_proj);
    projection_ = linear(d.width, d.width, o_proj);
    gate_up_ = linear(d.width, 2 * d.hidden, gate_up_proj);
    down_ = linear(d.hidden, d.width, down_proj);
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
    norm_forward(run, x, input_norm, s.input_norm, s.input_rstd);
    qkv_->forward(run.stream, {s.input_norm, {}, {}, {}, flat(s.qkv), follows});
    device_->rotary(run.stream, {s.qkv, table_, rotated(), false});
    attention_->forward(run.stream, {s.qkv, s.attention, s.log_sum_exp});
    projection_->forward(run.stream, {flat(s.attention), {}, x, {}, s.sum, follows});
    norm_forward(run, s.sum, mlp_norm, s.mlp_norm, s.mlp_rstd);
    gate_up_->forward(run.stream, {s.mlp_norm, {}, {}, {}, s.gate_up, follows});
    device_->swiglu_forward(run.stream, {s.gate_up, s.gated});
    down_->forward(run.stream, {s.gated, {}, s.sum, {}, y, follows});
  }

  void backward(BlockRun& run, Tensor x, Tensor, Tensor dy, Tensor dx) override {
    const Saved s = saved_of(run);
    const Tensor wide = run.scratch[0], d_gated = run.scratch[1], narrow = run.scratch[2];
    weights_backward(run, *down_, s.gated, dy, down_proj);
    down_->backward_input(run.stream, {dy, {}, d_gated});
    const Tensor d_gate_up = wide.slice(0, s.gate_up.dims);
    device_->swiglu_backward(run.stream, {s.gate_up, d_gated, d_gate_up});
    weights_backward(run, *gate_up_, s.mlp_norm, d_gate_up, gate_up_proj);
    gate_up_->backward_input(run.stream, {d_gate_up, {}, narrow});
    norm_backward(run, narrow, s.sum, mlp_norm, s.mlp_rstd, dy, dy);  // dy is now the gradient of `sum`

    weights_backward(run, *projection_, flat(s.attention), dy, o_proj);
    projection_->backward_input(run.stream, {dy, {}, narrow});
    const Tensor d_qkv = wide.slice(0, s.qkv.dims);
    attention_->backward(run.stream, {narrow.reshaped(s.attention.dims), s.qkv, s.attention, s.log_sum_exp, d_qkv});
    device_->rotary(run.stream, {d_qkv, table_, rotated(), true});
    weights_backward(run, *qkv_, s.input_norm, flat(d_qkv), qkv_proj);
    qkv_->backward_input(run.stream, {flat(d_qkv), {}, narrow});
    norm_backward(run, narrow, x, input_norm, s.input_rstd, dy, dx);
  }

 private:
  /// Places in parameters().
  static constexpr int input_norm = 0, qkv_proj = 1, o_proj = 2, mlp_norm = 3, gate_up_proj = 4, down_proj = 5;
  struct Saved {
    Tensor input_norm, input_rstd, qkv, attention, log_sum_exp, sum, mlp_norm, mlp_rstd, gate_up, gated;
  };
  static Saved saved_of(const BlockRun& run) {
    const std::vector<Tensor>& t = run.saved;
    return {t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9]};
  }
  const Tensor& weight(int index) const { return parameter_[static_cast<std::size_t>(index)].weight; }
  const Tensor& gradient(int index) const { return parameter_[static_cast<std::size_t>(index)].gradient; }
  /// Of (batch, seq, heads, head_dim), the rows.
  Tensor flat(const Tensor& t) const { return t.reshaped(sizes_.rows_by(t.count() / sizes_.rows())); }
  std::int64_t rotated() const { return sizes_.d.heads + sizes_.d.kv_heads; }
  void norm_forward(BlockRun& run, const Tensor& x, int index, const Tensor& y, const Tensor& rstd) {
    device_->rms_norm_forward(run.stream, {x, {}, {}, weight(index), norm_epsilon, y, rstd});
  }
  void norm_backward(BlockRun& run, const Tensor& dy, const Tensor& x, int index, const Tensor& rstd,
                     const Tensor& by_pass, const Tensor& dx) {
    device_->rms_norm_backward(run.stream, {dy, x, weight(index), rstd, by_pass, dx, gradient(index), run.accumulate});
    announce(run, index, index);
  }
  void weights_backward(BlockRun& run, LinearPlan& plan, const Tensor& x, const Tensor& dy, int index) {
    plan.backward_weights(run.stream, {x, dy, gradient(index), {}, run.accumulate});
    announce(run, index, index);
  }

  Sizes sizes_;
  int layer_;
  std::shared_ptr<Angles> angles_;
  Tensor table_;
  Device* device_ = nullptr;
  std::vector<Parameter> parameter_;
  std::shared_ptr<LinearPlan> qkv_, projection_, gate_up_, down_;
  std::shared_ptr<AttentionPlan> attention_;
};

// Final norm and the output head, whose weight is its own or the token table.
class Head final : public Block {
 public:
  explicit Head(const Sizes& sizes) : sizes_(sizes) {}
  std::string name() const override { return "head"; }
  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> own = {norm_weight("model.norm.weight", sizes_.d.width)};
    if (!sizes_.d.tied_head)
      own.push_back(of_head(matrix("lm_head.weight", {sizes_.d.vocabulary, sizes_.d.width}, init_stddev)));
    return own;
  }
  std::vector<std::string> shared_parameters() const override {
    return sizes_.d.tied_head ? std::vector<std::string>{token_table} : std::vector<std::string>{};
  }
  ActivationSpec output() const override { return {}; }
  std::vector<ActivationSpec> saved() const override {
    return {{"norm", sizes_.rows_by(sizes_.d.width), sizes_.dtype}, {"norm.rstd", {sizes_.rows()}, DType::float32}};
  }
  std::vector<ActivationSpec> scratch() const override {
    return {{"d_norm", sizes_.rows_by(sizes_.d.width), sizes_.dtype}};
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>& shared,
             const std::vector<Tensor>&) override {
    device_ = &device;
    gamma_ = own[0];
    weight_ = sizes_.d.tied_head ? shared[0] : own[1];
    classifier_ = device.plan(ClassifierShape{sizes_.rows(), sizes_.d.width, sizes_.d.vocabulary, 0, sizes_.dtype,
                                              math_beside_linear(sizes_.precision), 1, weight_.spec.reserved_rows});
    classifier_->bind(weight_.weight);
  }
  std::vector<NamedPlan> plans() const override { return {{"classifier", classifier_}}; }
  void forward(BlockRun& run, Tensor x, Tensor) override {
    device_->rms_norm_forward(run.stream, {x, {}, {}, gamma_.weight, norm_epsilon, run.saved[0], run.saved[1]});
    if (!run.backward_follows) classify(run);
  }
  void backward(BlockRun& run, Tensor x, Tensor, Tensor, Tensor dx) override {
    classify(run);
    if (!sizes_.d.tied_head) announce(run, 1, 1);  // else the embedding adds its part first
    const Tensor nothing_by_passes;
    device_->rms_norm_backward(run.stream, {run.scratch[0], x, gamma_.weight, run.saved[1], nothing_by_passes, dx,
                                            gamma_.gradient, run.accumulate});
    announce(run, 0, 0);
  }

 private:
  void classify(BlockRun& run) {
    tw::models::classify(run, *classifier_, run.saved[0], {}, {run.scratch[0], weight_.gradient, {}});
  }

  Sizes sizes_;
  Device* device_ = nullptr;
  Parameter gamma_, weight_;
  std::shared_ptr<ClassifierPlan> classifier_;
};

void check(const LlamaDescription& d, std::int64_t seq_len) {
  if (d.layers < 1 || d.heads < 1 || d.kv_heads < 1 || d.width < 1 || d.hidden < 1 || d.heads % d.kv_heads != 0 ||
      d.width % (2 * d.heads) != 0) {
    throw Error(Failure::usage, "Llama of width " + std::to_string(d.width) + " does not divide into " +
                                    std::to_string(d.heads) + " heads of an even width that share " +
                                    std::to_string(d.kv_heads) + " heads of keys and values");
  }
  if (seq_len < 1 || seq_len > d.max_seq) {
    throw Error(Failure::usage, "sequence length " + std::to_string(seq_len) + " is not in 1…" +
                                    std::to_string(d.max_seq) + ", the positions that this network has");
  }
}

}  // namespace

std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision,
                                           std::int64_t micro_batch, std::int64_t seq_len) {
  const LlamaDescription& shape = network.as<LlamaDescription>();
  check(shape, seq_len);
  const Sizes sizes{shape, precision, storage(precision), micro_batch, seq_len};
  const auto angles = std::make_shared<Angles>(sizes);
  std::vector<std::unique_ptr<Block>> chain;
  chain.push_back(std::make_unique<EmbeddingBlock>(sizes));
  for (int layer = 0; layer < shape.layers; ++layer)
    chain.push_back(std::make_unique<TransformerBlock>(sizes, layer, angles));
  chain.push_back(std::make_unique<Head>(sizes));
  return chain;
}

}  // namespace tw::models::family::llama
