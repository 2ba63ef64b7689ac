// BERT (arXiv 1810.04805) as it is pre-trained: embedding with its norm, post-norm transformer blocks, and the two
// heads, whose losses are added. Attention sees all positions of a sequence; all sequences have their full length, so
// that there is no mask of padding. Names are Hugging Face's BertForPreTraining; query, key and value are one product
// here and exported apart. Initialisation: weights normal(0, 0.02) as there (the released code truncates at two
// deviations), biases 0, norms 1 and 0. No dropout. Weight decay on all matrices, embeddings included.
#include "models/compute/error.hpp"
#include "models/data/masked_source.hpp"
#include "models/families/bert/description.hpp"
#include "models/families/build_blocks.hpp"
#include "models/layers/token_blocks.hpp"

namespace tw::models::family::bert {
namespace {

constexpr double init_stddev = 0.02;
constexpr const char* token_table = "bert.embeddings.word_embeddings.weight";

struct Sizes : TokenBatch {
  BertDescription d;
  MaskedLayout layout() const { return {batch, seq}; }
};

ParameterSpec matrix(const std::string& name, const Dims& dims, std::vector<NamedRows> parts = {}) {
  return tw::models::matrix(name, dims, init_stddev, std::move(parts));
}

class EmbeddingBlock final : public Block {
 public:
  explicit EmbeddingBlock(const Sizes& sizes) : sizes_(sizes) {}
  std::string name() const override { return "embeddings"; }
  std::vector<ParameterSpec> parameters() const override {
    const BertDescription& d = sizes_.d;
    const std::string prefix = "bert.embeddings.";
    return {of_head(table(token_table, {d.vocabulary, d.width}, init_stddev)),
            table(prefix + "position_embeddings.weight", {d.max_seq, d.width}, init_stddev),
            table(prefix + "token_type_embeddings.weight", {d.segments, d.width}, init_stddev),
            vector_of(prefix + "LayerNorm.weight", d.width, 1), vector_of(prefix + "LayerNorm.bias", d.width, 0)};
  }
  ActivationSpec output() const override { return {"embeddings", sizes_.rows_by(sizes_.d.width), sizes_.dtype}; }
  std::vector<ActivationSpec> saved() const override {
    return {{"sum", sizes_.rows_by(sizes_.d.width), sizes_.dtype},
            {"norm.mean", {sizes_.rows()}, DType::float32},
            {"norm.rstd", {sizes_.rows()}, DType::float32}};
  }
  std::vector<ActivationSpec> scratch() const override {
    return {{"narrow", sizes_.rows_by(sizes_.d.width), sizes_.dtype}};
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    own_ = {&device, own};
  }
  void forward(BlockRun& run, Tensor, Tensor y) override {
    const Tensor sum = run.saved[0], of_segments = run.scratch[0];
    const MaskedLayout layout = sizes_.layout();
    Device& device = *own_.device;
    device.embedding_forward(run.stream, {layout.tokens(run.tokens_or_images), own_.weight(tokens),
                                          own_.weight(positions), by_position(sum)});
    device.embedding_forward(
        run.stream, {layout.segments(run.tokens_or_images), own_.weight(segments), {}, by_position(of_segments)});
    device.layer_norm_forward(run.stream, {sum, of_segments, sum, own_.weight(norm), own_.weight(norm + 1),
                                           norm_epsilon, y, run.saved[1], run.saved[2]});
  }
  void backward(BlockRun& run, Tensor, Tensor, Tensor dy, Tensor) override {
    const Tensor d_sum = run.scratch[0];
    const MaskedLayout layout = sizes_.layout();
    Device& device = *own_.device;
    own_.norm_backward(run, dy, run.saved[0], norm, run.saved[1], run.saved[2], {}, d_sum);
    if (!run.accumulate) device.fill(run.stream, {own_.gradient(segments), 0});
    device.embedding_backward(
        run.stream, {layout.segments(run.tokens_or_images), by_position(d_sum), own_.gradient(segments), {}, false});
    announce(run, segments, segments);
    // The head has written the tied table's gradient already.
    device.embedding_backward(run.stream, {layout.tokens(run.tokens_or_images), by_position(d_sum),
                                           own_.gradient(tokens), own_.gradient(positions), run.accumulate});
    announce(run, positions, tokens);
  }

