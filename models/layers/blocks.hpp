// What the blocks of all families share: helpers, and blocks that more than one family is made of.
#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/network/network.hpp"

namespace tw::models {

inline Initialiser normal(double stddev) { return {Initialiser::Kind::normal, static_cast<float>(stddev)}; }
inline Initialiser constant(float value) { return {Initialiser::Kind::constant, value}; }

/// A matrix or kernel: weight decay applies. `parts`: the names and rows under which it is exported.
inline ParameterSpec matrix(std::string name, const Dims& dims, double stddev, std::vector<NamedRows> parts = {}) {
  return {.name = std::move(name),
          .dims = dims,
          .initialiser = normal(stddev),
          .decay = true,
          .exported_as = std::move(parts)};
}
/// A matrix whose rows are read by index.
inline ParameterSpec table(std::string name, const Dims& dims, double stddev) {
  ParameterSpec spec = matrix(std::move(name), dims, stddev);
  spec.looked_up = true;
  return spec;
}
/// A bias, or a parameter of a norm.
inline ParameterSpec vector_of(std::string name, std::int64_t count, float value, std::vector<NamedRows> parts = {}) {
  return {.name = std::move(name), .dims = {count}, .initialiser = constant(value), .exported_as = std::move(parts)};
}

/// Announces parameters first … last, backwards.
inline void announce(const BlockRun& run, int last, int first) {
  if (!run.gradient_ready) return;
  for (int index = last; index >= first; --index) run.gradient_ready(index);
}

template <class T>
void append(std::vector<T>& to, std::vector<T> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// In fp8 a linear layer's products take operands that were rounded once (LinearShape::x_for_weights, dy_for_input).

/// What backward needs of the input x of a linear layer: x or, in fp8, what forward leaves of it ("NAME.fp8").
inline ActivationSpec saved_input(const std::string& name, const LinearShape& layer) {
  if (layer.math == Math::fp8) return {name + ".fp8", layer.x_for_weights(), DType::byte};
  return {name, {layer.rows, layer.in_features}, layer.dtype};
}
/// Of inputs that other operators' backward needs as they are: what is saved besides. Nothing but in fp8.
inline void save_rounded(std::vector<ActivationSpec>& saved, const std::string& name, const LinearShape& layer) {
  if (layer.math == Math::fp8) saved.push_back(saved_input(name, layer));
}
/// What forward leaves: `saved` in fp8, else nothing.
inline Tensor left_of(const Tensor& saved) { return saved.dtype == DType::byte ? saved : Tensor{}; }
/// The input of a linear layer: y as it is, or rounded by the operator that writes it (LinearPlan::round_ahead). Where
/// others read y too, the operator may write both.
struct LinearInput {
  Tensor y{};
  RoundedInput rounded{};
  Tensor left{};  ///< as forward takes it: absent where y is rounded
  /// As forward takes it.
  Tensor x() const { return rounded ? Tensor{} : y; }
};
/// Where an operator writes an input that is saved as saved_input(): there or, in fp8, to `scratch`, which is as large
/// as y. In front of that operator.
inline LinearInput input_of(BlockRun& run, LinearPlan& plan, const Tensor& saved, const Tensor& scratch) {
  const Tensor left = left_of(saved);
  if (const RoundedInput rounded = plan.round_ahead(run.stream, scratch, left, run.update_statistics))
    return {.rounded = rounded};
  return {.y = left ? scratch : saved, .left = left};
}
/// Scratch behind all other of a block, for the greatest of these layers' gradients. Nothing but in fp8.
inline void add_rounded_gradient(std::vector<ActivationSpec>& scratch, const std::vector<LinearShape>& layers) {
  std::int64_t most = 0;
  for (const LinearShape& layer : layers) most = std::max(most, layer.dy_for_input().count());
  if (most > 0) scratch.push_back({"dy.fp8", {most}, DType::byte});
}
/// dW and db. Returns dy as backward_input takes it: rounded in the scratch of add_rounded_gradient(), or as it is.
inline Tensor weights_backward(BlockRun& run, LinearPlan& plan, const Tensor& x, const Tensor& dy,
                               const Tensor& d_weight, const Tensor& d_bias) {
  const Dims rounded = plan.shape().dy_for_input();
  const Tensor left = rounded.rank() > 0 ? run.scratch.back().slice(0, rounded) : Tensor{};
  plan.backward_weights(run.stream, {x, dy, d_weight, d_bias, run.accumulate, left});
  return left ? left : dy;
}

/// The gradient of a tensor that several operators read: the first to report writes it, the others add to it by way of
/// `spare`, which is as large.
class GradientSum {
 public:
  GradientSum(Device& device, Tensor gradient, const Tensor& spare)
      : device_(&device), gradient_(gradient), spare_(spare.slice(0, gradient.dims)) {}
  const Tensor& tensor() const { return gradient_; }
  /// write(target) overwrites it.
  template <class Write>
  void add(BlockRun& run, Write&& write) {
    write(written_ ? spare_ : gradient_);
    if (written_) device_->add(run.stream, {gradient_, spare_, gradient_});
    written_ = true;
  }

 private:
  Device* device_;
  Tensor gradient_, spare_;
  bool written_ = false;
};

/// What a classifier's backward writes; d_bias is absent without a bias.
struct ClassifierGradients {
  Tensor dx, d_weight, d_bias;
};
/// What a classifier compares with, and where its loss and its count of right answers (absent: not counted) go.
struct ClassifierTargets {
  Tensor targets, loss, correct;
};
/// Runs a classifier on x (rows, features): loss and right answers, and the gradients unless it is an evaluation. From
/// the last block's backward, in an evaluation from its forward.
inline void classify(BlockRun& run, ClassifierPlan& plan, const Tensor& x, const Tensor& bias,
                     const ClassifierGradients& gradients, const ClassifierTargets& targets) {
  ClassifierForwardBackward args;
  args.x = x;
  args.targets = targets.targets;
  args.bias = bias;
  args.loss = targets.loss;
  args.correct = targets.correct;
  args.backward = run.backward_follows;
  args.scalars = run.scalars;
  if (args.backward) {
    args.dx = gradients.dx;
    args.d_weight = gradients.d_weight;
    args.d_bias = gradients.d_bias;
    args.accumulate = run.accumulate;
  }
  plan.forward_backward(run.stream, args);
}
/// The same on all of the run's targets.
inline void classify(BlockRun& run, ClassifierPlan& plan, const Tensor& x, const Tensor& bias,
                     const ClassifierGradients& gradients) {
  classify(run, plan, x, bias, gradients, {run.targets, run.loss, run.correct});
}

struct PooledHeadOptions {
  double stddev = 0.01;       ///< of the weight at the start; the bias is 0
  bool other_losses = false;  ///< blocks in front have losses too (BlockRun::loss)
};
/// Global average pool of `input` (batch, height, width, channels) and the classifier, as torchvision names it: "fc".
std::unique_ptr<Block> pooled_head(Dims input, std::int64_t classes, float label_smoothing, Precision precision,
                                   const PooledHeadOptions& options = {});

}  // namespace tw::models
