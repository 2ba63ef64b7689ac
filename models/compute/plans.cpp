// The checked public half of the plans.
#include <algorithm>
#include <utility>

#include "models/compute/checks.hpp"
#include "models/compute/device.hpp"

namespace tw::models {
namespace {

void check_positive(const Check& check, std::initializer_list<std::pair<const char*, std::int64_t>> extents) {
  for (const auto& [name, extent] : extents) check.at_least(name, extent, 1);
}

void check_dtype(const Check& check, DType dtype) {
  if (!is_float(dtype)) check.fail("shape.dtype", "float32, bf16 or fp16", std::string(to_string(dtype)));
}

// What is left of a rounded operand, where it is given: cuBLASLt demands these addresses.
void check_left(const Check& check, const char* argument, const Tensor& tensor, const Dims& dims) {
  if (dims.rank() == 0) {
    if (tensor) check.fail(argument, "none but in fp8", "one");
    return;
  }
  check.may_have(argument, tensor, DType::byte, dims);
  if (reinterpret_cast<std::uintptr_t>(tensor.data) % 16 != 0)
    check.fail(argument, "memory on 16 bytes", "another address");
}
/// An operand that another pass has rounded, or one as it is stored.
void check_operand(const Check& check, const char* argument, const Tensor& tensor, const Dims& left, DType dtype,
                   const Dims& dims) {
  if (left.rank() == 0) return check.has(argument, tensor, dtype, dims);
  check.has(argument, tensor, DType::byte, left);
  check_left(check, argument, tensor, left);
}

// Every operand is small enough to be counted; the products of extents that devices form are parts of these.
void check_counts(std::initializer_list<Dims> operands) {
  for (const Dims& dims : operands) static_cast<void>(dims.count());
}

}  // namespace

// ---- weights ----

void WeightPlan::bind(Tensor weight) {
  check_weight(weight);
  weight_ = weight;
  refreshed_ = false;
  do_bind();
}

void WeightPlan::refresh(Stream& stream) {
  const Check check(Op::refresh);
  if (!weight_) check.fail("weight", "bind() before refresh()", "no tensor");
  charge(device(), stream, Op::refresh, [&] { do_refresh(stream); });
  refreshed_ = true;
}

void WeightPlan::check_ready(Op op) const {
  const Check check(op);
  if (!weight_) check.fail("weight", "bind() before the first use", "no tensor");
  if (!refreshed_) check.fail("weight", "refresh() after bind() and after each change", "a weight never refreshed");
}

// ---- linear ----

LinearPlan::LinearPlan(Device& device, const LinearShape& shape) : WeightPlan(device), shape_(shape) {
  const Check check(Op::linear_forward);
  check_positive(check, {{"shape.rows", shape.rows},
                         {"shape.in_features", shape.in_features},
                         {"shape.out_features", shape.out_features}});
  check_counts(
      {{shape.rows, shape.in_features}, {shape.rows, shape.out_features}, {shape.out_features, shape.in_features}});
  check_dtype(check, shape.dtype);
  require_math(device, Op::linear_forward, shape.dtype, shape.math);
  if (shape.activation != Activation::none && shape.activation != Activation::gelu)
    check.fail("shape.activation", "none or gelu",
               shape.activation == Activation::tanh   ? "tanh"
               : shape.activation == Activation::relu ? "relu"
                                                      : "gelu_erf");
}

void LinearPlan::check_weight(const Tensor& weight) const {
  Check(Op::linear_forward).has("weight", weight, shape_.dtype, {shape_.out_features, shape_.in_features});
}

RoundedInput LinearPlan::round_ahead(Stream& stream, const Tensor& memory, const Tensor& x_for_weights, bool follows) {
  if (shape_.math != Math::fp8 || !device().rounds_ahead()) return {};
  const Check check(Op::linear_forward);
  const std::int64_t count = Dims{shape_.rows, shape_.in_features}.count();
  check.at_least("bytes of the memory for x", static_cast<std::int64_t>(memory.bytes()), count);
  check_left(check, "x_for_weights", x_for_weights, shape_.x_for_weights());
  RoundedInput x{{memory.data, DType::byte, {count}}, x_for_weights};
  x.follows = follows;
  charge(
      device(), stream, Op::linear_forward, [&] { x.scale = do_round_ahead(stream, follows); }, 0);
  if (!x) return {};
  check.may_be_rounded("x", x, shape_.dtype, shape_.rows, shape_.in_features);
  return x;
}

void LinearPlan::forward(Stream& stream, const LinearForward& args) {
  const Check check(Op::linear_forward);
  const Dims in{shape_.rows, shape_.in_features}, out{shape_.rows, shape_.out_features};
  if ((args.x_rounded || args.y_rounded) && (shape_.math != Math::fp8 || !device().rounds_ahead()))
    check.fail("x_rounded, y_rounded", "none but in fp8 on a device that rounds ahead", "one");
  check.has_one("x", args.x, shape_.dtype, in, args.x_rounded);
  check.may_have("bias", args.bias, shape_.dtype, {shape_.out_features});
  check.may_have("residual", args.residual, shape_.dtype, out);
  if (shape_.activation != Activation::none) {
    if (args.residual) check.fail("residual", "no residual beside an activation", "one");
    check.has("pre_activation", args.pre_activation, shape_.dtype, out);
    check.apart("pre_activation", args.pre_activation, "y", args.y);
  } else if (args.pre_activation) {
    check.fail("pre_activation", "none without an activation (it would equal y)", "one");
  }
  check.has_one("y", args.y, shape_.dtype, out, args.y_rounded);
  if (args.y_rounded && shape_.activation == Activation::none) check.fail("y_rounded", "an activation", "none");
  check.apart("y", args.y, "x", args.x);
  check.apart("y", args.y, "x", args.x_rounded.straight);
  check.apart("y", args.y_rounded.straight, "pre_activation", args.pre_activation);
  check.same_or_apart("y", args.y, "residual", args.residual);
  check_left(check, "x_for_weights", args.x_for_weights, shape_.x_for_weights());
  if (args.x_rounded && args.x_for_weights) check.fail("x_for_weights", "none where x is rounded", "one");
  check_ready(Op::linear_forward);
  charge(device(), stream, Op::linear_forward, [&] { do_forward(stream, args); });
}

void LinearPlan::backward_input(Stream& stream, const LinearBackwardInput& args) {
  const Check check(Op::linear_backward_input);
  const Dims in{shape_.rows, shape_.in_features}, out{shape_.rows, shape_.out_features};
  check_operand(check, "dy", args.dy, shape_.dy_for_input(), shape_.dtype, out);
  check.may_have("input_pre_activation", args.input_pre_activation, shape_.dtype, in);
  check.has("dx", args.dx, shape_.dtype, in);
  check.apart("dx", args.dx, "dy", args.dy);
  check.apart("dx", args.dx, "input_pre_activation", args.input_pre_activation);
  check_ready(Op::linear_backward_input);
  charge(device(), stream, Op::linear_backward_input, [&] { do_backward_input(stream, args); });
}

void LinearPlan::backward_weights(Stream& stream, const LinearBackwardWeights& args) {
  const Check check(Op::linear_backward_weights);
  check_operand(check, "x", args.x, shape_.x_for_weights(), shape_.dtype, {shape_.rows, shape_.in_features});
  check.has("dy", args.dy, shape_.dtype, {shape_.rows, shape_.out_features});
  check_left(check, "dy_for_input", args.dy_for_input, shape_.dy_for_input());
  check.has("d_weight", args.d_weight, DType::float32, {shape_.out_features, shape_.in_features});
  check.may_have("d_bias", args.d_bias, DType::float32, {shape_.out_features});
  charge(device(), stream, Op::linear_backward_weights, [&] { do_backward_weights(stream, args); });
}

// ---- convolution ----
ConvolutionPlan::ConvolutionPlan(Device& device, const ConvolutionShape& shape) : WeightPlan(device), shape_(shape) {
  const Check check(Op::convolution_forward);
  check_positive(check, {{"shape.batch", shape.batch},
                         {"shape.in_channels", shape.in_channels},
                         {"shape.out_channels", shape.out_channels},
                         {"shape.groups", shape.groups},
                         {"shape.kernel", std::min(shape.kernel.height, shape.kernel.width)},
                         {"shape.stride", std::min(shape.stride.height, shape.stride.width)},
                         {"shape.height", shape.height},
                         {"shape.width", shape.width}});
  check.at_least("shape.padding", std::min(shape.padding.height, shape.padding.width), 0);
  check.at_least("shape.height + 2·padding − kernel", shape.height + 2 * shape.padding.height - shape.kernel.height, 0);
  check.at_least("shape.width + 2·padding − kernel", shape.width + 2 * shape.padding.width - shape.kernel.width, 0);
  for (const std::int64_t channels : {shape.in_channels, shape.out_channels}) {
    if (channels % shape.groups != 0) {
      check.fail("shape.groups", "a divisor of the " + std::to_string(channels) + " channels",
                 std::to_string(shape.groups));
    }
  }
  check_counts({shape.in(), shape.out(), shape.weight()});
  check_dtype(check, shape.dtype);
  require_math(device, Op::convolution_forward, shape.dtype, shape.math);
}

void ConvolutionPlan::check_weight(const Tensor& weight) const {
  Check(Op::convolution_forward).has("weight", weight, shape_.dtype, shape_.weight());
}

void ConvolutionPlan::forward(Stream& stream, const ConvolutionForward& args) {
  const Check check(Op::convolution_forward);
  check.has("x", args.x, shape_.dtype, shape_.in());
  check.has("y", args.y, shape_.dtype, shape_.out());
  check.apart("y", args.y, "x", args.x);
  check_ready(Op::convolution_forward);
  charge(device(), stream, Op::convolution_forward, [&] { do_forward(stream, args); });
}

void ConvolutionPlan::backward_input(Stream& stream, const ConvolutionBackwardInput& args) {
  const Check check(Op::convolution_backward_input);
  check.has("dy", args.dy, shape_.dtype, shape_.out());
  check.has("dx", args.dx, shape_.dtype, shape_.in());
  check.apart("dx", args.dx, "dy", args.dy);
  check_ready(Op::convolution_backward_input);
  charge(device(), stream, Op::convolution_backward_input, [&] { do_backward_input(stream, args); });
}

void ConvolutionPlan::backward_weights(Stream& stream, const ConvolutionBackwardWeights& args) {
  const Check check(Op::convolution_backward_weights);
  check.has("x", args.x, shape_.dtype, shape_.in());
  check.has("dy", args.dy, shape_.dtype, shape_.out());
  check.has("d_weight", args.d_weight, DType::float32, shape_.weight());
  charge(device(), stream, Op::convolution_backward_weights, [&] { do_backward_weights(stream, args); });
}

// ---- attention ----

AttentionPlan::AttentionPlan(Device& device, const AttentionShape& shape) : Plan(device), shape_(shape) {
  const Check check(Op::attention_forward);
  check_positive(check, {{"shape.batch", shape.batch},
                         {"shape.seq", shape.seq},
                         {"shape.heads", shape.heads},
                         {"shape.head_dim", shape.head_dim}});
  check.at_least("shape.kv_heads", shape.kv_heads, 0);
  shape_.kv_heads = shape.key_heads();
  if (shape.heads % shape_.kv_heads != 0) {
    check.fail("shape.kv_heads", "a divisor of the " + std::to_string(shape.heads) + " heads",
               std::to_string(shape.kv_heads));
  }
  check_counts({shape_.packed(), {shape.seq, shape.seq}});
  check_dtype(check, shape.dtype);
  require_math(device, Op::attention_forward, shape.dtype, shape.math);
}

void AttentionPlan::forward(Stream& stream, const AttentionForward& args) {
  const Check check(Op::attention_forward);
  check.has("qkv", args.qkv, shape_.dtype, shape_.packed());
  check.has("out", args.out, shape_.dtype, shape_.unpacked());
  check.apart("out", args.out, "qkv", args.qkv);
  check.has("log_sum_exp", args.log_sum_exp, DType::float32, shape_.row_values());
  charge(device(), stream, Op::attention_forward, [&] { do_forward(stream, args); });
}

void AttentionPlan::backward(Stream& stream, const AttentionBackward& args) {
  const Check check(Op::attention_backward);
  check.has("d_out", args.d_out, shape_.dtype, shape_.unpacked());
  check.has("qkv", args.qkv, shape_.dtype, shape_.packed());
  check.has("out", args.out, shape_.dtype, shape_.unpacked());
  check.has("log_sum_exp", args.log_sum_exp, DType::float32, shape_.row_values());
  check.has("d_qkv", args.d_qkv, shape_.dtype, shape_.packed());
  check.apart("d_qkv", args.d_qkv, "qkv", args.qkv);
  check.apart("d_qkv", args.d_qkv, "d_out", args.d_out);
  check.apart("d_qkv", args.d_qkv, "out", args.out);
  charge(device(), stream, Op::attention_backward, [&] { do_backward(stream, args); });
}

// ---- classifier ----

ClassifierPlan::ClassifierPlan(Device& device, const ClassifierShape& shape) : WeightPlan(device), shape_(shape) {
  const Check check(Op::classifier);
  check_positive(
      check, {{"shape.rows", shape.rows}, {"shape.in_features", shape.in_features}, {"shape.classes", shape.classes}});
  const std::int64_t columns = std::max(shape.classes, shape.reserved_classes);
  check_counts({{shape.rows, shape.in_features}, {shape.rows, columns}, {columns, shape.in_features}});
  if (!(shape.label_smoothing >= 0 && shape.label_smoothing < 1)) {
    check.fail("shape.label_smoothing", "a value in [0, 1)", std::to_string(shape.label_smoothing));
  }
  if (shape.reserved_classes != 0 && shape.reserved_classes < shape.classes) {
    check.fail("shape.reserved_classes", "0 or at least " + std::to_string(shape.classes),
               std::to_string(shape.reserved_classes));
  }
  if (!(shape.loss_weight > 0)) check.fail("shape.loss_weight", "a value above 0", std::to_string(shape.loss_weight));
  check_dtype(check, shape.dtype);
  require_math(device, Op::classifier, shape.dtype, shape.math);
}

void ClassifierPlan::check_weight(const Tensor& weight) const {
  Check(Op::classifier).has("weight", weight, shape_.dtype, {shape_.classes, shape_.in_features});
}

void ClassifierPlan::forward_backward(Stream& stream, const ClassifierForwardBackward& args) {
  const Check check(Op::classifier);
  const Dims in{shape_.rows, shape_.in_features};
  check.has("x", args.x, shape_.dtype, in);
  check.has("targets", args.targets, DType::int32, {shape_.rows});
  check.may_have("bias", args.bias, shape_.dtype, {shape_.classes});
  check.has("loss", args.loss, DType::float32, {1});
  check.may_have("correct", args.correct, DType::int32, {1});
  if (args.backward) {
    check.has("dx", args.dx, shape_.dtype, in);
    check.apart("dx", args.dx, "x", args.x);
    check.has("d_weight", args.d_weight, DType::float32, {shape_.classes, shape_.in_features});
    check.may_have("d_bias", args.d_bias, DType::float32, {shape_.classes});
  }
  if (args.scalars != nullptr) require_support(device(), Op::loss_scale, DType::fp16);
  check_ready(Op::classifier);
  charge(device(), stream, Op::classifier, [&] { do_forward_backward(stream, args); });
}

}  // namespace tw::models