 private:
  /// Places in parameters().
  static constexpr int tokens = 0, positions = 1, segments = 2, norm = 3;
  Tensor by_position(const Tensor& t) const { return t.reshaped({sizes_.batch, sizes_.seq, sizes_.d.width}); }
  Sizes sizes_;
  Weights own_;
};

class TransformerBlock final : public Block {
 public:
  TransformerBlock(const Sizes& sizes, int layer) : sizes_(sizes), layer_(layer) {}
  std::string name() const override { return "layer." + std::to_string(layer_); }

  std::vector<ParameterSpec> parameters() const override {
    const std::int64_t c = sizes_.d.width, hidden = sizes_.d.hidden;
    const std::string prefix = "bert.encoder." + name() + ".", attention = prefix + "attention.",
                      self = attention + "self.";
    const auto parts = [&](const std::string& kind) {
      return std::vector<NamedRows>{
          {self + "query." + kind, c}, {self + "key." + kind, c}, {self + "value." + kind, c}};
    };
    return {matrix(self + "qkv.weight", {3 * c, c}, parts("weight")),
            vector_of(self + "qkv.bias", 3 * c, 0, parts("bias")),
            matrix(attention + "output.dense.weight", {c, c}),
            vector_of(attention + "output.dense.bias", c, 0),
            vector_of(attention + "output.LayerNorm.weight", c, 1),
            vector_of(attention + "output.LayerNorm.bias", c, 0),
            matrix(prefix + "intermediate.dense.weight", {hidden, c}),
            vector_of(prefix + "intermediate.dense.bias", hidden, 0),
            matrix(prefix + "output.dense.weight", {c, hidden}),
            vector_of(prefix + "output.dense.bias", c, 0),
            vector_of(prefix + "output.LayerNorm.weight", c, 1),
            vector_of(prefix + "output.LayerNorm.bias", c, 0)};
  }
  ActivationSpec output() const override { return {name(), sizes_.rows_by(sizes_.d.width), sizes_.dtype}; }
  std::vector<ActivationSpec> saved() const override {
    const BertDescription& d = sizes_.d;
    const DType t = sizes_.dtype;
    const Dims statistic{sizes_.rows()};
    const std::int64_t head_dim = d.width / d.heads;
    std::vector<ActivationSpec> specs = {{"qkv", {sizes_.batch, sizes_.seq, 3 * d.heads, head_dim}, t},
                                         {"attention", {sizes_.batch, sizes_.seq, d.heads, head_dim}, t},
                                         {"log_sum_exp", {sizes_.batch, d.heads, sizes_.seq}, DType::float32},
                                         {"sum_1", sizes_.rows_by(d.width), t},
                                         saved_input("norm_1", up_shape()),
                                         {"norm_1.mean", statistic, DType::float32},
                                         {"norm_1.rstd", statistic, DType::float32},
                                         {"intermediate", sizes_.rows_by(d.hidden), t},
                                         saved_input("gelu", down_shape()),
                                         {"sum_2", sizes_.rows_by(d.width), t},
                                         {"norm_2.mean", statistic, DType::float32},
                                         {"norm_2.rstd", statistic, DType::float32}};
    save_rounded(specs, "input", qkv_shape());
    save_rounded(specs, "attention", projection_shape());
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    const std::int64_t c = sizes_.d.width;
    std::vector<ActivationSpec> specs = {
        {"wide", sizes_.rows_by(std::max<std::int64_t>(sizes_.d.hidden, 3 * c)), sizes_.dtype},
        {"narrow", sizes_.rows_by(c), sizes_.dtype},
        {"d_sum", sizes_.rows_by(c), sizes_.dtype}};
    add_rounded_gradient(specs, {qkv_shape(), projection_shape(), up_shape(), down_shape()});
    return specs;
  }

  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    own_ = {&device, own};
    const BertDescription& d = sizes_.d;
    qkv_ = own_.linear(qkv_shape(), qkv);
    projection_ = own_.linear(projection_shape(), attention_out);
    up_ = own_.linear(up_shape(), mlp_up);
    down_ = own_.linear(down_shape(), mlp_down);
    constexpr bool causal = false;
    attention_ = device.plan(AttentionShape{sizes_.batch, sizes_.seq, d.heads, d.width / d.heads, causal, sizes_.dtype,
                                            math_beside_linear(sizes_.precision)});
  }
  std::vector<NamedPlan> plans() const override {
    return {{"linear", qkv_}, {"attention", attention_}, {"linear", projection_}, {"linear", up_}, {"linear", down_}};
  }

