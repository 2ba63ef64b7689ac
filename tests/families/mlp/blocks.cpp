#include <cmath>

#include "models/families/build_blocks.hpp"
#include "models/layers/blocks.hpp"
#include "tests/families/mlp/description.hpp"

namespace tw::models::family::mlp {
namespace {

// y = down(gelu(up(x))), as PyTorch names linear layers; x are the images of the batch in the first block.
class MlpBlock final : public Block {
 public:
  MlpBlock(std::string name, Precision precision, std::int64_t batch, std::int64_t in, std::int64_t width)
      : name_(std::move(name)), precision_(precision), batch_(batch), in_(in), width_(width) {}
  std::string name() const override { return name_; }
  std::vector<ParameterSpec> parameters() const override {
    const auto weight = [&](const char* part, std::int64_t out, std::int64_t in) {
      return ParameterSpec{name_ + part, {out, in}, normal(std::sqrt(1.0 / static_cast<double>(in))), true};
    };
    return {weight(".up.weight", 2 * width_, in_),
            {name_ + ".up.bias", {2 * width_}, constant(0)},
            weight(".down.weight", width_, 2 * width_),
            {name_ + ".down.bias", {width_}, constant(0)}};
  }
  ActivationSpec output() const override { return {name_, {batch_, 1, 1, width_}, dtype()}; }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs = {{"up", hidden(), dtype()}, saved_input("gelu", down_shape())};
    save_rounded(specs, "input", up_shape());
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    std::vector<ActivationSpec> specs = {{"d_hidden", hidden(), dtype()}};
    add_rounded_gradient(specs, {up_shape(), down_shape()});
    return specs;
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    own_ = own;
    up_ = device.plan(up_shape());
    down_ = device.plan(down_shape());
    up_->bind(own[0].weight);
    down_->bind(own[2].weight);
  }
  std::vector<NamedPlan> plans() const override { return {{"linear", up_}, {"linear", down_}}; }
  void forward(BlockRun& run, Tensor x, Tensor y) override {
    const bool follows = run.update_statistics;
    const LinearInput gelu = input_of(run, *down_, run.saved[1], run.scratch[0]);
    up_->forward(
        run.stream,
        {flat(run, x), own_[1].weight, {}, run.saved[0], gelu.y, follows, left_of(input(run, x)), {}, gelu.rounded});
    down_->forward(run.stream,
                   {gelu.x(), own_[3].weight, {}, {}, y.reshaped({batch_, width_}), follows, gelu.left, gelu.rounded});
  }
  void backward(BlockRun& run, Tensor x, Tensor, Tensor dy, Tensor dx) override {
    const Tensor d_y = dy.reshaped({batch_, width_}), &d_hidden = run.scratch[0];
    Tensor operand = weights_backward(run, *down_, run.saved[1], d_y, own_[2].gradient, own_[3].gradient);
    announce(run, 3, 2);
    down_->backward_input(run.stream, {operand, run.saved[0], d_hidden});
    operand = weights_backward(run, *up_, input(run, x), d_hidden, own_[0].gradient, own_[1].gradient);
    announce(run, 1, 0);
    if (dx) up_->backward_input(run.stream, {operand, {}, dx.reshaped({batch_, in_})});
  }

 private:
  DType dtype() const { return storage(precision_); }
  Dims hidden() const { return {batch_, 2 * width_}; }
  Tensor flat(const BlockRun& run, const Tensor& x) const {
    return (x ? x : run.tokens_or_images).reshaped({batch_, in_});
  }
  /// As backward_weights takes it.
  Tensor input(const BlockRun& run, const Tensor& x) const {
    return run.saved.size() > 2 ? run.saved[2] : flat(run, x);
  }
  LinearShape up_shape() const { return {batch_, in_, 2 * width_, dtype(), Activation::gelu, math(precision_)}; }
  LinearShape down_shape() const { return {batch_, 2 * width_, width_, dtype(), Activation::none, math(precision_)}; }

  std::string name_;
  Precision precision_;
  std::int64_t batch_, in_, width_;
  std::vector<Parameter> own_;
  std::shared_ptr<LinearPlan> up_, down_;
};

}  // namespace

std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision,
                                           std::int64_t micro_batch, std::int64_t) {
  const MlpDescription& d = network.as<MlpDescription>();
  std::vector<std::unique_ptr<Block>> chain;
  chain.push_back(std::make_unique<MlpBlock>("stem", precision, micro_batch, d.pixels(), d.width));
  for (int layer = 0; layer < d.layers; ++layer)
    chain.push_back(
        std::make_unique<MlpBlock>("layers." + std::to_string(layer), precision, micro_batch, d.width, d.width));
  chain.push_back(pooled_head(chain.back()->output().dims, d.classes, 0, precision));
  return chain;
}

}  // namespace tw::models::family::mlp
