#include "models/families/inception/auxiliary_head.hpp"

namespace tw::models::family::inception {
namespace {

constexpr double convolution_stddev = 0.01, classifier_stddev = 0.001;
constexpr const char* prefix = "AuxLogits.";

PerAxis by_axis(const Product::PerAxis& sizes) { return {sizes.height, sizes.width}; }

}  // namespace

ConvolutionNorm layer_of(const Sizes& sizes, const Unit& unit, const std::string& before, double deviation) {
  ConvolutionShape shape;
  shape.batch = sizes.batch, shape.height = shape.width = unit.size;
  shape.in_channels = unit.in_channels, shape.out_channels = unit.out_channels;
  shape.kernel = by_axis(unit.kernel), shape.stride = by_axis(unit.stride), shape.padding = by_axis(unit.padding);
  shape.dtype = sizes.dtype(), shape.math = math(sizes.precision);
  const std::string name = before + unit.name;
  return {shape, name + ".conv", name + ".bn", normal(deviation), {norm_epsilon, norm_momentum}};
}

AuxiliaryHead::AuxiliaryHead(const Sizes& sizes, const Auxiliary& auxiliary, const InceptionDescription& d)
    : sizes_(sizes), units_(auxiliary.units) {
  classifier_shape_ = {sizes.batch,       units_[1].out_channels, d.classes,
                       d.label_smoothing, sizes.dtype(),          math_beside_linear(sizes.precision),
                       d.auxiliary_weight};
  layers_.add(layer_of(sizes, units_[0], prefix));
  layers_.add(layer_of(sizes, units_[1], prefix, convolution_stddev));
}

std::vector<ParameterSpec> AuxiliaryHead::parameters() const {
  std::vector<ParameterSpec> specs = layers_.parameters();
  const std::string fc = std::string(prefix) + "fc";
  specs.push_back(of_head(
      matrix(fc + ".weight", {classifier_shape_.classes, classifier_shape_.in_features}, classifier_stddev)));
  specs.push_back(vector_of(fc + ".bias", classifier_shape_.classes, 0));
  return specs;
}

std::vector<ActivationSpec> AuxiliaryHead::saved() const {
  std::vector<ActivationSpec> specs = layers_.saved();
  append(specs, {{"auxiliary_pooled", windows(), sizes_.dtype()},
                 {"relu.AuxLogits.conv0", layers_[0].output(), sizes_.dtype()},
                 {"relu.AuxLogits.conv1", layers_[1].output(), sizes_.dtype()},
                 {"auxiliary_features", features(), sizes_.dtype()}});
  return specs;
}

std::vector<ActivationSpec> AuxiliaryHead::scratch() const {
  return {{"auxiliary_loss", {1}, DType::float32},
          {"d_auxiliary_pooled", windows(), sizes_.dtype()},
          {"d_conv0", layers_[0].output(), sizes_.dtype()},
          {"d_conv1", layers_[1].output(), sizes_.dtype()},
          {"d_auxiliary_features", features(), sizes_.dtype()}};
}

void AuxiliaryHead::build(Device& device, const std::vector<Parameter>& own, std::size_t first_parameter,
                          const std::vector<Tensor>& statistics, std::size_t first_statistic) {
  device_ = &device;
  first_parameter_ = first_parameter;
  layers_.build(device, own, first_parameter, statistics, first_statistic);
  weight_ = own[own.size() - 2];
  bias_ = own[own.size() - 1];
  ClassifierShape shape = classifier_shape_;
  shape.reserved_classes = weight_.spec.reserved_rows;
  classifier_ = device.plan(shape);
  classifier_->bind(weight_.weight);
}

void AuxiliaryHead::add_plans(std::vector<NamedPlan>& plans) const {
  layers_.add_plans(plans);
  plans.push_back({"classifier", classifier_});
}

void AuxiliaryHead::forward(BlockRun& run, const Tensor* saved, const Tensor& x) {
  const Saved s = saved_of(saved);
  device_->average_pool_forward(run.stream, {x, s.pooled, auxiliary_pool_kernel, auxiliary_pool_stride, 0});
  layers_[0].forward(run, saved, s.pooled, {}, true, s.relu0);
  layers_[1].forward(run, ConvolutionNorms::saved_of(saved, 1), s.relu0, {}, true, s.relu1);
  device_->average_pool_forward(run.stream, {s.relu1, s.features});
  if (!run.backward_follows) classify(run, s.features, {}, run.loss);  // the head behind adds its own
}

void AuxiliaryHead::backward(BlockRun& run, const Tensor* saved, const Tensor* scratch, GradientSum& dx) {
  const Saved s = saved_of(saved);
  const Tensor &loss = scratch[0], &d_pooled = scratch[1], &d_relu0 = scratch[2], &d_relu1 = scratch[3],
               &d_features = scratch[4];
  classify(run, s.features, d_features, loss);
  device_->add(run.stream, {run.loss, loss, run.loss});
  const int fc = static_cast<int>(first_parameter_ + layers_.size() * ConvolutionNorm::parameter_count);
  announce(run, fc + 1, fc);
  device_->average_pool_backward(run.stream, {d_features, d_relu1});
  layers_[1].norm_backward(run, ConvolutionNorms::saved_of(saved, 1), true, d_relu1);
  layers_[1].convolution_backward(run, s.relu0, d_relu1, d_relu0);
  ConvolutionNorms::announce_layer(run, 1, first_parameter_);
  layers_[0].norm_backward(run, saved, true, d_relu0);
  layers_[0].convolution_backward(run, s.pooled, d_relu0, d_pooled);
  ConvolutionNorms::announce_layer(run, 0, first_parameter_);
  dx.add(run, [&](const Tensor& target) {
    device_->average_pool_backward(run.stream, {d_pooled, target, auxiliary_pool_kernel, auxiliary_pool_stride, 0});
  });
}

void AuxiliaryHead::classify(BlockRun& run, const Tensor& features, const Tensor& d_features, const Tensor& loss) {
  tw::models::classify(run, *classifier_, features, bias_.weight, {d_features, weight_.gradient, bias_.gradient},
                       {run.targets, loss, {}});
}

AuxiliaryHead::Saved AuxiliaryHead::saved_of(const Tensor* saved) const {
  const Tensor* own = saved + layers_.saved_count();
  return {own[0], own[1], own[2], own[3]};
}

Dims AuxiliaryHead::windows() const { return {sizes_.batch, units_[0].size, units_[0].size, units_[0].in_channels}; }
Dims AuxiliaryHead::features() const { return {sizes_.batch, classifier_shape_.in_features}; }

}  // namespace tw::models::family::inception
