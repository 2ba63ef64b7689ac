// GPT-2 (Radford et al. 2019): embedding, pre-norm transformer blocks, tied output head. Names are Hugging Face's
// GPT2Model. Initialisation is that of OpenAI's released code (weights normal(0, 0.02), positions normal(0, 0.01),
// biases 0, norms 1 and 0), but for the projections into the residual stream: these are divided by sqrt(2·layers), the
// paper's 1/sqrt(N) with N residual layers, which the released code lacks. Weight decay on all matrices, embeddings
// included (nanoGPT: every parameter of two or more dimensions).
#include <cmath>

#include "models/compute/error.hpp"
#include "models/families/build_blocks.hpp"
#include "models/families/gpt2/description.hpp"
#include "models/layers/blocks.hpp"

namespace tw::models::family::gpt2 {
namespace {

constexpr double init_stddev = 0.02;

struct Gpt2Sizes {
  Precision precision;
  DType dtype;
  std::int64_t batch, seq, width, heads, vocabulary, max_seq;
  int layers;
  std::int64_t rows() const { return Dims{batch, seq}.count(); }
  Dims rows_by(std::int64_t columns) const { return {rows(), columns}; }
};

ParameterSpec matrix(const std::string& name, Dims dims, double stddev) {
  return {name, dims, normal(stddev), true, false, ParameterSpec::Export::transpose};
}
ParameterSpec table(const std::string& name, Dims dims, double stddev) {
  return {name, dims, normal(stddev), true, false, ParameterSpec::Export::as_is, true};
}
ParameterSpec vector_of(const std::string& name, std::int64_t count, float value) {
  return {name, {count}, constant(value), false, false, ParameterSpec::Export::as_is};
}

class EmbeddingBlock final : public Block {
 public:
  explicit EmbeddingBlock(const Gpt2Sizes& sizes) : sizes_(sizes) {}
  std::string name() const override { return "embedding"; }
  std::vector<ParameterSpec> parameters() const override {
    return {of_head(table("wte.weight", {sizes_.vocabulary, sizes_.width}, init_stddev)),
            table("wpe.weight", {sizes_.max_seq, sizes_.width}, 0.01)};
  }
  ActivationSpec output() const override { return {"embedding", sizes_.rows_by(sizes_.width), sizes_.dtype}; }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    device_ = &device;
    tokens_ = own[0];
    positions_ = own[1];
  }
  void forward(BlockRun& run, Tensor, Tensor y) override {
    device_->embedding_forward(run.stream,
                               {run.tokens_or_images, tokens_.weight, positions_.weight, y.reshaped(by_position())});
  }
  void backward(BlockRun& run, Tensor, Tensor, Tensor dy, Tensor) override {
    // The head has written the tied table's gradient already.
    device_->embedding_backward(run.stream, {run.tokens_or_images, dy.reshaped(by_position()), tokens_.gradient,
                                             positions_.gradient, run.accumulate});
    announce(run, 1, 0);
  }

 private:
  Dims by_position() const { return {sizes_.batch, sizes_.seq, sizes_.width}; }
  Gpt2Sizes sizes_;
  Device* device_ = nullptr;
  Parameter tokens_, positions_;
};

class TransformerBlock final : public Block {
 public:
  TransformerBlock(const Gpt2Sizes& sizes, int layer) : sizes_(sizes), prefix_("h." + std::to_string(layer) + ".") {}
  std::string name() const override { return prefix_.substr(0, prefix_.size() - 1); }

