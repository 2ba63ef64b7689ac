// ResNet v1.5 (He et al., arXiv 1512.03385; stride in the 3×3 of a bottleneck): stem, bottlenecks, head. Names are
// torchvision's. Convolutions start as normal(0, sqrt(2 / (out·k²))) (He et al., arXiv 1502.01852, fan-out, as
// torchvision), batch norms at 1 and 0, the last of a bottleneck included (torchvision's default
// zero_init_residual=False), the classifier as normal(0, 0.01) with bias 0 (Goyal et al., arXiv 1706.02677, §5.1).
// Weight decay on convolutions and the classifier's weight only (§5.1 there exempts batch norm; biases likewise). Batch
// norm keeps float32 parameters and runs on the statistics of the micro-batch, in evaluation too.
#include <cmath>

#include "models/compute/error.hpp"
#include "models/families/build_blocks.hpp"
#include "models/families/resnet/description.hpp"
#include "models/layers/blocks.hpp"

namespace tw::models::family::resnet {
namespace {

// A convolution and the batch norm behind it. Parameters: kernel, gamma, beta. Statistics: running mean and variance.
// Saved: the convolution's output, mean, rstd.
class ConvolutionNorm {
 public:
  ConvolutionNorm(ConvolutionShape shape, std::string convolution_name, std::string norm_name)
      : shape_(shape), convolution_name_(std::move(convolution_name)), norm_name_(std::move(norm_name)) {}

  Dims output() const { return {shape_.batch, shape_.out_height(), shape_.out_width(), shape_.out_channels}; }
  void add_parameters(std::vector<ParameterSpec>& specs) const {
    const double fan_out = static_cast<double>(shape_.out_channels) * shape_.kernel * shape_.kernel;
    specs.push_back({convolution_name_ + ".weight",
                     {shape_.out_channels, shape_.kernel, shape_.kernel, shape_.in_channels},
                     normal(std::sqrt(2.0 / fan_out)),
                     true,
                     false,
                     ParameterSpec::Export::nhwc_to_nchw});
    specs.push_back(per_channel(".weight", 1));
    specs.push_back(per_channel(".bias", 0));
  }
  void add_statistics(std::vector<ParameterSpec>& specs) const {
    specs.push_back(per_channel(".running_mean", 0));
    specs.push_back(per_channel(".running_var", 1));
  }
  void add_saved(std::vector<ActivationSpec>& specs) const {
    specs.push_back({convolution_name_, output(), shape_.dtype});
    specs.push_back({norm_name_ + ".mean", {shape_.out_channels}, DType::float32});
    specs.push_back({norm_name_ + ".rstd", {shape_.out_channels}, DType::float32});
  }
  void build(Device& device, const std::vector<Parameter>& own, std::size_t first_parameter,
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
  NamedPlan plan() const { return {"convolution", plan_}; }

  // `saved` points at the three tensors of add_saved.
  void forward(BlockRun& run, const Tensor* saved, const Tensor& x, const Tensor& residual, bool relu,
               const Tensor& y) {
    plan_->forward(run.stream, {x, saved[0]});
    BatchNormForward args;
    args.x = saved[0];
    args.gamma = gamma_.weight;
    args.beta = beta_.weight;
    if (run.update_statistics) {
      args.running_mean = running_mean_;
      args.running_var = running_var_;
    }
    args.momentum = norm_momentum;
    args.epsilon = norm_epsilon;
    args.residual = residual;
    args.relu = relu;
    args.y = y;
    args.mean = saved[1];
    args.rstd = saved[2];
    device_->batch_norm_forward(run.stream, args);
  }
  // dy becomes the gradient of the convolution's output, in place. y only where relu.
  void norm_backward(BlockRun& run, const Tensor* saved, const Tensor& y, const Tensor& dy, const Tensor& d_residual) {
    BatchNormBackward args;
    args.dy = dy;
    args.x = saved[0];
    args.y = y;
    args.gamma = gamma_.weight;
    args.mean = saved[1];
    args.rstd = saved[2];
    args.relu = static_cast<bool>(y);
    args.dx = dy;
    args.d_residual = d_residual;
    args.d_gamma = gamma_.gradient;
    args.d_beta = beta_.gradient;
    args.accumulate = run.accumulate;
    device_->batch_norm_backward(run.stream, args);
  }
  // dx is absent for the first layer.
  void convolution_backward(BlockRun& run, const Tensor& x, const Tensor& dy, const Tensor& dx) {
    plan_->backward_weights(run.stream, {x, dy, kernel_.gradient, run.accumulate});
    if (dx) plan_->backward_input(run.stream, {dy, dx});
  }

 private:
  ParameterSpec per_channel(const char* suffix, float value) const {
    return {norm_name_ + suffix, {shape_.out_channels}, constant(value), false, true, ParameterSpec::Export::as_is};
  }

  ConvolutionShape shape_;
  std::string convolution_name_, norm_name_;
  Device* device_ = nullptr;
  Parameter kernel_, gamma_, beta_;
  Tensor running_mean_, running_var_;
  std::shared_ptr<ConvolutionPlan> plan_;
};

// Convolution, batch norm, ReLU, and 3×3 stride 2 max pool where the network has it.
class Stem final : public Block {
 public:
  Stem(const ConvolutionShape& shape, bool pool) : shape_(shape), layer_(shape, "conv1", "bn1"), pool_(pool) {}
  std::string name() const override { return "stem"; }
  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs;
    layer_.add_parameters(specs);
    return specs;
  }
  std::vector<ParameterSpec> statistics() const override {
    std::vector<ParameterSpec> specs;
    layer_.add_statistics(specs);
    return specs;
  }
  ActivationSpec output() const override { return {"stem", pool_ ? pooled() : layer_.output(), shape_.dtype}; }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs;
    layer_.add_saved(specs);
    if (pool_) {
      specs.push_back({"relu", layer_.output(), shape_.dtype});
      specs.push_back({"argmax", pooled(), DType::int32});
    }
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    return pool_ ? std::vector<ActivationSpec>{{"d_relu", layer_.output(), shape_.dtype}}
                 : std::vector<ActivationSpec>{};
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>& statistics) override {
    device_ = &device;
    layer_.build(device, own, 0, statistics, 0);
  }
  std::vector<NamedPlan> plans() const override { return {layer_.plan()}; }
  void forward(BlockRun& run, Tensor, Tensor y) override {
    const Tensor relu = pool_ ? run.saved[3] : y;
    layer_.forward(run, run.saved.data(), run.tokens_or_images, {}, true, relu);
    if (pool_) device_->max_pool_forward(run.stream, {relu, kernel, stride, padding, y, run.saved[4]});
  }
  void backward(BlockRun& run, Tensor, Tensor y, Tensor dy, Tensor) override {
    Tensor relu = y, d_relu = dy;
    if (pool_) {
      relu = run.saved[3];
      d_relu = run.scratch[0];
      device_->max_pool_backward(run.stream, {dy, run.saved[4], kernel, stride, padding, d_relu});
    }
    layer_.norm_backward(run, run.saved.data(), relu, d_relu, {});
    layer_.convolution_backward(run, run.tokens_or_images, d_relu, {});
    announce(run, 2, 0);
  }