  void forward(BlockRun& run, Tensor x, Tensor y) override {
    const Saved s = saved_of(run);
    const bool follows = run.update_statistics;
    const Tensor wide = run.scratch[0].slice(0, s.intermediate.dims), attention = sizes_.flat(s.attention),
                 norm = left_of(s.norm_1) ? run.scratch[1] : s.norm_1;
    qkv_->forward(run.stream, {x, own_.weight(qkv + 1), {}, {}, sizes_.flat(s.qkv), follows, left_of(s.qkv_input(x))});
    attention_->forward(run.stream, {s.qkv, s.attention, s.log_sum_exp});
    projection_->forward(
        run.stream,
        {attention, own_.weight(attention_out + 1), x, {}, s.sum_1, follows, left_of(s.projection_input(attention))});
    LinearInput n1 = input_of(run, *up_, s.norm_1, run.scratch[2]);
    n1.y = norm;  // the residual sum reads it too
    own_.norm_forward(run, s.sum_1, norm_1, norm_epsilon, n1, s.mean_1, s.rstd_1);
    up_->forward(run.stream, {n1.x(), own_.weight(mlp_up + 1), {}, {}, s.intermediate, follows, n1.left, n1.rounded});
    const LinearInput gelu = input_of(run, *down_, s.gelu, wide);
    own_.device->activation_forward(run.stream, {s.intermediate, gelu.y, Activation::gelu_erf, gelu.rounded});
    down_->forward(run.stream,
                   {gelu.x(), own_.weight(mlp_down + 1), norm, {}, s.sum_2, follows, gelu.left, gelu.rounded});
    own_.norm_forward(run, s.sum_2, norm_2, norm_epsilon, {y}, s.mean_2, s.rstd_2);
  }

  void backward(BlockRun& run, Tensor x, Tensor, Tensor dy, Tensor dx) override {
    const Saved s = saved_of(run);
    const Tensor d_gelu = run.scratch[0].slice(0, s.intermediate.dims), d_qkv = run.scratch[0].slice(0, s.qkv.dims),
                 narrow = run.scratch[1], d_sum = run.scratch[2];
    Device& device = *own_.device;
    own_.norm_backward(run, dy, s.sum_2, norm_2, s.mean_2, s.rstd_2, {}, d_sum);
    Tensor operand = own_.weights_backward(run, *down_, s.gelu, d_sum, mlp_down, true);
    down_->backward_input(run.stream, {operand, {}, d_gelu});
    device.activation_backward(run.stream, {d_gelu, s.intermediate, d_gelu, Activation::gelu_erf});
    operand = own_.weights_backward(run, *up_, s.norm_1, d_gelu, mlp_up, true);
    up_->backward_input(run.stream, {operand, {}, narrow});
    device.add(run.stream, {narrow, d_sum, dy});  // dy is now the gradient of norm_1

    own_.norm_backward(run, dy, s.sum_1, norm_1, s.mean_1, s.rstd_1, {}, d_sum);
    operand = own_.weights_backward(run, *projection_, s.projection_input(sizes_.flat(s.attention)), d_sum,
                                    attention_out, true);
    projection_->backward_input(run.stream, {operand, {}, narrow});
    attention_->backward(run.stream, {narrow.reshaped(s.attention.dims), s.qkv, s.attention, s.log_sum_exp, d_qkv});
    operand = own_.weights_backward(run, *qkv_, s.qkv_input(x), sizes_.flat(d_qkv), qkv, true);
    qkv_->backward_input(run.stream, {operand, {}, narrow});
    device.add(run.stream, {narrow, d_sum, dx});
  }