  std::vector<ParameterSpec> parameters() const override {
    const std::int64_t c = sizes_.width;
    const double residual_stddev = init_stddev / std::sqrt(2.0 * sizes_.layers);
    return {vector_of(prefix_ + "ln_1.weight", c, 1),
            vector_of(prefix_ + "ln_1.bias", c, 0),
            matrix(prefix_ + "attn.c_attn.weight", {3 * c, c}, init_stddev),
            vector_of(prefix_ + "attn.c_attn.bias", 3 * c, 0),
            matrix(prefix_ + "attn.c_proj.weight", {c, c}, residual_stddev),
            vector_of(prefix_ + "attn.c_proj.bias", c, 0),
            vector_of(prefix_ + "ln_2.weight", c, 1),
            vector_of(prefix_ + "ln_2.bias", c, 0),
            matrix(prefix_ + "mlp.c_fc.weight", {4 * c, c}, init_stddev),
            vector_of(prefix_ + "mlp.c_fc.bias", 4 * c, 0),
            matrix(prefix_ + "mlp.c_proj.weight", {c, 4 * c}, residual_stddev),
            vector_of(prefix_ + "mlp.c_proj.bias", c, 0)};
  }
  ActivationSpec output() const override { return {name(), sizes_.rows_by(sizes_.width), sizes_.dtype}; }
  std::vector<ActivationSpec> saved() const override {
    const std::int64_t c = sizes_.width;
    const DType t = sizes_.dtype;
    const Dims statistic{sizes_.rows()};
    return {{"ln_1", sizes_.rows_by(c), t},
            {"ln_1.mean", statistic, DType::float32},
            {"ln_1.rstd", statistic, DType::float32},
            {"qkv", {sizes_.batch, sizes_.seq, 3 * sizes_.heads, c / sizes_.heads}, t},
            {"attention", {sizes_.batch, sizes_.seq, sizes_.heads, c / sizes_.heads}, t},
            {"log_sum_exp", {sizes_.batch, sizes_.heads, sizes_.seq}, DType::float32},
            {"sum", sizes_.rows_by(c), t},
            {"ln_2", sizes_.rows_by(c), t},
            {"ln_2.mean", statistic, DType::float32},
            {"ln_2.rstd", statistic, DType::float32},
            {"c_fc", sizes_.rows_by(4 * c), t},
            {"gelu", sizes_.rows_by(4 * c), t}};
  }
  std::vector<ActivationSpec> scratch() const override {
    return {{"wide", sizes_.rows_by(4 * sizes_.width), sizes_.dtype},
            {"narrow", sizes_.rows_by(sizes_.width), sizes_.dtype}};
  }

  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    device_ = &device;
    parameter_ = own;
    const std::int64_t c = sizes_.width, rows = sizes_.rows();
    const DType t = sizes_.dtype;
    const Math by = math(sizes_.precision), beside = math_beside_linear(sizes_.precision);
    qkv_ = device.plan(LinearShape{rows, c, 3 * c, t, Activation::none, by});
    projection_ = device.plan(LinearShape{rows, c, c, t, Activation::none, by});
    fc_ = device.plan(LinearShape{rows, c, 4 * c, t, Activation::gelu, by});
    mlp_projection_ = device.plan(LinearShape{rows, 4 * c, c, t, Activation::none, by});
    attention_ = device.plan(AttentionShape{sizes_.batch, sizes_.seq, sizes_.heads, c / sizes_.heads, true, t, beside});
    qkv_->bind(own[c_attn_weight].weight);
    projection_->bind(own[c_proj_weight].weight);
    fc_->bind(own[c_fc_weight].weight);
    mlp_projection_->bind(own[mlp_c_proj_weight].weight);
  }
  std::vector<NamedPlan> plans() const override {
    return {{"linear", qkv_},
            {"attention", attention_},
            {"linear", projection_},
            {"linear", fc_},
            {"linear", mlp_projection_}};
  }

  void forward(BlockRun& run, Tensor x, Tensor y) override {
    const Saved s = saved_of(run);
    const bool follows = run.update_statistics;
    norm_forward(run, x, ln_1_weight, s.ln_1, s.mean_1, s.rstd_1);
    qkv_->forward(run.stream, {s.ln_1, weight(c_attn_bias), {}, {}, flat(s.qkv, 3), follows});
    attention_->forward(run.stream, {s.qkv, s.attention, s.log_sum_exp});
    projection_->forward(run.stream, {flat(s.attention, 1), weight(c_proj_bias), x, {}, s.sum, follows});
    norm_forward(run, s.sum, ln_2_weight, s.ln_2, s.mean_2, s.rstd_2);
    fc_->forward(run.stream, {s.ln_2, weight(c_fc_bias), {}, s.c_fc, s.gelu, follows});
    mlp_projection_->forward(run.stream, {s.gelu, weight(mlp_c_proj_bias), s.sum, {}, y, follows});
  }