 private:
  static constexpr int kernel = 3, stride = 2, padding = 1;
  Dims pooled() const {
    const auto out = [](std::int64_t in) { return (in + 2 * padding - kernel) / stride + 1; };
    return {shape_.batch, out(shape_.out_height()), out(shape_.out_width()), shape_.out_channels};
  }
  ConvolutionShape shape_;
  ConvolutionNorm layer_;
  bool pool_;
  Device* device_ = nullptr;
};

// y = relu(bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))) + shortcut(x)); 1×1, 3×3 (stride), 1×1 with four times the
// channels; the shortcut is the identity, or a 1×1 convolution and batch norm where the shape changes.
class Bottleneck final : public Block {
 public:
  Bottleneck(const std::string& name, Precision precision, std::int64_t batch, std::int64_t size,
             std::int64_t in_channels, std::int64_t channels, int stride)
      : name_(name),
        dtype_(storage(precision)),
        input_{batch, size, size, in_channels},
        first_({batch, size, size, in_channels, channels, 1, 1, 0, dtype_, math(precision)}, name + ".conv1",
               name + ".bn1"),
        second_({batch, size, size, channels, channels, 3, stride, 1, dtype_, math(precision)}, name + ".conv2",
                name + ".bn2"),
        third_({batch, second_.output()[1], second_.output()[2], channels, expansion * channels, 1, 1, 0, dtype_,
                math(precision)},
               name + ".conv3", name + ".bn3") {
    if (stride != 1 || in_channels != expansion * channels) {
      shortcut_ = std::make_unique<ConvolutionNorm>(
          ConvolutionShape{batch, size, size, in_channels, expansion * channels, 1, stride, 0, dtype_, math(precision)},
          name + ".downsample.0", name + ".downsample.1");
    }
  }
  std::string name() const override { return name_; }
  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs;
    for (const ConvolutionNorm* layer : layers()) layer->add_parameters(specs);
    return specs;
  }
  std::vector<ParameterSpec> statistics() const override {
    std::vector<ParameterSpec> specs;
    for (const ConvolutionNorm* layer : layers()) layer->add_statistics(specs);
    return specs;
  }
  ActivationSpec output() const override { return {name_, third_.output(), dtype_}; }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs;
    for (const ConvolutionNorm* layer : layers()) layer->add_saved(specs);
    specs.insert(specs.begin(), {{"relu1", first_.output(), dtype_}, {"relu2", second_.output(), dtype_}});
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    // forward: the projected shortcut; backward: the gradient of the shortcut, of relu2, and of x through the
    // projection.
    std::vector<ActivationSpec> specs{{"shortcut", third_.output(), dtype_}, {"d_relu2", second_.output(), dtype_}};
    if (shortcut_) specs.push_back({"dx", input_, dtype_});
    return specs;
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>& statistics) override {
    device_ = &device;
    std::size_t index = 0;
    for (ConvolutionNorm* layer : layers()) {
      layer->build(device, own, 3 * index, statistics, 2 * index);
      ++index;
    }
  }
  std::vector<NamedPlan> plans() const override {
    std::vector<NamedPlan> all;
    for (const ConvolutionNorm* layer : layers()) all.push_back(layer->plan());
    return all;
  }
  void forward(BlockRun& run, Tensor x, Tensor y) override {
    const Tensor &relu1 = run.saved[0], &relu2 = run.saved[1];
    const Tensor* saved = run.saved.data() + 2;
    Tensor shortcut = x;
    if (shortcut_) {
      shortcut = run.scratch[0];
      shortcut_->forward(run, saved + 9, x, {}, false, shortcut);
    }
    first_.forward(run, saved, x, {}, true, relu1);
    second_.forward(run, saved + 3, relu1, {}, true, relu2);
    third_.forward(run, saved + 6, relu2, shortcut, true, y);
  }
  void backward(BlockRun& run, Tensor x, Tensor y, Tensor dy, Tensor dx) override {
    const Tensor &relu1 = run.saved[0], &relu2 = run.saved[1];
    const Tensor* saved = run.saved.data() + 2;
    const Tensor &d_shortcut = run.scratch[0], &d_relu2 = run.scratch[1];
    const Tensor dx_other = shortcut_ ? run.scratch[2] : d_shortcut;
    // dy is done with once d_relu2 is there, and large enough: stride² · channels ≤ 4 · channels.
    const Tensor d_relu1 = dy.slice(0, first_.output());
    third_.norm_backward(run, saved + 6, y, dy, d_shortcut);
    if (shortcut_) {
      shortcut_->norm_backward(run, saved + 9, {}, d_shortcut, {});
      shortcut_->convolution_backward(run, x, d_shortcut, dx_other);
      announce(run, 11, 9);
    }
    third_.convolution_backward(run, relu2, dy, d_relu2);
    announce(run, 8, 6);
    second_.norm_backward(run, saved + 3, relu2, d_relu2, {});
    second_.convolution_backward(run, relu1, d_relu2, d_relu1);
    announce(run, 5, 3);
    first_.norm_backward(run, saved, relu1, d_relu1, {});
    first_.convolution_backward(run, x, d_relu1, dx);
    announce(run, 2, 0);
    device_->add(run.stream, {dx, dx_other, dx});
  }

 private:
  std::vector<ConvolutionNorm*> layers() {
    std::vector<ConvolutionNorm*> all{&first_, &second_, &third_};
    if (shortcut_) all.push_back(shortcut_.get());
    return all;
  }
  std::vector<const ConvolutionNorm*> layers() const {
    std::vector<const ConvolutionNorm*> all{&first_, &second_, &third_};
    if (shortcut_) all.push_back(shortcut_.get());
    return all;
  }

  std::string name_;
  DType dtype_;
  Dims input_;
  ConvolutionNorm first_, second_, third_;
  std::unique_ptr<ConvolutionNorm> shortcut_;
  Device* device_ = nullptr;
};

}  // namespace

