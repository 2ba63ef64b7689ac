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
#include "models/layers/convolution_norm.hpp"

namespace tw::models::family::resnet {
namespace {

ConvolutionNorm convolution_norm(const ConvolutionShape& shape, const std::string& convolution,
                                 const std::string& norm) {
  const auto fan_out = static_cast<double>(shape.out_channels * shape.kernel.area());
  return {shape, convolution, norm, normal(std::sqrt(2.0 / fan_out)), {norm_epsilon, norm_momentum}};
}

// Convolution, batch norm, ReLU, and 3×3 stride 2 max pool where the network has it.
class Stem final : public ConvolutionBlock {
 public:
  Stem(const ConvolutionShape& shape, bool pool) : shape_(shape), pool_(pool) {
    layers_.add(convolution_norm(shape, "conv1", "bn1"));
  }
  std::string name() const override { return "stem"; }
  ActivationSpec output() const override { return {"stem", pool_ ? pooled() : shape_.out(), shape_.dtype}; }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs = layers_.saved();
    if (pool_) {
      specs.push_back({"relu", shape_.out(), shape_.dtype});
      specs.push_back({"argmax", pooled(), DType::int32});
    }
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    return pool_ ? std::vector<ActivationSpec>{{"d_relu", shape_.out(), shape_.dtype}} : std::vector<ActivationSpec>{};
  }
  void forward(BlockRun& run, Tensor, Tensor y) override {
    const Tensor relu = pool_ ? run.saved[3] : y;
    layers_[0].forward(run, run.saved.data(), run.tokens_or_images, {}, true, relu);
    if (pool_) device_->max_pool_forward(run.stream, {relu, kernel, stride, padding, y, run.saved[4]});
  }
  void backward(BlockRun& run, Tensor, Tensor, Tensor dy, Tensor) override {
    Tensor d_relu = dy;
    if (pool_) {
      d_relu = run.scratch[0];
      device_->max_pool_backward(run.stream, {dy, run.saved[4], kernel, stride, padding, d_relu});
    }
    layers_[0].norm_backward(run, run.saved.data(), true, d_relu);
    layers_[0].convolution_backward(run, run.tokens_or_images, d_relu, {});
    announce(run, 2, 0);
  }

 private:
  static constexpr int kernel = pool_kernel, stride = pool_stride, padding = pool_padding;
  Dims pooled() const {
    const auto out = [](std::int64_t in) { return (in + 2 * padding - kernel) / stride + 1; };
    return {shape_.batch, out(shape_.out_height()), out(shape_.out_width()), shape_.out_channels};
  }
  ConvolutionShape shape_;
  bool pool_;
};

// y = relu(bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))) + shortcut(x)); 1×1, 3×3 (stride), 1×1 with four times the
// channels; the shortcut is the identity, or a 1×1 convolution and batch norm where the shape changes.
class Bottleneck final : public ConvolutionBlock {
 public:
  Bottleneck(const std::string& name, Precision precision, std::int64_t batch, std::int64_t size,
             std::int64_t in_channels, std::int64_t channels, int stride)
      : name_(name), dtype_(storage(precision)), input_{batch, size, size, in_channels} {
    const auto add = [&](const Dims& in, std::int64_t out, int kernel, int step, const char* convolution,
                         const char* norm) {
      layers_.add(convolution_norm(
          ConvolutionShape{batch, in[1], in[2], in[3], out, kernel, step, kernel / 2, dtype_, math(precision)},
          name + convolution, name + norm));
      return layers_[layers_.size() - 1].output();
    };
    const Dims narrow = add(input_, channels, 1, 1, ".conv1", ".bn1");
    const Dims strided = add(narrow, channels, 3, stride, ".conv2", ".bn2");
    add(strided, expansion * channels, 1, 1, ".conv3", ".bn3");
    if (stride != 1 || in_channels != expansion * channels)
      add(input_, expansion * channels, 1, stride, ".downsample.0", ".downsample.1");
  }
  std::string name() const override { return name_; }
  ActivationSpec output() const override { return {name_, layers_[third].output(), dtype_}; }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs = layers_.saved();
    specs.insert(specs.begin(),
                 {{"relu1", layers_[first].output(), dtype_}, {"relu2", layers_[second].output(), dtype_}});
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    // forward: the projected shortcut; backward: the gradients of relu2 and of the projected shortcut.
    std::vector<ActivationSpec> specs{{"d_relu2", layers_[second].output(), dtype_}};
    if (has_projection()) specs.push_back({"shortcut", layers_[third].output(), dtype_});
    return specs;
  }
  // dx is that of the convolutions, dx_more that of the shortcut.
  bool leaves_two_gradients() const override { return true; }
  bool takes_two_gradients() const override { return true; }
  void forward(BlockRun& run, Tensor x, Tensor y) override {
    const Tensor &relu1 = run.saved[0], &relu2 = run.saved[1];
    const Tensor* saved = run.saved.data() + 2;
    Tensor shortcut = x;
    if (has_projection()) {
      shortcut = run.scratch[1];
      layers_[projection].forward(run, saved + 9, x, {}, false, shortcut);
    }
    layers_[first].forward(run, saved, x, {}, true, relu1);
    layers_[second].forward(run, saved + 3, relu1, {}, true, relu2);
    layers_[third].forward(run, saved + 6, relu2, shortcut, true, y);
  }
  void backward(BlockRun& run, Tensor x, Tensor y, Tensor dy, Tensor dx) override {
    const Tensor &relu1 = run.saved[0], &relu2 = run.saved[1];
    const Tensor* saved = run.saved.data() + 2;
    const Tensor &d_relu2 = run.scratch[0], &d_shortcut = has_projection() ? run.scratch[1] : run.dx_more;
    // dy is done with once d_relu2 is there, and large enough: stride² · channels ≤ 4 · channels.
    const Tensor d_relu1 = dy.slice(0, layers_[first].output());
    layers_[third].norm_backward(run, saved + 6, true, dy, {y, run.dy_more, d_shortcut});
    if (has_projection()) {
      layers_[projection].norm_backward(run, saved + 9, false, d_shortcut);
      layers_[projection].convolution_backward(run, x, d_shortcut, run.dx_more);
      announce(run, 11, 9);
    }
    layers_[third].convolution_backward(run, relu2, dy, d_relu2);
    announce(run, 8, 6);
    layers_[second].norm_backward(run, saved + 3, true, d_relu2);
    layers_[second].convolution_backward(run, relu1, d_relu2, d_relu1);
    announce(run, 5, 3);
    layers_[first].norm_backward(run, saved, true, d_relu1);
    layers_[first].convolution_backward(run, x, d_relu1, dx);
    announce(run, 2, 0);
  }

 private:
  bool has_projection() const { return layers_.size() > projection; }

  static constexpr std::size_t first = 0, second = 1, third = 2, projection = 3;
  std::string name_;
  DType dtype_;
  Dims input_;
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