 private:
  /// Places in parameters(); a bias is behind its weight.
  static constexpr int qkv = 0, attention_out = 2, norm_1 = 4, mlp_up = 6, mlp_down = 8, norm_2 = 10;
  struct Saved {
    Tensor qkv, attention, log_sum_exp, sum_1, norm_1, mean_1, rstd_1, intermediate, gelu, sum_2, mean_2, rstd_2;
    Tensor rounded_input, rounded_attention;  // in fp8
    /// As backward_weights takes them.
    Tensor qkv_input(const Tensor& x) const { return rounded_input ? rounded_input : x; }
    Tensor projection_input(const Tensor& x) const { return rounded_attention ? rounded_attention : x; }
  };
  static Saved saved_of(const BlockRun& run) {
    const std::vector<Tensor>& t = run.saved;
    Saved s{t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], t[10], t[11], {}, {}};
    if (t.size() > 12) s.rounded_input = t[12], s.rounded_attention = t[13];
    return s;
  }
  LinearShape linear(std::int64_t in, std::int64_t out) const {
    return {sizes_.rows(), in, out, sizes_.dtype, Activation::none, math(sizes_.precision)};
  }
  LinearShape qkv_shape() const { return linear(sizes_.d.width, 3 * std::int64_t{sizes_.d.width}); }
  LinearShape projection_shape() const { return linear(sizes_.d.width, sizes_.d.width); }
  LinearShape up_shape() const { return linear(sizes_.d.width, sizes_.d.hidden); }
  LinearShape down_shape() const { return linear(sizes_.d.hidden, sizes_.d.width); }

  Sizes sizes_;
  int layer_;
  Weights own_;
  std::shared_ptr<LinearPlan> qkv_, projection_, up_, down_;
  std::shared_ptr<AttentionPlan> attention_;
};