  void backward(BlockRun& run, Tensor x, Tensor, Tensor dy, Tensor dx) override {
    const Saved s = saved_of(run);
    const Tensor wide = run.scratch[0], narrow = run.scratch[1];
    mlp_projection_->backward_weights(
        run.stream, {s.gelu, dy, gradient(mlp_c_proj_weight), gradient(mlp_c_proj_bias), run.accumulate});
    announce(run, mlp_c_proj_bias, mlp_c_proj_weight);
    mlp_projection_->backward_input(run.stream, {dy, s.c_fc, wide});  // through the GELU
    fc_->backward_weights(run.stream, {s.ln_2, wide, gradient(c_fc_weight), gradient(c_fc_bias), run.accumulate});
    announce(run, c_fc_bias, c_fc_weight);
    fc_->backward_input(run.stream, {wide, {}, narrow});
    norm_backward(run, narrow, s.sum, ln_2_weight, s.mean_2, s.rstd_2, dy, dy);  // dy is now the gradient of `sum`

    projection_->backward_weights(
        run.stream, {flat(s.attention, 1), dy, gradient(c_proj_weight), gradient(c_proj_bias), run.accumulate});
    announce(run, c_proj_bias, c_proj_weight);
    projection_->backward_input(run.stream, {dy, {}, narrow});
    const Tensor d_qkv = wide.slice(0, s.qkv.dims);
    attention_->backward(run.stream, {narrow.reshaped(s.attention.dims), s.qkv, s.attention, s.log_sum_exp, d_qkv});
    qkv_->backward_weights(run.stream,
                           {s.ln_1, flat(d_qkv, 3), gradient(c_attn_weight), gradient(c_attn_bias), run.accumulate});
    announce(run, c_attn_bias, c_attn_weight);
    qkv_->backward_input(run.stream, {flat(d_qkv, 3), {}, narrow});
    norm_backward(run, narrow, x, ln_1_weight, s.mean_1, s.rstd_1, dy, dx);
  }

 private:
  /// Places in parameters(); a norm's bias is behind its weight.
  static constexpr int ln_1_weight = 0, c_attn_weight = 2, c_attn_bias = 3, c_proj_weight = 4, c_proj_bias = 5,
                       ln_2_weight = 6, c_fc_weight = 8, c_fc_bias = 9, mlp_c_proj_weight = 10, mlp_c_proj_bias = 11;
  struct Saved {
    Tensor ln_1, mean_1, rstd_1, qkv, attention, log_sum_exp, sum, ln_2, mean_2, rstd_2, c_fc, gelu;
  };
  static Saved saved_of(const BlockRun& run) {
    const std::vector<Tensor>& t = run.saved;
    return {t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], t[10], t[11]};
  }
  const Tensor& weight(int index) const { return parameter_[static_cast<std::size_t>(index)].weight; }
  const Tensor& gradient(int index) const { return parameter_[static_cast<std::size_t>(index)].gradient; }
  Tensor flat(const Tensor& t, std::int64_t parts) const { return t.reshaped(sizes_.rows_by(parts * sizes_.width)); }
  void norm_forward(BlockRun& run, const Tensor& x, int index, const Tensor& y, const Tensor& mean,
                    const Tensor& rstd) {
    device_->layer_norm_forward(run.stream, {x, {}, {}, weight(index), weight(index + 1), norm_epsilon, y, mean, rstd});
  }
  void norm_backward(BlockRun& run, const Tensor& dy, const Tensor& x, int index, const Tensor& mean,
                     const Tensor& rstd, const Tensor& by_pass, const Tensor& dx) {
    device_->layer_norm_backward(run.stream, {dy, x, weight(index), mean, rstd, by_pass, dx, gradient(index),
                                              gradient(index + 1), run.accumulate});
    announce(run, index + 1, index);
  }

  Gpt2Sizes sizes_;
  std::string prefix_;
  Device* device_ = nullptr;
  std::vector<Parameter> parameter_;
  std::shared_ptr<LinearPlan> qkv_, projection_, fc_, mlp_projection_;
  std::shared_ptr<AttentionPlan> attention_;
};