std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision,
                                           std::int64_t micro_batch, std::int64_t) {
  const ResnetDescription& shape = network.as<ResnetDescription>();
  if (shape.blocks.empty() || shape.stem_width < 1 || shape.image_size < 1 || shape.classes < 2) {
    throw Error(Failure::usage, "this ResNet has no stages, no channels, no pixels or fewer than two classes");
  }
  std::vector<std::unique_ptr<Block>> chain;
  const std::int64_t size = shape.image_size;
  chain.push_back(std::make_unique<Stem>(
      ConvolutionShape{micro_batch, size, size, shape.image_channels, shape.stem_width, shape.stem_kernel,
                       shape.stem_stride, shape.stem_kernel / 2, storage(precision), math(precision)},
      shape.stem_pool));
  std::int64_t channels = shape.stem_width;
  for (std::size_t stage = 0; stage < shape.blocks.size(); ++stage, channels *= 2) {
    for (int index = 0; index < shape.blocks[stage]; ++index) {
      const Dims input = chain.back()->output().dims;
      const int stride = stage > 0 && index == 0 ? 2 : 1;
      chain.push_back(std::make_unique<Bottleneck>("layer" + std::to_string(stage + 1) + "." + std::to_string(index),
                                                   precision, micro_batch, input[1], input[3], channels, stride));
    }
  }
  chain.push_back(pooled_head(chain.back()->output().dims, shape.classes, shape.label_smoothing, precision));
  return chain;
}

}  // namespace tw::models::family::resnet
