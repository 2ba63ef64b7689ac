// Matrix products: linear layers and the output head.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "models/compute/error.hpp"
#include "models/compute/formulas.hpp"
#include "models/compute/reference/reference.hpp"

namespace tw::models::reference {

Values product(const Values& a, const Values& b, std::int64_t m, std::int64_t n, std::int64_t k, int threads) {
  Values c(static_cast<std::size_t>(m * n), 0.0);
#pragma omp parallel for num_threads(threads) if (m * n * k > 1000000)
  for (std::int64_t i = 0; i < m; ++i) {
    double* row = c.data() + i * n;
    for (std::int64_t l = 0; l < k; ++l) {
      const double factor = a[i * k + l];
      const double* b_row = b.data() + l * n;
      for (std::int64_t j = 0; j < n; ++j) row[j] += factor * b_row[j];
    }
  }
  return c;
}

Values transposed(const Values& a, std::int64_t rows, std::int64_t columns) {
  Values t(a.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) t[j * rows + i] = a[i * columns + j];
  }
  return t;
}

Values taken(Math math, Values values) {
  if (math == Math::bf16)
    for (double& value : values) value = to_float(to_bf16(static_cast<float>(value)));
  if (math != Math::tf32) return values;
  for (double& value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    value = std::bit_cast<float>((bits + 0x1000u) & 0xffffe000u);
  }
  return values;
}

namespace {

template <class F>
double widened(F value, float scale) {
  return static_cast<double>(fp8_to_float(value)) / static_cast<double>(scale);
}
/// Leaves the bytes in their order, and the scale behind them, in `left`, where that is given.
template <class F>
void round_to_fp8(Values& values, float scale, const Tensor& left) {
  F* bytes = left.as<F>();
  for (double& value : values) {
    const F rounded = to_fp8<F>(static_cast<float>(value) * scale);
    if (bytes != nullptr) *bytes++ = rounded;
    value = widened(rounded, scale);
  }
  if (bytes != nullptr) std::memcpy(bytes, &scale, sizeof scale);
}
template <class F>
Values left_values(const Tensor& left, std::int64_t count) {
  const F* bytes = left.as<F>();
  float scale = 0;
  std::memcpy(&scale, bytes + count, sizeof scale);
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) value = widened(*bytes++, scale);
  return values;
}

}  // namespace

Values ReferenceLinear::taken_over(const Tensor& x, bool gradient) const {
  if (shape().math != Math::fp8) return taken(shape().math, load(x));
  const std::int64_t count = shape().rows * (gradient ? shape().out_features : shape().in_features);
  return gradient ? left_values<e5m2>(x, count) : left_values<e4m3>(x, count);
}

Values ReferenceLinear::operand(const Tensor& x, Fp8Scale& given, bool gradient, const Tensor& left,
                                bool follows) const {
  Values values = taken(shape().math, load(x));
  if (shape().math != Math::fp8) return values;
  float greatest = 0;
  for (const double value : values) greatest = std::max(greatest, std::fabs(static_cast<float>(value)));
  const auto bits = std::bit_cast<std::uint32_t>(greatest);
  Fp8Scale aside = given;
  Fp8Scale& scale = follows ? given : aside;
  if (follows || scale.scale == 0) {
    if (scale.scale == 0) scale.greatest = bits;  // the first call looks at its own tensor
    formula::next_fp8_scale(scale, gradient ? e5m2::largest : e4m3::largest);
  }
  scale.greatest = bits;
  gradient ? round_to_fp8<e5m2>(values, scale.scale, left) : round_to_fp8<e4m3>(values, scale.scale, left);
  return values;
}

void ReferenceLinear::do_refresh(Stream&) {
  weight_copy_ = operand(weight(), weight_scale_, false);
  transposed_ = transposed(weight_copy_, shape().out_features, shape().in_features);
}

void ReferenceLinear::do_forward(Stream&, const LinearForward& args) {
  const auto [rows, in, out, dtype, activation, math] = shape();
  Values y =
      product(operand(args.x, x_scale_, false, args.x_for_weights, args.follows), transposed_, rows, out, in, threads_);
  if (args.bias) {
    const Values bias = load(args.bias);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < out; ++j) y[i * out + j] += bias[j];
    }
  }
  if (args.residual) {
    const Values residual = load(args.residual);
    for (std::size_t i = 0; i < y.size(); ++i) y[i] += residual[i];
  }
  if (activation == Activation::gelu) {
    store(args.pre_activation, y);
    for (double& value : y) value = formula::gelu(value);
  }
  store(args.y, y);
}