// Final norm and the output head with the token table as its weight.
class Gpt2Head final : public Block {
 public:
  explicit Gpt2Head(const Gpt2Sizes& sizes) : sizes_(sizes) {}
  std::string name() const override { return "head"; }
  std::vector<ParameterSpec> parameters() const override {
    return {vector_of("ln_f.weight", sizes_.width, 1), vector_of("ln_f.bias", sizes_.width, 0)};
  }
  std::vector<std::string> shared_parameters() const override { return {"wte.weight"}; }
  ActivationSpec output() const override { return {}; }
  std::vector<ActivationSpec> saved() const override {
    return {{"ln_f", sizes_.rows_by(sizes_.width), sizes_.dtype},
            {"ln_f.mean", {sizes_.rows()}, DType::float32},
            {"ln_f.rstd", {sizes_.rows()}, DType::float32}};
  }
  std::vector<ActivationSpec> scratch() const override {
    return {{"d_ln_f", sizes_.rows_by(sizes_.width), sizes_.dtype}};
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>& shared,
             const std::vector<Tensor>&) override {
    device_ = &device;
    gamma_ = own[0];
    beta_ = own[1];
    table_ = shared[0];
    classifier_ = device.plan(ClassifierShape{sizes_.rows(), sizes_.width, sizes_.vocabulary, 0, sizes_.dtype,
                                              math_beside_linear(sizes_.precision), 1, table_.spec.reserved_rows});
    classifier_->bind(table_.weight);
  }
  std::vector<NamedPlan> plans() const override { return {{"classifier", classifier_}}; }
  void forward(BlockRun& run, Tensor x, Tensor) override {
    device_->layer_norm_forward(
        run.stream, {x, {}, {}, gamma_.weight, beta_.weight, norm_epsilon, run.saved[0], run.saved[1], run.saved[2]});
    if (!run.backward_follows) classify(run);
  }
  void backward(BlockRun& run, Tensor x, Tensor, Tensor, Tensor dx) override {
    classify(run);
    const Tensor nothing_by_passes;
    device_->layer_norm_backward(run.stream, {run.scratch[0], x, gamma_.weight, run.saved[1], run.saved[2],
                                              nothing_by_passes, dx, gamma_.gradient, beta_.gradient, run.accumulate});
    announce(run, 1, 0);
  }

 private:
  void classify(BlockRun& run) {  // the embedding adds its part to the table's gradient
    tw::models::classify(run, *classifier_, run.saved[0], {}, {run.scratch[0], table_.gradient, {}});
  }

  Gpt2Sizes sizes_;
  Device* device_ = nullptr;
  Parameter gamma_, beta_, table_;
  std::shared_ptr<ClassifierPlan> classifier_;
};

}  // namespace

std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision,
                                           std::int64_t micro_batch, std::int64_t seq_len) {
  const Gpt2Description& shape = network.as<Gpt2Description>();
  if (shape.layers < 1 || shape.heads < 1 || shape.width < 1 || shape.width % shape.heads != 0) {
    throw Error(Failure::usage, "GPT-2 of width " + std::to_string(shape.width) + " does not divide into " +
                                    std::to_string(shape.heads) + " heads");
  }
  if (seq_len < 1 || seq_len > shape.max_seq) {
    throw Error(Failure::usage, "sequence length " + std::to_string(seq_len) + " is not in 1…" +
                                    std::to_string(shape.max_seq) + ", the positions that this network has");
  }
  const Gpt2Sizes sizes{precision,   storage(precision), micro_batch,   seq_len,     shape.width,
                        shape.heads, shape.vocabulary,   shape.max_seq, shape.layers};
  std::vector<std::unique_ptr<Block>> chain;
  chain.push_back(std::make_unique<EmbeddingBlock>(sizes));
  for (int layer = 0; layer < shape.layers; ++layer) chain.push_back(std::make_unique<TransformerBlock>(sizes, layer));
  chain.push_back(std::make_unique<Gpt2Head>(sizes));
  return chain;
}

}  // namespace tw::models::family::gpt2
