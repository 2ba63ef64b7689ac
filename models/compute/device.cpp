// The checked public half of Device.
#include "models/compute/device.hpp"

#include "models/compute/checks.hpp"

namespace tw::models {

namespace {

// The checks of each operator's arguments. They return the dtype that the device must support for it.

DType checked(const Check& check, const EmbeddingForward& args) {
  const DType type = check.activation("token_table", args.token_table, 2);
  check.has_rank("tokens", args.tokens, DType::int32, 2);
  const std::int64_t seq = args.tokens.dims[1], width = args.token_table.dims[1];
  if (args.position_table) {
    check.activation("position_table", args.position_table, 2);
    check.has("position_table", args.position_table, type, {args.position_table.dims[0], width});
    check.at_least("rows of position_table", args.position_table.dims[0], seq);
  }
  check.has("y", args.y, type, {args.tokens.dims[0], seq, width});
  return type;
}

DType checked(const Check& check, const EmbeddingBackward& args) {
  const DType type = check.activation("dy", args.dy, 3);
  const std::int64_t seq = args.dy.dims[1], width = args.dy.dims[2];
  check.has("tokens", args.tokens, DType::int32, {args.dy.dims[0], seq});
  check.has_rank("d_token_table", args.d_token_table, DType::float32, 2);
  check.has("d_token_table", args.d_token_table, DType::float32, {args.d_token_table.dims[0], width});
  if (args.d_position_table) {
    check.has_rank("d_position_table", args.d_position_table, DType::float32, 2);
    check.has("d_position_table", args.d_position_table, DType::float32, {args.d_position_table.dims[0], width});
    check.at_least("rows of d_position_table", args.d_position_table.dims[0], seq);
  }
  return type;
}

// Layer norm is RMS norm with beta and mean.
template <class Args>
constexpr bool has_mean = requires(Args args) {
  args.mean;
};

template <class Args>
DType check_norm_forward(const Check& check, const Args& args) {
  const DType type = check.activation("x", args.x, 2);
  const std::int64_t rows = args.x.dims[0], width = args.x.dims[1];
  check.may_have("residual", args.residual, type, args.x.dims);
  if (args.residual) {
    check.has("sum", args.sum, type, args.x.dims);
    check.same_or_apart("sum", args.sum, "x", args.x);
    check.same_or_apart("sum", args.sum, "residual", args.residual);
    check.apart("y", args.y, "sum", args.sum);
    check.apart("y", args.y, "residual", args.residual);
  }
  check.may_be_rounded("rounded", args.rounded, type, rows, width);
  for (const Tensor& tensor : {args.x, args.residual, args.sum})
    check.apart("rounded", args.rounded.straight, "what is normalised", tensor);
  check.has("gamma", args.gamma, type, {width});
  if constexpr (has_mean<Args>) check.has("beta", args.beta, type, {width});
  if (!args.rounded || args.y) check.has("y", args.y, type, args.x.dims);
  check.apart("rounded", args.rounded.straight, "y", args.y);
  check.apart("y", args.y, "x", args.x);
  if constexpr (has_mean<Args>) check.has("mean", args.mean, DType::float32, {rows});
  check.has("rstd", args.rstd, DType::float32, {rows});
  return type;
}
DType checked(const Check& check, const LayerNormForward& args) { return check_norm_forward(check, args); }
DType checked(const Check& check, const RmsNormForward& args) { return check_norm_forward(check, args); }

template <class Args>
DType check_norm_backward(const Check& check, const Args& args) {
  const DType type = check.activation("x", args.x, 2);
  const std::int64_t rows = args.x.dims[0], width = args.x.dims[1];
  check.has("dy", args.dy, type, args.x.dims);
  check.has("gamma", args.gamma, type, {width});
  if constexpr (has_mean<Args>) check.has("mean", args.mean, DType::float32, {rows});
  check.has("rstd", args.rstd, DType::float32, {rows});
  check.may_have("d_residual", args.d_residual, type, args.x.dims);
  check.has("dx", args.dx, type, args.x.dims);
  check.same_or_apart("d_residual", args.d_residual, "dx", args.dx);
  check.apart("dx", args.dx, "dy", args.dy);
  check.apart("dx", args.dx, "x", args.x);
  check.has("d_gamma", args.d_gamma, DType::float32, {width});
  if constexpr (has_mean<Args>) check.has("d_beta", args.d_beta, DType::float32, {width});
  return type;
}
DType checked(const Check& check, const LayerNormBackward& args) { return check_norm_backward(check, args); }
DType checked(const Check& check, const RmsNormBackward& args) { return check_norm_backward(check, args); }

DType checked(const Check& check, const BatchNormForward& args) {
  const DType type = check.activation("x", args.x, 4);
  const Dims channels{args.x.dims[3]};
  check.at_least("values for each channel (batch·height·width)", args.x.count() / args.x.dims[3], 2);
  check.has("gamma", args.gamma, DType::float32, channels);
  check.has("beta", args.beta, DType::float32, channels);
  check.may_have("running_mean", args.running_mean, DType::float32, channels);
  check.may_have("running_var", args.running_var, DType::float32, channels);
  if (static_cast<bool>(args.running_mean) != static_cast<bool>(args.running_var)) {
    check.fail("running_mean, running_var", "both or neither", "one of them");
  }
  check.may_have("residual", args.residual, type, args.x.dims);
  check.has("y", args.y, type, args.x.dims);
  check.apart("y", args.y, "x", args.x);
  check.apart("y", args.y, "residual", args.residual);
  check.has("mean", args.mean, DType::float32, channels);
  check.has("rstd", args.rstd, DType::float32, channels);
  return type;
}

DType checked(const Check& check, const BatchNormBackward& args) {
  const DType type = check.activation("x", args.x, 4);
  const Dims channels{args.x.dims[3]};
  check.has("dy", args.dy, type, args.x.dims);
  check.may_have("dy_more", args.dy_more, type, args.x.dims);
  if (args.relu) check.may_have("y", args.y, type, args.x.dims);
  check.has("gamma", args.gamma, DType::float32, channels);
  if (args.computes_mask()) {
    check.has("beta", args.beta, DType::float32, channels);
    if (args.d_residual) check.fail("y", "present where d_residual is", "none");
  }
  check.has("mean", args.mean, DType::float32, channels);
  check.has("rstd", args.rstd, DType::float32, channels);
  check.has("dx", args.dx, type, args.x.dims);
  check.same_or_apart("dx", args.dx, "dy", args.dy);
  check.apart("dx", args.dx, "x", args.x);
  if (args.relu) check.apart("dx", args.dx, "y", args.y);
  check.may_have("d_residual", args.d_residual, type, args.x.dims);
  if (args.dy_more && !args.d_residual) check.fail("d_residual", "present where dy_more is", "none");
  check.apart("d_residual", args.d_residual, "dy", args.dy);
  check.apart("d_residual", args.d_residual, "dx", args.dx);
  check.same_or_apart("d_residual", args.d_residual, "dy_more", args.dy_more);
  check.apart("dx", args.dx, "dy_more", args.dy_more);
  check.has("d_gamma", args.d_gamma, DType::float32, channels);
  check.has("d_beta", args.d_beta, DType::float32, channels);
  return type;
}

/// Windows along one axis of `extent`; checks that each holds at least one element.
std::int64_t windows(const Check& check, const char* overhang, std::int64_t extent, int kernel, int stride,
                     int padding) {
  check.at_least("kernel", kernel, 1);
  check.at_least("stride", stride, 1);
  check.at_least("padding", padding, 0);
  check.at_least("half the kernel less the padding", kernel / 2 - padding, 0);
  check.at_least(overhang, extent + 2 * padding - kernel, 0);
  return (extent + 2 * padding - kernel) / stride + 1;
}

/// Extents after pooling.
template <class Args>
Dims pooled(const Check& check, const Dims& image, const Args& args) {
  return {
      image[0],
      windows(check, "height + 2·padding − kernel", image[1], args.kernel.height, args.stride.height,
              args.padding.height),
      windows(check, "width + 2·padding − kernel", image[2], args.kernel.width, args.stride.width, args.padding.width),
      image[3]};
}
template <class Args>
Dims average_pooled(const Check& check, const Dims& image, const Args& args) {
  if (args.kernel == 0) {
    if (args.sum) check.fail("sum", "windows", "the whole image");
    return {image[0], image[3]};
  }
  return pooled(check, image, args);
}

DType checked(const Check& check, const MaxPoolForward& args) {
  const DType type = check.activation("x", args.x, 4);
  const Dims out = pooled(check, args.x.dims, args);
  check.has("y", args.y, type, out);
  check.apart("y", args.y, "x", args.x);
  check.has("argmax", args.argmax, DType::int32, out);
  return type;
}

DType checked(const Check& check, const MaxPoolBackward& args) {
  const DType type = check.activation("dx", args.dx, 4);
  const Dims out = pooled(check, args.dx.dims, args);
  check.has("dy", args.dy, type, out);
  check.apart("dx", args.dx, "dy", args.dy);
  check.has("argmax", args.argmax, DType::int32, out);
  return type;
}

DType checked(const Check& check, const AveragePoolForward& args) {
  const DType type = check.activation("x", args.x, 4);
  check.has("y", args.y, type, average_pooled(check, args.x.dims, args));
  check.apart("y", args.y, "x", args.x);
  return type;
}

DType checked(const Check& check, const AveragePoolBackward& args) {
  const DType type = check.activation("dx", args.dx, 4);
  check.has("dy", args.dy, type, average_pooled(check, args.dx.dims, args));
  check.apart("dx", args.dx, "dy", args.dy);
  return type;
}

DType checked(const Check& check, const CopyChannels& args) {
  const DType type = check.activation("x", args.x);
  const int last = args.x.dims.rank() - 1;
  check.has_rank("y", args.y, type, args.x.dims.rank());
  for (int axis = 0; axis < last; ++axis) {
    if (args.y.dims[axis] != args.x.dims[axis])
      check.fail("y", "the extents of x, " + args.x.dims.str() + ", but for the last", args.y.dims.str());
  }
  check.at_least("count", args.count, 1);
  check.at_least("from", args.from, 0);
  check.at_least("to", args.to, 0);
  check.at_least("channels of x behind those copied", args.x.dims[last] - args.from - args.count, 0);
  check.at_least("channels of y behind those copied", args.y.dims[last] - args.to - args.count, 0);
  check.apart("y", args.y, "x", args.x);
  return type;
}

DType checked(const Check& check, const Rotary& args) {
  const DType type = check.activation("x", args.x, 4);
  const std::int64_t seq = args.x.dims[1], heads = args.x.dims[2], head_dim = args.x.dims[3];
  if (head_dim % 2 != 0) check.fail("head_dim", "an even number", std::to_string(head_dim));
  check.has_rank("table", args.table, DType::float32, 3);
  check.has("table", args.table, DType::float32, {args.table.dims[0], head_dim / 2, 2});
  check.at_least("positions of table", args.table.dims[0], seq);
  check.apart("table", args.table, "x", args.x);
  check.at_least("rotated", args.rotated, 1);
  check.at_least("heads less the rotated ones", heads - args.rotated, 0);
  return type;
}

/// The extents of y and dy below x, (rows, 2·hidden).
Dims gated(const Check& check, const Tensor& x) {
  if (x.dims[1] % 2 != 0) check.fail("x", "an even number of columns", std::to_string(x.dims[1]));
  return {x.dims[0], x.dims[1] / 2};
}

DType checked(const Check& check, const SwigluForward& args) {
  const DType type = check.activation("x", args.x, 2);
  check.has_one("y", args.y, type, gated(check, args.x), args.rounded);
  check.apart("rounded", args.rounded.straight, "x", args.x);
  check.apart("y", args.y, "x", args.x);
  return type;
}

DType checked(const Check& check, const SwigluBackward& args) {
  const DType type = check.activation("x", args.x, 2);
  check.has("dy", args.dy, type, gated(check, args.x));
  check.has("dx", args.dx, type, args.x.dims);
  check.apart("dx", args.dx, "x", args.x);
  check.apart("dx", args.dx, "dy", args.dy);
  return type;
}

DType checked(const Check& check, const GatherRows& args) {
  const DType type = check.activation("x", args.x, 2);
  check.has_rank("indices", args.indices, DType::int32, 1);
  check.has("y", args.y, type, {args.indices.dims[0], args.x.dims[1]});
  check.apart("y", args.y, "x", args.x);
  return type;
}

DType checked(const Check& check, const ScatterRows& args) {
  const DType type = check.activation("dx", args.dx, 2);
  check.has_rank("indices", args.indices, DType::int32, 1);
  check.has("dy", args.dy, type, {args.indices.dims[0], args.dx.dims[1]});
  check.at_least("rows of dx less those of dy", args.dx.dims[0] - args.dy.dims[0], 0);
  check.apart("dx", args.dx, "dy", args.dy);
  return type;
}

DType check_bags(const Check& check, const Tensor& rows, const Tensor& tables, const Tensor& indices, const char* name,
                 const Tensor& values) {
  const DType type = check.activation(name, values, 3);
  const std::int64_t slots = values.dims[1];
  check.has_rank("rows", rows, DType::float32, 2);
  check.at_least("2147483647 less the rows of all tables", std::int64_t{INT32_MAX} - rows.dims[0], 0);
  check.has("rows", rows, DType::float32, {rows.dims[0], values.dims[2]});
  check.has("tables", tables, DType::int32, {slots, 2});
  check.has_rank("indices", indices, DType::int32, 3);
  check.has("indices", indices, DType::int32, {values.dims[0], slots, indices.dims[2]});
  check.at_least("2147483647 less the indices", std::int64_t{INT32_MAX} - indices.count(), 0);
  check.apart(name, values, "rows", rows);
  return type;
}
DType checked(const Check& check, const EmbeddingBagForward& args) {
  return check_bags(check, args.rows, args.tables, args.indices, "y", args.y);
}
DType checked(const Check& check, const EmbeddingBagUpdate& args) {
  check.not_null("scalars", args.scalars);
  return check_bags(check, args.rows, args.tables, args.indices, "dy", args.dy);
}

/// The extents of y.
Dims interacted(const Check& check, const Tensor& dense, const Tensor& bags, const Tensor& places) {
  const DType type = check.activation("dense", dense, 2);
  check.activation("bags", bags, 4);
  check.has("bags", bags, type, {bags.dims[0], dense.dims[0], bags.dims[2], dense.dims[1]});
  check.has_rank("places", places, DType::int32, 1);
  const std::int64_t features = places.dims[0];
  return {dense.dims[0], dense.dims[1] + features * (features + 1) / 2};
}
DType checked(const Check& check, const InteractionForward& args) {
  const Dims wide = interacted(check, args.dense, args.bags, args.places);
  check.has("y", args.y, args.dense.dtype, wide);
  check.apart("y", args.y, "dense", args.dense);
  check.apart("y", args.y, "bags", args.bags);
  return args.dense.dtype;
}
DType checked(const Check& check, const InteractionBackward& args) {
  const Dims wide = interacted(check, args.dense, args.bags, args.places);
  const DType type = args.dense.dtype;
  check.has("dy", args.dy, type, wide);
  check.has("d_dense", args.d_dense, type, args.dense.dims);
  check.has("d_bags", args.d_bags, type, args.bags.dims);
  for (const auto& [name, other] :
       {std::pair("dy", args.dy), std::pair("dense", args.dense), std::pair("bags", args.bags)}) {
    check.apart("d_dense", args.d_dense, name, other);
    check.apart("d_bags", args.d_bags, name, other);
  }
  check.apart("d_bags", args.d_bags, "d_dense", args.d_dense);
  return type;
}

DType checked(const Check& check, const BinaryCrossEntropy& args) {
  const DType type = check.activation("logits", args.logits, 1);
  check.has("targets", args.targets, DType::int32, args.logits.dims);
  check.has("loss", args.loss, DType::float32, {1});
  check.may_have("correct", args.correct, DType::int32, {1});
  check.may_have("d_logits", args.d_logits, type, args.logits.dims);
  check.same_or_apart("d_logits", args.d_logits, "logits", args.logits);
  return type;
}

DType checked(const Check& check, const MeanSquaredError& args) {
  const DType type = check.activation("predictions", args.predictions);
  check.has("targets", args.targets, DType::float32, args.predictions.dims);
  check.has("loss", args.loss, DType::float32, {1});
  check.may_have("d_predictions", args.d_predictions, type, args.predictions.dims);
  check.same_or_apart("d_predictions", args.d_predictions, "predictions", args.predictions);
  check.apart("d_predictions", args.d_predictions, "targets", args.targets);
  return type;
}

DType checked(const Check& check, const AddBias& args) {
  const DType type = check.activation("x", args.x);
  check.has("y", args.y, type, args.x.dims);
  check.has("bias", args.bias, type, {args.x.dims[args.x.dims.rank() - 1]});
  check.same_or_apart("y", args.y, "x", args.x);
  check.apart("y", args.y, "bias", args.bias);
  return type;
}

DType checked(const Check& check, const BiasBackward& args) {
  const DType type = check.activation("dy", args.dy);
  check.has("d_bias", args.d_bias, DType::float32, {args.dy.dims[args.dy.dims.rank() - 1]});
  check.apart("d_bias", args.d_bias, "dy", args.dy);
  return type;
}

void check_activation(const Check& check, Activation activation) {
  if (activation == Activation::none || activation == Activation::gelu)
    check.fail("activation", "gelu_erf, tanh or relu", activation == Activation::gelu ? "gelu" : "none");
}

DType checked(const Check& check, const ActivationForward& args) {
  const DType type = check.activation("x", args.x);
  check_activation(check, args.activation);
  check.has_one("y", args.y, type, args.x.dims, args.rounded);
  check.apart("rounded", args.rounded.straight, "x", args.x);
  check.same_or_apart("y", args.y, "x", args.x);
  return type;
}

DType checked(const Check& check, const ActivationBackward& args) {
  const DType type = check.activation("x", args.x);
  check_activation(check, args.activation);
  check.has("dy", args.dy, type, args.x.dims);
  check.has("dx", args.dx, type, args.x.dims);
  check.same_or_apart("dx", args.dx, "dy", args.dy);
  check.apart("dx", args.dx, "x", args.x);
  return type;
}

DType checked(const Check& check, const Add& args) {
  const DType type = check.activation("a", args.a);
  check.has("b", args.b, type, args.a.dims);
  check.has("y", args.y, type, args.a.dims);
  check.same_or_apart("y", args.y, "a", args.a);
  check.same_or_apart("y", args.y, "b", args.b);
  return type;
}

DType checked(const Check& check, const Cast& args) {
  const DType from = check.activation("x", args.x);
  const DType to = check.activation("y", args.y);
  check.has("y", Tensor{args.y.data, args.y.dtype, {args.y.count()}}, to, {args.x.count()});
  if (is_half(from) == is_half(to)) {
    check.fail("y", is_half(from) ? "float32" : "bf16 or fp16", std::string(to_string(to)));
  }
  check.apart("y", args.y, "x", args.x);
  return is_half(from) ? from : to;
}

DType checked(const Check& check, const Fill& args) { return check.activation("y", args.y); }

DType checked(const Check& check, const GlobalNorm& args) {
  check.has("gradient", args.gradient, DType::float32, {args.gradient.count()});
  check.not_null("scalars", args.scalars);
  return DType::float32;
}

template <class Args>
void check_optimizer(const Check& check, const Args& args) {
  check.has_rank("master", args.master, DType::float32, 1);
  if (args.weights) {
    if (!is_half(args.weights.dtype)) {
      check.fail("weights", "bf16 or fp16", std::string(to_string(args.weights.dtype)));
    }
    check.has("weights", args.weights, args.weights.dtype, args.master.dims);
  }
  check.has("gradient", args.gradient, DType::float32, args.master.dims);
  check.at_least("segment_count", args.segment_count, 0);
  if (args.segment_count > 0) check.not_null("segments", args.segments);
  check.not_null("scalars", args.scalars);
}

DType checked(const Check& check, const AdamW& args) {
  check_optimizer(check, args);
  check.has("first_moment", args.first_moment, DType::float32, args.master.dims);
  check.has("second_moment", args.second_moment, DType::float32, args.master.dims);
  return args.weights ? args.weights.dtype : DType::float32;
}

DType checked(const Check& check, const Sgd& args) {
  check_optimizer(check, args);
  check.has("momentum_buffer", args.momentum_buffer, DType::float32, args.master.dims);
  return args.weights ? args.weights.dtype : DType::float32;
}

DType checked(const Check& check, const UpdateLossScale& args) {
  check.not_null("scalars", args.scalars);
  check.at_least("growth_interval", args.growth_interval, 1);
  return DType::fp16;
}

DType checked(const Check& check, const GenerateTokens& args) {
  check.has_rank("table", args.table, DType::int32, 1);
  check.at_least("rows of table", args.table.dims[0], 4);
  check.has_rank("inputs", args.inputs, DType::int32, 2);
  check.has("targets", args.targets, DType::int32, {args.inputs.count()});
  return DType::float32;
}

DType checked(const Check& check, const GenerateImages& args) {
  const DType type = check.activation("inputs", args.inputs, 4);
  check.has("inputs", args.inputs, type,
            {args.inputs.dims[0], args.inputs.dims[1], args.inputs.dims[1], args.inputs.dims[3]});
  check.has_rank("frequencies", args.frequencies, DType::int32, 2);
  check.has("frequencies", args.frequencies, DType::int32, {args.frequencies.dims[0], 2});
  check.has("targets", args.targets, DType::int32, {args.inputs.dims[0]});
  return type;
}

DType checked(const Check& check, const GenerateClicks& args) {
  check.not_null("tables", args.tables);
  check.has_rank("dense", args.dense, DType::float32, 2);
  check.has_rank("indices", args.indices, DType::int32, 3);
  check.at_least("samples of indices", args.indices.dims[0], args.dense.dims[0]);
  const std::int64_t of_sample = args.indices.count() / args.indices.dims[0];
  if (of_sample > INT32_MAX) check.fail("indices of a sample", "below 2^31", std::to_string(of_sample));
  check.has("targets", args.targets, DType::int32, {args.dense.dims[0]});
  return DType::float32;
}

template <class Args>
void require_rounding(const Device& device, Op op, const Args& args) {
  if constexpr (requires { args.rounded; }) {
    if (args.rounded && !device.rounds_ahead()) Check(op).fail("rounded", "none on this device", "one");
  }
}

}  // namespace

#define TW_OPERATOR(op, name, Arguments)                             \
  void Device::name(Stream& stream, const Arguments& args) {         \
    require_support(*this, Op::op, checked(Check(Op::op), args));    \
    require_rounding(*this, Op::op, args);                           \
    charge(*this, stream, Op::op, [&] { do_##name(stream, args); }); \
  }
#include "models/compute/operators.def"

#define TW_SAMPLE_OPERATOR(op, name, Arguments)                                                             \
  void Device::do_##name(Stream&, const Arguments&) {                                                       \
    throw Error(Failure::unsupported, std::string(to_string(info().kind)) + " makes no samples by itself"); \
  }
#define TW_OPERATOR(op, name, Arguments)
#include "models/compute/operators.def"

}  // namespace tw::models
