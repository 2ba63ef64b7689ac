#include "models/layers/token_blocks.hpp"

#include "models/compute/error.hpp"

namespace tw::models {

void check_sequence(std::int64_t seq_len, std::int64_t max_seq) {
  if (seq_len >= 1 && seq_len <= max_seq) return;
  throw Error(Failure::usage, "sequence length " + std::to_string(seq_len) + " is not in 1…" + std::to_string(max_seq) +
                                  ", the positions that this network has");
}

std::shared_ptr<LinearPlan> Weights::linear(const LinearShape& shape, int index) const {
  std::shared_ptr<LinearPlan> plan = device->plan(shape);
  plan->bind(weight(index));
  return plan;
}

void Weights::norm_forward(BlockRun& run, const Tensor& x, int index, float epsilon, const LinearInput& y,
                           const Tensor& mean, const Tensor& rstd) const {
  if (mean)
    device->layer_norm_forward(run.stream,
                               {x, {}, {}, weight(index), weight(index + 1), epsilon, y.y, mean, rstd, y.rounded});
  else
    device->rms_norm_forward(run.stream, {x, {}, {}, weight(index), epsilon, y.y, rstd, y.rounded});
}

void Weights::norm_backward(BlockRun& run, const Tensor& dy, const Tensor& x, int index, const Tensor& mean,
                            const Tensor& rstd, const Tensor& by_pass, const Tensor& dx) const {
  if (mean)
    device->layer_norm_backward(run.stream, {dy, x, weight(index), mean, rstd, by_pass, dx, gradient(index),
                                             gradient(index + 1), run.accumulate});
  else
    device->rms_norm_backward(run.stream, {dy, x, weight(index), rstd, by_pass, dx, gradient(index), run.accumulate});
  announce(run, mean ? index + 1 : index, index);
}

Tensor Weights::weights_backward(BlockRun& run, LinearPlan& plan, const Tensor& x, const Tensor& dy, int index,
                                 bool has_bias) const {
  const Tensor d_bias = has_bias ? gradient(index + 1) : Tensor{};
  const Tensor left = tw::models::weights_backward(run, plan, x, dy, gradient(index), d_bias);
  announce(run, has_bias ? index + 1 : index, index);
  return left;
}

namespace {

class TokenEmbedding final : public Block {
 public:
  TokenEmbedding(const TokenBatch& sizes, EmbeddingOptions options) : sizes_(sizes), options_(std::move(options)) {}
  std::string name() const override { return "embedding"; }
  std::vector<ParameterSpec> parameters() const override { return options_.tables; }
  ActivationSpec output() const override { return {"embedding", sizes_.rows_by(width()), sizes_.dtype}; }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    device_ = &device;
    tokens_ = own[0];
    if (own.size() > 1) positions_ = own[1];
  }
  void forward(BlockRun& run, Tensor, Tensor y) override {
    device_->embedding_forward(run.stream,
                               {run.tokens_or_images, tokens_.weight, positions_.weight, y.reshaped(by_position())});
  }
  void backward(BlockRun& run, Tensor, Tensor, Tensor dy, Tensor) override {
    if (!options_.is_tied && !run.accumulate) device_->fill(run.stream, {tokens_.gradient, 0});
    device_->embedding_backward(run.stream, {run.tokens_or_images, dy.reshaped(by_position()), tokens_.gradient,
                                             positions_.gradient, run.accumulate});
    announce(run, static_cast<int>(options_.tables.size()) - 1, 0);
  }

 private:
  std::int64_t width() const { return options_.tables[0].dims[1]; }
  Dims by_position() const { return {sizes_.batch, sizes_.seq, width()}; }
  TokenBatch sizes_;
  EmbeddingOptions options_;
  Device* device_ = nullptr;
  Parameter tokens_, positions_;
};

class TokenHead final : public Block {
 public:
  TokenHead(const TokenBatch& sizes, TokenHeadOptions options) : sizes_(sizes), options_(std::move(options)) {}
  std::string name() const override { return "head"; }
  std::vector<ParameterSpec> parameters() const override { return options_.own; }
  std::vector<std::string> shared_parameters() const override {
    return is_tied() ? std::vector<std::string>{options_.tied_to} : std::vector<std::string>{};
  }
  ActivationSpec output() const override { return {}; }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs = {{options_.norm, sizes_.rows_by(options_.width), sizes_.dtype},
                                         {options_.norm + ".rstd", {sizes_.rows()}, DType::float32}};
    if (options_.is_layer_norm) specs.push_back({options_.norm + ".mean", {sizes_.rows()}, DType::float32});
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    return {{"d_" + options_.norm, sizes_.rows_by(options_.width), sizes_.dtype}};
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>& shared,
             const std::vector<Tensor>&) override {
    own_ = {&device, own};
    table_ = is_tied() ? shared[0] : own.back();
    classifier_ = device.plan(ClassifierShape{sizes_.rows(), options_.width, options_.vocabulary, 0, sizes_.dtype,
                                              math_beside_linear(sizes_.precision), 1, table_.spec.reserved_rows});
    classifier_->bind(table_.weight);
  }
  std::vector<NamedPlan> plans() const override { return {{"classifier", classifier_}}; }
  void forward(BlockRun& run, Tensor x, Tensor) override {
    own_.norm_forward(run, x, 0, options_.epsilon, {run.saved[0]}, mean(run), run.saved[1]);
    if (!run.backward_follows) classify(run);
  }
  void backward(BlockRun& run, Tensor x, Tensor, Tensor, Tensor dx) override {
    classify(run);
    const int last = static_cast<int>(options_.own.size()) - 1;
    if (!is_tied()) announce(run, last, last);  // else the embedding adds its part first
    const Tensor nothing_by_passes;
    own_.norm_backward(run, run.scratch[0], x, 0, mean(run), run.saved[1], nothing_by_passes, dx);
  }

 private:
  bool is_tied() const { return !options_.tied_to.empty(); }
  Tensor mean(const BlockRun& run) const { return options_.is_layer_norm ? run.saved[2] : Tensor{}; }
  void classify(BlockRun& run) {
    tw::models::classify(run, *classifier_, run.saved[0], {}, {run.scratch[0], table_.gradient, {}});
  }

  TokenBatch sizes_;
  TokenHeadOptions options_;
  Weights own_;
  Parameter table_;
  std::shared_ptr<ClassifierPlan> classifier_;
};

}  // namespace

std::unique_ptr<Block> token_embedding(const TokenBatch& sizes, EmbeddingOptions options) {
  return std::make_unique<TokenEmbedding>(sizes, std::move(options));
}

std::unique_ptr<Block> token_head(const TokenBatch& sizes, TokenHeadOptions options) {
  return std::make_unique<TokenHead>(sizes, std::move(options));
}

}  // namespace tw::models
