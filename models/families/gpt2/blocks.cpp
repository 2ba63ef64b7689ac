// GPT-2 (Radford et al. 2019): embedding, pre-norm transformer blocks, tied output head. Names are Hugging Face's
// GPT2Model. Initialisation is that of OpenAI's released code (weights normal(0, 0.02), positions normal(0, 0.01),
// biases 0, norms 1 and 0), but for the projections into the residual stream: these are divided by sqrt(2·layers), the
// paper's 1/sqrt(N) with N residual layers, which the released code lacks. Weight decay on all matrices, embeddings
// included (nanoGPT: every parameter of two or more dimensions).
#include <cmath>

#include "models/compute/error.hpp"
#include "models/families/build_blocks.hpp"
#include "models/families/gpt2/description.hpp"
#include "models/layers/token_blocks.hpp"

namespace tw::models::family::gpt2 {
namespace {

constexpr double init_stddev = 0.02;

struct Sizes : TokenBatch {
  Gpt2Description d;
};

/// Exported as Conv1D has it.
ParameterSpec transposed(const std::string& name, const Dims& dims, double stddev) {
  ParameterSpec spec = matrix(name, dims, stddev);
  spec.export_layout = ParameterSpec::Export::transpose;
  return spec;
}

class TransformerBlock final : public Block {
 public:
  TransformerBlock(const Sizes& sizes, int layer) : sizes_(sizes), prefix_("h." + std::to_string(layer) + ".") {}
  std::string name() const override { return prefix_.substr(0, prefix_.size() - 1); }

  std::vector<ParameterSpec> parameters() const override {
    const std::int64_t c = sizes_.d.width;
    const double residual_stddev = init_stddev / std::sqrt(2.0 * sizes_.d.layers);
    return {vector_of(prefix_ + "ln_1.weight", c, 1),
            vector_of(prefix_ + "ln_1.bias", c, 0),
            transposed(prefix_ + "attn.c_attn.weight", {3 * c, c}, init_stddev),
            vector_of(prefix_ + "attn.c_attn.bias", 3 * c, 0),
            transposed(prefix_ + "attn.c_proj.weight", {c, c}, residual_stddev),
            vector_of(prefix_ + "attn.c_proj.bias", c, 0),
            vector_of(prefix_ + "ln_2.weight", c, 1),
            vector_of(prefix_ + "ln_2.bias", c, 0),
            transposed(prefix_ + "mlp.c_fc.weight", {4 * c, c}, init_stddev),
            vector_of(prefix_ + "mlp.c_fc.bias", 4 * c, 0),
            transposed(prefix_ + "mlp.c_proj.weight", {c, 4 * c}, residual_stddev),
            vector_of(prefix_ + "mlp.c_proj.bias", c, 0)};
  }
  ActivationSpec output() const override { return {name(), sizes_.rows_by(sizes_.d.width), sizes_.dtype}; }
  std::vector<ActivationSpec> saved() const override {
    const std::int64_t c = sizes_.d.width;
    const DType t = sizes_.dtype;
    const Dims statistic{sizes_.rows()};
    std::vector<ActivationSpec> specs = {
        saved_input("ln_1", qkv_shape()),
        {"ln_1.mean", statistic, DType::float32},
        {"ln_1.rstd", statistic, DType::float32},
        {"qkv", {sizes_.batch, sizes_.seq, 3 * sizes_.d.heads, c / sizes_.d.heads}, t},
        {"attention", {sizes_.batch, sizes_.seq, sizes_.d.heads, c / sizes_.d.heads}, t},
        {"log_sum_exp", {sizes_.batch, sizes_.d.heads, sizes_.seq}, DType::float32},
        {"sum", sizes_.rows_by(c), t},
        saved_input("ln_2", fc_shape()),
        {"ln_2.mean", statistic, DType::float32},
        {"ln_2.rstd", statistic, DType::float32},
        {"c_fc", sizes_.rows_by(4 * c), t},
        saved_input("gelu", mlp_projection_shape())};
    save_rounded(specs, "attention", projection_shape());
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    std::vector<ActivationSpec> specs = {{"wide", sizes_.rows_by(4 * sizes_.d.width), sizes_.dtype},
                                         {"narrow", sizes_.rows_by(sizes_.d.width), sizes_.dtype}};
    add_rounded_gradient(specs, {qkv_shape(), projection_shape(), fc_shape(), mlp_projection_shape()});
    return specs;
  }

  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    own_ = {&device, own};
    qkv_ = own_.linear(qkv_shape(), c_attn);
    projection_ = own_.linear(projection_shape(), c_proj);
    fc_ = own_.linear(fc_shape(), c_fc);
    mlp_projection_ = own_.linear(mlp_projection_shape(), mlp_c_proj);
    attention_ = device.plan(AttentionShape{sizes_.batch, sizes_.seq, sizes_.d.heads, sizes_.d.width / sizes_.d.heads,
                                            true, sizes_.dtype, math_beside_linear(sizes_.precision)});
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
    const Tensor wide = run.scratch[0], narrow = run.scratch[1], attention = sizes_.flat(s.attention);
    const LinearInput n1 = input_of(run, *qkv_, s.ln_1, narrow);
    own_.norm_forward(run, x, ln_1, norm_epsilon, n1, s.mean_1, s.rstd_1);
    qkv_->forward(run.stream, {n1.x(), bias(c_attn), {}, {}, sizes_.flat(s.qkv), follows, n1.left, n1.rounded});
    attention_->forward(run.stream, {s.qkv, s.attention, s.log_sum_exp});
    projection_->forward(run.stream, {attention, bias(c_proj), x, {}, s.sum, follows, left_of(s.projection_input)});
    const LinearInput n2 = input_of(run, *fc_, s.ln_2, narrow);
    own_.norm_forward(run, s.sum, ln_2, norm_epsilon, n2, s.mean_2, s.rstd_2);
    const LinearInput gelu = input_of(run, *mlp_projection_, s.gelu, wide);
    fc_->forward(run.stream, {n2.x(), bias(c_fc), {}, s.c_fc, gelu.y, follows, n2.left, n2.rounded, gelu.rounded});
    mlp_projection_->forward(run.stream, {gelu.x(), bias(mlp_c_proj), s.sum, {}, y, follows, gelu.left, gelu.rounded});
  }