// Both heads. The rows that they need are gathered at once: the masked positions, for which a dense layer, GELU and
// norm precede the classifier (the token table with a bias), and the first of each sequence, which the pooler and the
// next-sentence classifier see. Loss: the mean over masked positions plus the mean over sequences.
class Heads final : public Block {
 public:
  explicit Heads(const Sizes& sizes) : sizes_(sizes) {}
  std::string name() const override { return "heads"; }
  std::vector<ParameterSpec> parameters() const override {
    const std::int64_t c = sizes_.d.width;
    const std::string prefix = "cls.predictions.transform.";
    return {matrix("bert.pooler.dense.weight", {c, c}),
            vector_of("bert.pooler.dense.bias", c, 0),
            matrix(prefix + "dense.weight", {c, c}),
            vector_of(prefix + "dense.bias", c, 0),
            vector_of(prefix + "LayerNorm.weight", c, 1),
            vector_of(prefix + "LayerNorm.bias", c, 0),
            vector_of("cls.predictions.bias", sizes_.d.vocabulary, 0),
            matrix("cls.seq_relationship.weight", {2, c}),
            vector_of("cls.seq_relationship.bias", 2, 0)};
  }
  std::vector<std::string> shared_parameters() const override { return {token_table}; }
  ActivationSpec output() const override { return {}; }
  std::vector<ActivationSpec> saved() const override {
    const std::int64_t c = sizes_.d.width, masked = sizes_.layout().predicted();
    const DType t = sizes_.dtype;
    return {{"gathered", {sizes_.layout().gathered(), c}, t},
            {"dense", {masked, c}, t},
            {"gelu", {masked, c}, t},
            {"norm", {masked, c}, t},
            {"norm.mean", {masked}, DType::float32},
            {"norm.rstd", {masked}, DType::float32},
            {"pooler", {sizes_.batch, c}, t},
            {"pooled", {sizes_.batch, c}, t}};
  }
  std::vector<ActivationSpec> scratch() const override {
    const std::int64_t c = sizes_.d.width, masked = sizes_.layout().predicted();
    const DType t = sizes_.dtype;
    return {{"next_sentence_loss", {1}, DType::float32},
            {"d_norm", {masked, c}, t},
            {"d_gelu", {masked, c}, t},
            {"d_pooled", {sizes_.batch, c}, t},
            {"d_gathered", {sizes_.layout().gathered(), c}, t}};
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>& shared,
             const std::vector<Tensor>&) override {
    own_ = {&device, own};
    table_ = shared[0];
    const std::int64_t c = sizes_.d.width, masked = sizes_.layout().predicted();
    const Math by = math_beside_linear(sizes_.precision);  // fp8 wants rows by 16
    transform_ = own_.linear({masked, c, c, sizes_.dtype, Activation::none, by}, transform);
    pooler_ = own_.linear({sizes_.batch, c, c, sizes_.dtype, Activation::none, by}, pooler);
    decoder_ =
        device.plan(ClassifierShape{masked, c, sizes_.d.vocabulary, 0, sizes_.dtype, by, 1, table_.spec.reserved_rows});
    decoder_->bind(table_.weight);
    next_sentence_ = device.plan(ClassifierShape{sizes_.batch, c, 2, 0, sizes_.dtype, by});
    next_sentence_->bind(own_.weight(next_sentence));
  }
  std::vector<NamedPlan> plans() const override {
    return {{"linear", transform_}, {"linear", pooler_}, {"classifier", decoder_}, {"classifier", next_sentence_}};
  }
  void forward(BlockRun& run, Tensor x, Tensor) override {
    const Saved s = saved_of(run);
    Device& device = *own_.device;
    const bool follows = run.update_statistics;
    device.gather_rows(run.stream, {x, rows(run), s.gathered});
    transform_->forward(run.stream, {masked_of(s.gathered), own_.weight(transform + 1), {}, {}, s.dense, follows});
    device.activation_forward(run.stream, {s.dense, s.gelu, Activation::gelu_erf});
    own_.norm_forward(run, s.gelu, norm, norm_epsilon, {s.norm}, s.mean, s.rstd);
    pooler_->forward(run.stream, {first_of(s.gathered), own_.weight(pooler + 1), {}, {}, s.pooler, follows});
    device.activation_forward(run.stream, {s.pooler, s.pooled, Activation::tanh});
    if (!run.backward_follows) classify(run, s);
  }
  void backward(BlockRun& run, Tensor x, Tensor, Tensor, Tensor dx) override {
    const Saved s = saved_of(run);
    const Tensor d_norm = run.scratch[1], d_gelu = run.scratch[2], d_pooled = run.scratch[3],
                 d_gathered = run.scratch[4];
    Device& device = *own_.device;
    classify(run, s);
    announce(run, next_sentence + 1, next_sentence);
    announce(run, decoder_bias, decoder_bias);
    own_.norm_backward(run, d_norm, s.gelu, norm, s.mean, s.rstd, {}, d_gelu);
    device.activation_backward(run.stream, {d_gelu, s.dense, d_gelu, Activation::gelu_erf});
    own_.weights_backward(run, *transform_, masked_of(s.gathered), d_gelu, transform, true);
    transform_->backward_input(run.stream, {d_gelu, {}, masked_of(d_gathered)});
    device.activation_backward(run.stream, {d_pooled, s.pooler, d_pooled, Activation::tanh});
    own_.weights_backward(run, *pooler_, first_of(s.gathered), d_pooled, pooler, true);
    pooler_->backward_input(run.stream, {d_pooled, {}, first_of(d_gathered)});
    device.scatter_rows(run.stream, {d_gathered, rows(run), dx.reshaped(x.dims)});
  }

