#include "models/layers/convolution_norm.hpp"

#include "models/compute/error.hpp"

namespace tw::models {

ConvolutionNorm::ConvolutionNorm(const ConvolutionShape& shape, std::string convolution_name, std::string norm_name,
                                 Initialiser initialiser, BatchNormSettings settings)
    : shape_(shape),
      convolution_name_(std::move(convolution_name)),
      norm_name_(std::move(norm_name)),
      initialiser_(initialiser),
      settings_(settings) {
  if (shape.batch == 1 && shape.out_height() == 1 && shape.out_width() == 1) {
    throw Error(Failure::usage, norm_name_ +
                                    ": batch norm over 1x1 maps needs at least 2 images in a micro-batch, not 1; "
                                    "take --micro-batch 2 or more");
  }
}

std::vector<ParameterSpec> ConvolutionNorm::parameters() const {
  return {
      {convolution_name_ + ".weight", shape_.weight(), initialiser_, true, false, ParameterSpec::Export::nhwc_to_nchw},
      per_channel(".weight", 1),
      per_channel(".bias", 0)};
}

std::vector<ParameterSpec> ConvolutionNorm::statistics() const {
  return {per_channel(".running_mean", 0), per_channel(".running_var", 1)};
}

std::vector<ActivationSpec> ConvolutionNorm::saved() const {
  return {{convolution_name_, output(), shape_.dtype},
          {norm_name_ + ".mean", {shape_.out_channels}, DType::float32},
          {norm_name_ + ".rstd", {shape_.out_channels}, DType::float32}};
}

void ConvolutionNorm::build(Device& device, const std::vector<Parameter>& own, std::size_t first_parameter,
                            const std::vector<Tensor>& statistics, std::size_t first_statistic) {
  device_ = &device;
  kernel_ = own[first_parameter];
  gamma_ = own[first_parameter + 1];
  beta_ = own[first_parameter + 2];
  running_mean_ = statistics[first_statistic];
  running_var_ = statistics[first_statistic + 1];
  plan_ = device.plan(shape_);
  plan_->bind(kernel_.weight);
}

void ConvolutionNorm::forward(BlockRun& run, const Tensor* saved, const Tensor& x, const Tensor& residual, bool relu,
                              const Tensor& y) {
  plan_->forward(run.stream, {x, saved[0]});
  const Tensor none;
  const Tensor &mean = run.update_statistics ? running_mean_ : none,
               &variance = run.update_statistics ? running_var_ : none;
  device_->batch_norm_forward(run.stream, {saved[0], gamma_.weight, beta_.weight, mean, variance, settings_.momentum,
                                           settings_.epsilon, residual, relu, y, saved[1], saved[2]});
}

void ConvolutionNorm::norm_backward(BlockRun& run, const Tensor* saved, bool relu, const Tensor& dy,
                                    const Residual& residual) {
  device_->batch_norm_backward(run.stream, {.dy = dy,
                                            .dy_more = residual.dy_more,
                                            .x = saved[0],
                                            .y = residual.y,
                                            .gamma = gamma_.weight,
                                            .beta = beta_.weight,
                                            .mean = saved[1],
                                            .rstd = saved[2],
                                            .relu = relu,
                                            .dx = dy,
                                            .d_residual = residual.d_residual,
                                            .d_gamma = gamma_.gradient,
                                            .d_beta = beta_.gradient,
                                            .accumulate = run.accumulate});
}

void ConvolutionNorm::convolution_backward(BlockRun& run, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  plan_->backward_weights(run.stream, {x, dy, kernel_.gradient, run.accumulate});
  if (dx) plan_->backward_input(run.stream, {dy, dx});
}

ParameterSpec ConvolutionNorm::per_channel(const char* suffix, float value) const {
  return {norm_name_ + suffix, {shape_.out_channels}, constant(value), false, true, ParameterSpec::Export::as_is};
}

}  // namespace tw::models
