// Layer norm, RMS norm and batch norm. The gradient of y = gamma·x̂ + beta with x̂ = (x − mean)·rstd over n values is
// dx = rstd·(g − Σg/n − x̂·Σ(g·x̂)/n), g = dy·gamma.
#include <cmath>

#include "models/compute/formulas.hpp"
#include "models/compute/reference/reference.hpp"

namespace tw::models::reference {
namespace {

/// What is normalised is the sum as stored: backward will see no other.
Values sum_of(const Tensor& x, const Tensor& residual) {
  Values sum = load(x);
  if (!residual) return sum;
  const Values more = load(residual);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  round_to(x.dtype, sum);
  return sum;
}

/// What a batch norm writes without residual and ReLU, from the statistics as they are saved: backward has no others.
Values normalised(const Values& x, const Values& mean, const Values& rstd, const Values& gamma, const Values& beta) {
  Values y(x.size());
  for (std::size_t at = 0; at < y.size(); ++at) {
    const std::size_t c = at % mean.size();
    y[at] = (x[at] - mean[c]) * rstd[c] * gamma[c] + beta[c];
  }
  return y;
}

}  // namespace

void ReferenceDevice::do_layer_norm_forward(Stream&, const LayerNormForward& args) {
  const std::int64_t rows = args.x.dims[0], width = args.x.dims[1];
  const Values x = sum_of(args.x, args.residual);
  const Values gamma = load(args.gamma), beta = load(args.beta);
  Values y(x.size()), means(static_cast<std::size_t>(rows)), rstds(means.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    const double* row = x.data() + i * width;
    double mean = 0, variance = 0;
    for (std::int64_t j = 0; j < width; ++j) mean += row[j];
    mean /= width;
    for (std::int64_t j = 0; j < width; ++j) variance += (row[j] - mean) * (row[j] - mean);
    variance /= width;
    const double rstd = 1 / std::sqrt(variance + args.epsilon);
    for (std::int64_t j = 0; j < width; ++j) y[i * width + j] = (row[j] - mean) * rstd * gamma[j] + beta[j];
    means[i] = mean;
    rstds[i] = rstd;
  }
  if (args.residual) store(args.sum, x);
  store(args.y, y);
  store(args.mean, means);
  store(args.rstd, rstds);
}

void ReferenceDevice::do_layer_norm_backward(Stream&, const LayerNormBackward& args) {
  const std::int64_t rows = args.x.dims[0], width = args.x.dims[1];
  const Values x = load(args.x), dy = load(args.dy), gamma = load(args.gamma), mean = load(args.mean),
               rstd = load(args.rstd);
  Values dx = args.d_residual ? load(args.d_residual) : Values(x.size(), 0.0);
  Values d_gamma(gamma.size(), 0.0), d_beta(gamma.size(), 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    double sum_g = 0, sum_gx = 0;
    for (std::int64_t j = 0; j < width; ++j) {
      const double normal = (x[i * width + j] - mean[i]) * rstd[i], d = dy[i * width + j];
      sum_g += d * gamma[j];
      sum_gx += d * gamma[j] * normal;
      d_gamma[j] += d * normal;
      d_beta[j] += d;
    }
    for (std::int64_t j = 0; j < width; ++j) {
      const double normal = (x[i * width + j] - mean[i]) * rstd[i];
      dx[i * width + j] += rstd[i] * (dy[i * width + j] * gamma[j] - sum_g / width - normal * sum_gx / width);
    }
  }
  store(args.dx, dx);
  store_gradient(args.d_gamma, d_gamma, args.accumulate);
  store_gradient(args.d_beta, d_beta, args.accumulate);
}

void ReferenceDevice::do_rms_norm_forward(Stream&, const RmsNormForward& args) {
  const std::int64_t rows = args.x.dims[0], width = args.x.dims[1];
  const Values x = sum_of(args.x, args.residual);
  const Values gamma = load(args.gamma);
  Values y(x.size()), rstds(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) {
    const double* row = x.data() + i * width;
    double squares = 0;
    for (std::int64_t j = 0; j < width; ++j) squares += row[j] * row[j];
    rstds[i] = formula::rms_norm_rstd<double>(squares / width, args.epsilon);
    for (std::int64_t j = 0; j < width; ++j) y[i * width + j] = row[j] * rstds[i] * gamma[j];
  }
  if (args.residual) store(args.sum, x);
  store(args.y, y);
  store(args.rstd, rstds);
}

void ReferenceDevice::do_rms_norm_backward(Stream&, const RmsNormBackward& args) {
  const std::int64_t rows = args.x.dims[0], width = args.x.dims[1];
  const Values x = load(args.x), dy = load(args.dy), gamma = load(args.gamma), rstd = load(args.rstd);
  Values dx = args.d_residual ? load(args.d_residual) : Values(x.size(), 0.0);
  Values d_gamma(gamma.size(), 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < width; ++j) {
      const double normal = x[i * width + j] * rstd[i], d = dy[i * width + j];
      sum += d * gamma[j] * normal;
      d_gamma[j] += d * normal;
    }
    for (std::int64_t j = 0; j < width; ++j) {
      const double normal = x[i * width + j] * rstd[i];
      dx[i * width + j] += formula::rms_norm_gradient(dy[i * width + j] * gamma[j], normal, sum / width, rstd[i]);
    }
  }
  store(args.dx, dx);
  store_gradient(args.d_gamma, d_gamma, args.accumulate);
}