 private:
  /// Places in parameters(); a bias is behind its weight.
  static constexpr int pooler = 0, transform = 2, norm = 4, decoder_bias = 6, next_sentence = 7;
  struct Saved {
    Tensor gathered, dense, gelu, norm, mean, rstd, pooler, pooled;
  };
  static Saved saved_of(const BlockRun& run) {
    const std::vector<Tensor>& t = run.saved;
    return {t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]};
  }
  Tensor rows(const BlockRun& run) const { return sizes_.layout().rows(run.tokens_or_images); }
  /// Of gathered rows, those of the masked positions and those of the first tokens.
  Tensor masked_of(const Tensor& gathered) const {
    return gathered.slice(0, {sizes_.layout().predicted(), sizes_.d.width});
  }
  Tensor first_of(const Tensor& gathered) const {
    return gathered.slice(sizes_.layout().predicted() * sizes_.d.width, {sizes_.batch, sizes_.d.width});
  }
  /// Right answers are counted of masked tokens alone.
  void classify(BlockRun& run, const Saved& s) {
    const Tensor next_sentence_loss = run.scratch[0];
    const MaskedLayout layout = sizes_.layout();
    const ClassifierTargets masked{layout.masked_targets(run.targets), run.loss, run.correct},
        sequences{layout.next_sentence_targets(run.targets), next_sentence_loss, {}};
    tw::models::classify(run, *next_sentence_, s.pooled, own_.weight(next_sentence + 1),
                         {run.scratch[3], own_.gradient(next_sentence), own_.gradient(next_sentence + 1)}, sequences);
    // The embedding adds its part to the table's gradient.
    tw::models::classify(run, *decoder_, s.norm, own_.weight(decoder_bias),
                         {run.scratch[1], table_.gradient, own_.gradient(decoder_bias)}, masked);
    own_.device->add(run.stream, {run.loss, next_sentence_loss, run.loss});
  }

  Sizes sizes_;
  Weights own_;
  Parameter table_;
  std::shared_ptr<LinearPlan> transform_, pooler_;
  std::shared_ptr<ClassifierPlan> decoder_, next_sentence_;
};

void check(const BertDescription& d, std::int64_t seq_len) {
  if (d.layers < 1 || d.heads < 1 || d.width < 1 || d.hidden < 1 || d.width % d.heads != 0) {
    throw Error(Failure::usage, "BERT of width " + std::to_string(d.width) + " does not divide into " +
                                    std::to_string(d.heads) + " heads");
  }
  if (d.segments < 2) throw Error(Failure::usage, "BERT needs at least 2 segments, not " + std::to_string(d.segments));
  if (seq_len < MaskedSource::shortest_sequence || seq_len > d.max_seq) {
    throw Error(Failure::usage, "sequence length " + std::to_string(seq_len) + " is not in " +
                                    std::to_string(MaskedSource::shortest_sequence) + "…" + std::to_string(d.max_seq) +
                                    ": two segments between three special tokens, and the positions that this network "
                                    "has");
  }
}

}  // namespace

std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision,
                                           std::int64_t micro_batch, std::int64_t seq_len) {
  const BertDescription& shape = network.as<BertDescription>();
  check(shape, seq_len);
  const Sizes sizes{{precision, micro_batch, seq_len}, shape};
  std::vector<std::unique_ptr<Block>> chain;
  chain.push_back(std::make_unique<EmbeddingBlock>(sizes));
  for (int layer = 0; layer < shape.layers; ++layer) chain.push_back(std::make_unique<TransformerBlock>(sizes, layer));
  chain.push_back(std::make_unique<Heads>(sizes));
  return chain;
}

}  // namespace tw::models::family::bert