  void backward(BlockRun& run, Tensor x, Tensor, Tensor dy, Tensor dx) override {
    const Saved s = saved_of(run);
    const Tensor wide = run.scratch[0], narrow = run.scratch[1];
    Tensor operand = own_.weights_backward(run, *mlp_projection_, s.gelu, dy, mlp_c_proj, true);
    mlp_projection_->backward_input(run.stream, {operand, s.c_fc, wide});  // through the GELU
    operand = own_.weights_backward(run, *fc_, s.ln_2, wide, c_fc, true);
    fc_->backward_input(run.stream, {operand, {}, narrow});
    // dy becomes the gradient of `sum`.
    own_.norm_backward(run, narrow, s.sum, ln_2, s.mean_2, s.rstd_2, dy, dy);

    operand = own_.weights_backward(run, *projection_, s.projection_input, dy, c_proj, true);
    projection_->backward_input(run.stream, {operand, {}, narrow});
    const Tensor d_qkv = wide.slice(0, s.qkv.dims);
    attention_->backward(run.stream, {narrow.reshaped(s.attention.dims), s.qkv, s.attention, s.log_sum_exp, d_qkv});
    operand = own_.weights_backward(run, *qkv_, s.ln_1, sizes_.flat(d_qkv), c_attn, true);
    qkv_->backward_input(run.stream, {operand, {}, narrow});
    own_.norm_backward(run, narrow, x, ln_1, s.mean_1, s.rstd_1, dy, dx);
  }

 private:
  /// Places in parameters(); a bias is behind its weight.
  static constexpr int ln_1 = 0, c_attn = 2, c_proj = 4, ln_2 = 6, c_fc = 8, mlp_c_proj = 10;
  struct Saved {
    Tensor ln_1, mean_1, rstd_1, qkv, attention, log_sum_exp, sum, ln_2, mean_2, rstd_2, c_fc, gelu, projection_input;
  };
  Saved saved_of(const BlockRun& run) const {
    const std::vector<Tensor>& t = run.saved;
    Saved s{t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], t[10], t[11], sizes_.flat(t[4])};
    if (t.size() > 12) s.projection_input = t[12];  // in fp8
    return s;
  }
  LinearShape linear(std::int64_t in, std::int64_t out, Activation activation = Activation::none) const {
    return {sizes_.rows(), in, out, sizes_.dtype, activation, math(sizes_.precision)};
  }
  std::int64_t width() const { return sizes_.d.width; }
  LinearShape qkv_shape() const { return linear(width(), 3 * width()); }
  LinearShape projection_shape() const { return linear(width(), width()); }
  LinearShape fc_shape() const { return linear(width(), 4 * width(), Activation::gelu); }
  LinearShape mlp_projection_shape() const { return linear(4 * width(), width()); }
  const Tensor& bias(int index) const { return own_.weight(index + 1); }

  Sizes sizes_;
  std::string prefix_;
  Weights own_;
  std::shared_ptr<LinearPlan> qkv_, projection_, fc_, mlp_projection_;
  std::shared_ptr<AttentionPlan> attention_;
};

}  // namespace

std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision,
                                           std::int64_t micro_batch, std::int64_t seq_len) {
  const Gpt2Description& shape = network.as<Gpt2Description>();
  if (shape.layers < 1 || shape.heads < 1 || shape.width < 1 || shape.width % shape.heads != 0) {
    throw Error(Failure::usage, "GPT-2 of width " + std::to_string(shape.width) + " does not divide into " +
                                    std::to_string(shape.heads) + " heads");
  }
  check_sequence(seq_len, shape.max_seq);
  const Sizes sizes{{precision, micro_batch, seq_len}, shape};
  const ParameterSpec tokens = of_head(table("wte.weight", {shape.vocabulary, shape.width}, init_stddev));
  std::vector<std::unique_ptr<Block>> chain;
  chain.push_back(
      token_embedding(sizes, {.tables = {tokens, table("wpe.weight", {shape.max_seq, shape.width}, 0.01)}}));
  for (int layer = 0; layer < shape.layers; ++layer) chain.push_back(std::make_unique<TransformerBlock>(sizes, layer));
  chain.push_back(
      token_head(sizes, {.norm = "ln_f",
                         .own = {vector_of("ln_f.weight", shape.width, 1), vector_of("ln_f.bias", shape.width, 0)},
                         .tied_to = tokens.name,
                         .epsilon = norm_epsilon,
                         .width = shape.width,
                         .vocabulary = shape.vocabulary}));
  return chain;
}

}  // namespace tw::models::family::gpt2