void ReferenceDevice::do_batch_norm_forward(Stream&, const BatchNormForward& args) {
  const std::int64_t channels = args.x.dims[3], n = args.x.count() / channels;
  const Values x = load(args.x), gamma = load(args.gamma), beta = load(args.beta);
  const Values residual = args.residual ? load(args.residual) : Values();
  Values mean(static_cast<std::size_t>(channels), 0.0), variance(mean.size(), 0.0), rstd(mean.size());
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) mean[c] += x[i * channels + c];
  }
  for (double& value : mean) value /= n;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double centred = x[i * channels + c] - mean[c];
      variance[c] += centred * centred;
    }
  }
  for (double& value : variance) value /= n;
  for (std::int64_t c = 0; c < channels; ++c) rstd[c] = 1 / std::sqrt(variance[c] + args.epsilon);
  store(args.mean, mean);
  store(args.rstd, rstd);
  Values y = normalised(x, load(args.mean), load(args.rstd), gamma, beta);
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (args.residual) y[i] += residual[i];
    if (args.relu && y[i] < 0) y[i] = 0;  // NaN stays NaN
  }
  if (args.running_mean) {
    Values running_mean = load(args.running_mean), running_var = load(args.running_var);
    for (std::int64_t c = 0; c < channels; ++c) {
      const double unbiased = variance[c] * n / (n - 1);
      running_mean[c] += args.momentum * (mean[c] - running_mean[c]);
      running_var[c] += args.momentum * (unbiased - running_var[c]);
    }
    store(args.running_mean, running_mean);
    store(args.running_var, running_var);
  }
  store(args.y, y);
}

void ReferenceDevice::do_batch_norm_backward(Stream&, const BatchNormBackward& args) {
  const std::int64_t channels = args.x.dims[3], n = args.x.count() / channels;
  const Values x = load(args.x), gamma = load(args.gamma), mean = load(args.mean), rstd = load(args.rstd);
  Values dy = sum_of(args.dy, args.dy_more);
  if (args.relu) {
    Values y = args.y ? load(args.y) : normalised(x, mean, rstd, gamma, load(args.beta));
    round_to(args.x.dtype, y);
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
  }
  Values d_gamma(gamma.size(), 0.0), d_beta(gamma.size(), 0.0), dx(x.size());
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t at = i * channels + c;
      d_gamma[c] += dy[at] * (x[at] - mean[c]) * rstd[c];
      d_beta[c] += dy[at];
    }
  }
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::int64_t at = i * channels + c;
      const double normal = (x[at] - mean[c]) * rstd[c];
      dx[at] = gamma[c] * rstd[c] * (dy[at] - d_beta[c] / n - normal * d_gamma[c] / n);
    }
  }
  if (args.d_residual) store(args.d_residual, dy);
  store(args.dx, dx);
  store_gradient(args.d_gamma, d_gamma, args.accumulate);
  store_gradient(args.d_beta, d_beta, args.accumulate);
}

}  // namespace tw::models::reference
