#include "models/ledger/traffic.hpp"

#include <algorithm>

namespace tw::models {
namespace {

double bytes(const Tensor& tensor) { return static_cast<double>(tensor.bytes()); }
double number(std::int64_t value) { return static_cast<double>(value); }

/// Rows of a table, of as many as there are.
double rows_bytes(const Tensor& table, std::int64_t rows) {
  return number(std::min(rows, table.dims[0])) * bytes(table) / number(table.dims[0]);
}

/// An operand that fp8 reads as stored and writes with one byte an element; in the other layout, with its scale, into
/// `left`, where that is given.
Traffic rounded(const Tensor& tensor, const Tensor& left) {
  return {bytes(tensor), number(tensor.count()) + bytes(left), 0};
}
/// The same written by the operator that makes it.
Traffic ahead(const RoundedInput& operand) { return moved({}, {operand.straight, operand.transposed}); }
/// An operand of a product, in fp8 one byte an element.
double operand(const Tensor& tensor, Math math) { return math == Math::fp8 ? number(tensor.count()) : bytes(tensor); }

double flops(const LinearShape& s) { return 2 * number(s.rows) * number(s.in_features) * number(s.out_features); }
double flops(const ConvolutionShape& s) {
  return 2 * number(s.batch) * number(s.out_height() * s.out_width()) * number(s.kernel.area()) *
         number(s.in_channels / s.groups) * number(s.out_channels);
}
double pairs(const Tensor& places) { return number(places.count() * (places.count() + 1) / 2); }
double flops(const AttentionShape& s) {
  return (s.causal ? 2 : 4) * number(s.batch) * number(s.heads * s.head_dim) * number(s.seq) * number(s.seq);
}

Traffic norm_forward(std::initializer_list<Tensor> read, const Tensor& sum, const Tensor& residual,
                     std::initializer_list<Tensor> written) {
  return moved(read, written) + moved({residual}, {sum});
}

}  // namespace

Traffic moved(std::initializer_list<Tensor> read, std::initializer_list<Tensor> written) {
  Traffic all;
  for (const Tensor& tensor : read) all.read += bytes(tensor);
  for (const Tensor& tensor : written) all.written += bytes(tensor);
  return all;
}

Traffic gradients(std::initializer_list<Tensor> of_parameters, bool accumulate) {
  Traffic all = moved({}, of_parameters);
  if (accumulate) all.read = all.written;
  return all;
}

// ---- products ----

Traffic total(const Kernels& kernels) {
  Traffic all;
  for (const Kernel& kernel : kernels) all = all + kernel.traffic;
  return all;
}

Kernels kernels(const LinearShape& s, const LinearForward& a, const Tensor& weight) {
  const bool has_own_activation = s.math == Math::fp8 && s.activation != Activation::none;
  Traffic product = moved({a.bias, a.residual}, {has_own_activation ? Tensor{} : a.y, a.pre_activation});
  product.read += (a.x_rounded ? bytes(a.x_rounded.straight) : operand(a.x, s.math)) + operand(weight, s.math);
  product.flops = flops(s);
  Kernels all;
  if (s.math == Math::fp8 && !a.x_rounded) all.push_back({"round", rounded(a.x, a.x_for_weights)});
  all.push_back({"product", product});
  if (has_own_activation) all.push_back({"gelu", moved({a.pre_activation}, {a.y}) + ahead(a.y_rounded)});
  return all;
}
Kernels kernels(const LinearShape& s, const LinearBackwardInput& a, const Tensor& weight) {
  Traffic product = moved({a.input_pre_activation}, {a.dx});
  product.read += operand(a.dy, s.math) + operand(weight, s.math);
  product.flops = flops(s);
  return {{"product", product}};
}
Kernels kernels(const LinearShape& s, const LinearBackwardWeights& a) {
  const bool rounds = s.math == Math::fp8;  // and sums dy for the bias
  Traffic product = gradients({a.d_weight, rounds ? Tensor{} : a.d_bias}, a.accumulate);
  product.read += operand(a.x, s.math) + operand(a.dy, s.math);
  product.flops = flops(s);
  if (!rounds) return {{"product", product}};
  return {{"round", rounded(a.dy, a.dy_for_input) + gradients({a.d_bias}, a.accumulate)}, {"product", product}};
}

Traffic traffic(const ConvolutionShape& s, const ConvolutionForward& a, const Tensor& weight) {
  return moved({a.x, weight}, {a.y}) + Traffic{0, 0, flops(s)};
}
Traffic traffic(const ConvolutionShape& s, const ConvolutionBackwardInput& a, const Tensor& weight) {
  return moved({a.dy, weight}, {a.dx}) + Traffic{0, 0, flops(s)};
}
Traffic traffic(const ConvolutionShape& s, const ConvolutionBackwardWeights& a) {
  return moved({a.x, a.dy}, {}) + gradients({a.d_weight}, a.accumulate) + Traffic{0, 0, flops(s)};
}

Traffic traffic(const AttentionShape& s, const AttentionForward& a) {
  return moved({a.qkv}, {a.out, a.log_sum_exp}) + Traffic{0, 0, flops(s)};
}
Traffic traffic(const AttentionShape& s, const AttentionBackward& a) {
  return moved({a.d_out, a.qkv, a.out, a.log_sum_exp}, {a.d_qkv}) + Traffic{0, 0, 2 * flops(s)};
}

Kernels kernels(const ClassifierShape& s, const ClassifierForwardBackward& a, const Tensor& weight) {
  const double logits = number(s.rows) * number(s.classes) * static_cast<double>(size_of(s.dtype));
  const double one = 2 * number(s.rows) * number(s.in_features) * number(s.classes);
  Traffic product = moved({a.x, weight, a.bias}, {}) + Traffic{0, logits, one};
  Traffic softmax = moved({a.targets}, {a.loss, a.correct}) + Traffic{logits, 0, 0};
  if (a.backward) {
    softmax.written += logits;                            // their gradient
    product = product + Traffic{2 * logits, 0, 2 * one};  // which both gradients' products read
    product = product + moved({a.x, weight}, {a.dx}) + gradients({a.d_weight, a.d_bias}, a.accumulate);
  }
  return {{"product", product}, {"softmax", softmax}};
}

Traffic rounded_weight(const Tensor& weight) { return rounded(weight, {weight.data, DType::byte, {weight.count()}}); }

// ---- operators without a plan ----

Traffic traffic(const EmbeddingForward& a) {
  Traffic all = moved({a.tokens, a.y}, {a.y});  // as many bytes of the table as of y
  if (a.position_table) all.read += rows_bytes(a.position_table, a.tokens.dims[1]);
  return all;
}
/// Without the sort, and without the parts of rows that occur often: on a GPU at most two rows of float32 for each 64
/// of dy, written and read.
Traffic traffic(const EmbeddingBackward& a) {
  Traffic all = moved({a.tokens, a.dy}, {});
  const double rows = rows_bytes(a.d_token_table, a.tokens.count());
  all = all + Traffic{rows, rows, 0};
  if (!a.d_position_table) return all;
  const double positions = rows_bytes(a.d_position_table, a.tokens.dims[1]);
  return all + (a.accumulate_position ? Traffic{positions, positions, 0} : moved({}, {a.d_position_table}));
}
Traffic traffic(const EmbeddingBagForward& a) {
  Traffic all = moved({a.tables, a.indices}, {a.y});
  all.read += number(a.indices.count()) * number(a.rows.dims[1]) * sizeof(float);
  return all;
}
/// As of an embedding's.
Traffic traffic(const EmbeddingBagUpdate& a) {
  const double rows = rows_bytes(a.rows, a.indices.count());
  return moved({a.tables, a.indices, a.dy}, {}) + Traffic{rows, rows, 0};
}
Traffic traffic(const InteractionForward& a) {
  return moved({a.dense, a.bags, a.places}, {a.y}) + Traffic{0, 0, 2 * number(a.dense.count()) * pairs(a.places)};
}
Traffic traffic(const InteractionBackward& a) {
  return moved({a.dy, a.dense, a.bags, a.places}, {a.d_dense, a.d_bags}) +
         Traffic{0, 0, 4 * number(a.dense.count()) * pairs(a.places)};
}
Traffic traffic(const BinaryCrossEntropy& a) { return moved({a.logits, a.targets}, {a.loss, a.correct, a.d_logits}); }
Traffic traffic(const MeanSquaredError& a) { return moved({a.predictions, a.targets}, {a.loss, a.d_predictions}); }
Traffic traffic(const AddBias& a) { return moved({a.x, a.bias}, {a.y}); }
Traffic traffic(const BiasBackward& a) { return moved({a.dy}, {}) + gradients({a.d_bias}, a.accumulate); }
Traffic traffic(const LayerNormForward& a) {
  return norm_forward({a.x, a.gamma, a.beta}, a.sum, a.residual, {a.y, a.mean, a.rstd}) + ahead(a.rounded);
}
Traffic traffic(const LayerNormBackward& a) {
  return moved({a.dy, a.x, a.gamma, a.mean, a.rstd, a.d_residual}, {a.dx}) +
         gradients({a.d_gamma, a.d_beta}, a.accumulate);
}
Traffic traffic(const RmsNormForward& a) {
  return norm_forward({a.x, a.gamma}, a.sum, a.residual, {a.y, a.rstd}) + ahead(a.rounded);
}
Traffic traffic(const RmsNormBackward& a) {
  return moved({a.dy, a.x, a.gamma, a.rstd, a.d_residual}, {a.dx}) + gradients({a.d_gamma}, a.accumulate);
}
Traffic traffic(const BatchNormForward& a) {  // x once for the statistics, once to be normalised
  return moved({a.x, a.x, a.gamma, a.beta, a.residual}, {a.y, a.mean, a.rstd}) +
         gradients({a.running_mean, a.running_var}, true);
}
Traffic traffic(const BatchNormBackward& a) {
  const Tensor y = a.relu ? a.y : Tensor{}, beta = a.computes_mask() ? a.beta : Tensor{};
  // For the sums: dy, x and the ReLU's y; for dx the same, or what the sums have kept of dy under the mask, and x.
  return moved({a.dy, a.dy_more, a.x, y, a.gamma, beta, a.mean, a.rstd}, {a.d_residual}) +
         (a.d_residual ? moved({a.d_residual, a.x}, {a.dx}) : moved({a.dy, a.x, y}, {a.dx})) +
         gradients({a.d_gamma, a.d_beta}, a.accumulate);
}
Traffic traffic(const MaxPoolForward& a) { return moved({a.x}, {a.y, a.argmax}); }
Traffic traffic(const MaxPoolBackward& a) { return moved({a.dy, a.argmax}, {a.dx}); }
Traffic traffic(const AveragePoolForward& a) { return moved({a.x}, {a.y}); }
Traffic traffic(const AveragePoolBackward& a) { return moved({a.dy}, {a.dx}); }
Traffic traffic(const Rotary& a) {
  const double turned = bytes(a.x) * number(a.rotated) / number(a.x.dims[2]);
  return {turned + rows_bytes(a.table, a.x.dims[1]), turned, 0};
}
Traffic traffic(const CopyChannels& a) {
  const double copied = bytes(a.x) * number(a.count) / number(a.x.dims[a.x.dims.rank() - 1]);
  return {copied, copied, 0};
}
Traffic traffic(const SwigluForward& a) { return moved({a.x}, {a.y}) + ahead(a.rounded); }
Traffic traffic(const SwigluBackward& a) { return moved({a.x, a.dy}, {a.dx}); }
Traffic traffic(const GatherRows& a) { return moved({a.indices, a.y}, {a.y}); }
Traffic traffic(const ScatterRows& a) { return moved({a.indices, a.dy}, {a.dx}); }
Traffic traffic(const ActivationForward& a) { return moved({a.x}, {a.y}) + ahead(a.rounded); }
Traffic traffic(const ActivationBackward& a) { return moved({a.dy, a.x}, {a.dx}); }
Traffic traffic(const Add& a) { return moved({a.a, a.b}, {a.y}); }
Traffic traffic(const Cast& a) { return moved({a.x}, {a.y}); }
Traffic traffic(const Fill& a) { return moved({}, {a.y}); }
Traffic traffic(const GlobalNorm& a) { return moved({a.gradient}, {}); }
Traffic traffic(const AdamW& a) {
  return moved({a.gradient, a.master, a.first_moment, a.second_moment},
               {a.master, a.weights, a.first_moment, a.second_moment});
}
Traffic traffic(const Sgd& a) {
  return moved({a.gradient, a.master, a.momentum_buffer}, {a.master, a.weights, a.momentum_buffer});
}
Traffic traffic(const UpdateLossScale&) { return {sizeof(StepScalars), sizeof(StepScalars), 0}; }
Traffic traffic(const GenerateTokens& a) { return moved({a.table}, {a.inputs, a.targets}); }
Traffic traffic(const GenerateImages& a) { return moved({a.frequencies}, {a.inputs, a.targets}); }
Traffic traffic(const GenerateClicks& a) {
  const Traffic tables{number(a.indices.dims[1]) * static_cast<double>(sizeof(ClickTable)), 0, 0};
  return tables + moved({}, {a.dense, a.indices, a.targets});
}

}  // namespace tw::models