void ReferenceLinear::do_backward_input(Stream&, const LinearBackwardInput& args) {
  Values dx = product(taken_over(args.dy, true), weight_copy_, shape().rows, shape().in_features, shape().out_features,
                      threads_);
  if (args.input_pre_activation) {
    const Values pre = load(args.input_pre_activation);
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] *= formula::gelu_derivative(pre[i]);
  }
  store(args.dx, dx);
}

void ReferenceLinear::do_backward_weights(Stream&, const LinearBackwardWeights& args) {
  const std::int64_t rows = shape().rows, in = shape().in_features, out = shape().out_features;
  const Values dy = load(args.dy);
  store_gradient(args.d_weight,
                 product(transposed(operand(args.dy, dy_scale_, true, args.dy_for_input), rows, out),
                         taken_over(args.x, false), out, in, rows, threads_),
                 args.accumulate);
  if (args.d_bias) {
    Values d_bias(static_cast<std::size_t>(out), 0.0);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < out; ++j) d_bias[j] += dy[i * out + j];
    }
    store_gradient(args.d_bias, d_bias, args.accumulate);
  }
}

void ReferenceClassifier::do_refresh(Stream&) {
  weight_copy_ = taken(shape().math, load(weight()));
  transposed_ = transposed(weight_copy_, shape().classes, shape().in_features);
}

void ReferenceClassifier::do_forward_backward(Stream&, const ClassifierForwardBackward& args) {
  const std::int64_t rows = shape().rows, in = shape().in_features, classes = shape().classes;
  const double smoothing = shape().label_smoothing;
  const Values x = taken(shape().math, load(args.x));
  const Values bias = args.bias ? load(args.bias) : Values(static_cast<std::size_t>(classes), 0.0);
  const std::int32_t* targets = args.targets.as<std::int32_t>();

  Values logits = product(x, transposed_, rows, classes, in, threads_);  // becomes d_logits
  const double loss_weight = static_cast<double>(shape().loss_weight);
  const double scale = loss_weight * (args.scalars != nullptr ? static_cast<double>(args.scalars->loss_scale) : 1.0);
  double loss = 0;
  std::int32_t correct = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (targets[i] < 0 || targets[i] >= classes) {
      throw Error(Failure::usage, "classifier: targets: wanted values in [0, " + std::to_string(classes) + "), given " +
                                      std::to_string(targets[i]) + " in row " + std::to_string(i));
    }
    double* row = logits.data() + i * classes;
    std::int64_t best = 0;
    for (std::int64_t j = 0; j < classes; ++j) {
      row[j] += bias[j];
      if (row[j] > row[best]) best = j;
    }
    if (best == targets[i]) ++correct;
    const double largest = row[best];
    double sum = 0;
    for (std::int64_t j = 0; j < classes; ++j) sum += std::exp(row[j] - largest);
    const double log_sum = largest + std::log(sum);
    for (std::int64_t j = 0; j < classes; ++j) {
      const double wanted = smoothing / classes + (j == targets[i] ? 1 - smoothing : 0);
      const double log_probability = row[j] - log_sum;
      if (wanted > 0) loss -= wanted * log_probability;
      row[j] = (std::exp(log_probability) - wanted) / rows * scale;
    }
  }
  store(args.loss, {loss / rows * loss_weight});
  if (args.correct) *args.correct.as<std::int32_t>() = correct;
  if (!args.backward) return;

  logits = taken(shape().math, std::move(logits));
  store(args.dx, product(logits, weight_copy_, rows, in, classes, threads_));
  store_gradient(args.d_weight, product(transposed(logits, rows, classes), x, classes, in, rows, threads_),
                 args.accumulate);
  if (args.d_bias) {
    Values d_bias(static_cast<std::size_t>(classes), 0.0);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < classes; ++j) d_bias[j] += logits[i * classes + j];
    }
    store_gradient(args.d_bias, d_bias, args.accumulate);
  }
}

}  // namespace tw::models::reference
