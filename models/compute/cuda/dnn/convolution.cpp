// Convolutions by cuDNN: NHWC, each pass one engine that sums in float32 and, unless the device is free to do
// otherwise, is deterministic.
#include <cuda_runtime_api.h>

#include <algorithm>

#include "models/compute/cuda/dnn/dnn.hpp"
#include "models/compute/cuda/dnn/graphs.hpp"
#include "models/compute/cuda/kernels/check.hpp"
#include "models/compute/cuda/kernels/kernels.hpp"

namespace tw::models::cuda {
namespace {

using dnn::Graph;
using dnn::Runner;

std::string name_of(const ConvolutionShape& s, const char* pass) {
  return std::string(pass) + " " + s.in().str() + " " + s.weight().str() + " stride " + s.stride.str() + " padding " +
         s.padding.str() + " " + std::string(to_string(s.dtype)) + " " + to_string(s.math);
}

class DnnConvolution final : public ConvolutionPlan {
 public:
  DnnConvolution(Context& context, std::shared_ptr<Dnn> dnn, const ConvolutionShape& shape)
      : ConvolutionPlan(context.device(), shape), context_(context), dnn_(std::move(dnn)) {}

  /// False where a pass has no engine. The first layer's backward_input is never asked for: it may be missing.
  bool build(std::string* why) {
    forward_ = find(shape(), Op::convolution_forward, why);
    if (!forward_) return false;
    backward_input_ = find(shape(), Op::convolution_backward_input, &no_backward_input_);
    if (!build_weights(why)) return false;
    std::size_t bytes = weights_bytes();
    for (const Runner* runner : {&forward_, &backward_input_}) {
      if (*runner) bytes = std::max(bytes, runner->plan().workspace_bytes());
    }
    context_.reserve(bytes);
    return true;
  }

  bool has_backward_input() const { return static_cast<bool>(backward_input_); }

  std::string description() const override {
    const char* const ways[] = {"", ", added in float32", ", padded to 8 channels, added in float32",
                                ", widened to float32"};
    return "cuDNN: forward " + forward_.plan().description() + "; backward input " +
           (backward_input_ ? backward_input_.plan().description() : "none") + "; backward weights " +
           weights_.plan().description() + ways[static_cast<int>(way_)];
  }

 protected:
  void do_forward(Stream& on, const ConvolutionForward& args) override {
    run(on, forward_, args.x.data, weight().data, args.y.data);
  }
  void do_backward_input(Stream& on, const ConvolutionBackwardInput& args) override {
    if (!backward_input_) {
      throw Error(Failure::unsupported, "cuDNN has no engine for " + name_of(shape(), "convolution_backward_input") +
                                            ": " + no_backward_input_);
    }
    run(on, backward_input_, args.dx.data, weight().data, args.dy.data);
  }
  void do_backward_weights(Stream& on, const ConvolutionBackwardWeights& args) override {
    context_.use();
    const cudaStream_t stream = stream_of(on);
    char* const workspace = static_cast<char*>(context_.workspace(stream, weights_bytes()));
    char* const scratch = workspace + dnn::aligned(weights_.plan().workspace_bytes());
    if (way_ == Way::added) {
      // Sum and addend are never the same memory: the library does not say that they may be.
      void* const addend = args.accumulate ? args.d_weight.data : scratch;
      void* const sum = args.accumulate ? scratch : args.d_weight.data;
      if (!args.accumulate) TW_CUDA(cudaMemsetAsync(scratch, 0, args.d_weight.bytes(), stream));
      weights_.run(
          stream,
          {{dnn::uid_x, args.x.data}, {dnn::uid_y, args.dy.data}, {dnn::uid_addend, addend}, {dnn::uid_sum, sum}},
          workspace);
      if (args.accumulate) {
        TW_CUDA(cudaMemcpyAsync(args.d_weight.data, scratch, args.d_weight.bytes(), cudaMemcpyDeviceToDevice, stream));
      }
      return;
    }
    if (way_ == Way::padded) {
      const Tensor sum{scratch, DType::float32, part_.weight()};
      const Tensor addend{scratch + dnn::aligned(sum.bytes()), DType::float32, part_.weight()};
      const Tensor x{static_cast<char*>(addend.data) + dnn::aligned(addend.bytes()), part_.dtype, part_.in()};
      const std::int64_t channels = shape().in_channels;
      pad_channels(stream, x.dtype, args.x.data, x.count() / part_.in_channels, channels, x.data);
      TW_CUDA(cudaMemsetAsync(addend.data, 0, addend.bytes(), stream));
      if (args.accumulate) copy_channels(stream, {args.d_weight, addend, 0, 0, channels});
      weights_.run(
          stream,
          {{dnn::uid_x, x.data}, {dnn::uid_y, args.dy.data}, {dnn::uid_addend, addend.data}, {dnn::uid_sum, sum.data}},
          workspace);
      copy_channels(stream, {sum, args.d_weight, 0, 0, channels});
      return;
    }
    if (!args.accumulate) TW_CUDA(cudaMemsetAsync(args.d_weight.data, 0, args.d_weight.bytes(), stream));
    const auto add = [&](void* x, void* dy) {
      weights_.run(stream, {{dnn::uid_x, x}, {dnn::uid_w, args.d_weight.data}, {dnn::uid_y, dy}}, workspace);
    };
    if (way_ == Way::direct) return add(args.x.data, args.dy.data);
    const Tensor x{scratch, DType::float32, part_.in()};
    const Tensor dy{scratch + dnn::aligned(x.bytes()), DType::float32, part_.out()};
    for (std::int64_t image = 0; image < shape().batch; image += part_.batch) {
      const std::int64_t part = image / part_.batch;
      cast(stream, {.x = args.x.slice(part * x.count(), x.dims), .y = x});
      cast(stream, {.x = args.dy.slice(part * dy.count(), dy.dims), .y = dy});
      add(x.data, dy.data);
    }
  }

 private:
  /// How a float32 gradient of the weights comes about: the operation adds it to what is there (float32); an operation
  /// behind it adds (16 bits), for images of few channels with zeros as further ones; or 16-bit inputs are first made
  /// float32, which TF32 then holds exactly. A 16-bit gradient, for which the library has engines of its own, is no
  /// candidate: gradients are float32 in every precision, and which of two roundings a step has must not depend on
  /// which was faster.
  enum class Way { direct, added, padded, widened };
  /// For the operation behind it the library has only engines that it compiles, in 7 to 15 configurations.
  static constexpr int most_compiled_weights = 2;

  Runner find(const ConvolutionShape& s, Op pass, std::string* why) {
    return Runner(dnn::find_measured(
        context_, *dnn_, name_of(s, to_string(pass)), dnn::convolution_graph(*dnn_->target, s, pass), wish(s),
        {{dnn::uid_x, s.in(), s.dtype}, {dnn::uid_w, s.weight(), s.dtype}, {dnn::uid_y, s.out(), s.dtype}}, {}, why));
  }
  Runner find_added(const ConvolutionShape& s) {
    std::string why;
    return Runner(dnn::find_measured(context_, *dnn_, name_of(s, "convolution_backward_weights, added"),
                                     dnn::added_weights_graph(*dnn_->target, s), wish(s, most_compiled_weights),
                                     {{dnn::uid_x, s.in(), s.dtype},
                                      {dnn::uid_y, s.out(), s.dtype},
                                      {dnn::uid_addend, s.weight(), DType::float32},
                                      {dnn::uid_sum, s.weight(), DType::float32}},
                                     {}, &why));
  }
  dnn::Wish wish(const ConvolutionShape& s, int most_compiled = 1) const {
    dnn::Demands demands = dnn::demands_of(s);
    demands.deterministic = context_.deterministic();
    return {.demands = demands, .most_compiled = most_compiled};
  }

  bool build_weights(std::string* why) {
    const ConvolutionShape& s = shape();
    if (!is_half(s.dtype)) {
      weights_ = find(s, Op::convolution_backward_weights, why);
      return static_cast<bool>(weights_);
    }
    way_ = Way::added;
    if ((weights_ = find_added(s))) return true;
    if (const std::optional<ConvolutionShape> padded = dnn::padded_part(s)) {
      way_ = Way::padded;
      part_ = *padded;
      if ((weights_ = find_added(part_))) return true;
    }
    way_ = Way::widened;
    part_ = dnn::widened_part(s);
    weights_ = find(part_, Op::convolution_backward_weights, why);
    return static_cast<bool>(weights_);
  }
  std::size_t scratch_bytes() const {
    const auto float32_bytes = [](const Dims& dims) {
      return dnn::aligned(static_cast<std::size_t>(dims.count()) * sizeof(float));
    };
    switch (way_) {
      case Way::direct:
        return 0;
      case Way::added:
        return float32_bytes(shape().weight());
      case Way::padded:
        return 2 * float32_bytes(part_.weight()) + Tensor{nullptr, part_.dtype, part_.in()}.bytes();
      case Way::widened:
        return dnn::widened_bytes(part_);
    }
    return 0;
  }
  /// The library's workspace, and behind it our scratch.
  std::size_t weights_bytes() const { return dnn::aligned(weights_.plan().workspace_bytes()) + scratch_bytes(); }

  void run(Stream& on, Runner& runner, void* x, void* w, void* y) {
    context_.use();
    const cudaStream_t stream = stream_of(on);
    void* const workspace = context_.workspace(stream, runner.plan().workspace_bytes());
    runner.run(stream, {{dnn::uid_x, x}, {dnn::uid_w, w}, {dnn::uid_y, y}}, workspace);
  }

  Context& context_;
  std::shared_ptr<Dnn> dnn_;  // outlives the runners
  Runner forward_, backward_input_, weights_;
  std::string no_backward_input_;
  Way way_ = Way::direct;
  ConvolutionShape part_;  // padded: with further channels; widened: so many images at once
};

}  // namespace

std::unique_ptr<ConvolutionPlan> make_dnn_convolution(Context& context, const ConvolutionShape& shape,
                                                      std::string* why) {
  if (shape.math == Math::fp8) {
    *why = "convolutions have no fp8";
    return nullptr;
  }
  std::shared_ptr<Dnn> dnn = dnn::open(context, why);
  if (!dnn) return nullptr;
  auto plan = std::make_unique<DnnConvolution>(context, std::move(dnn), shape);
  if (!plan->build(why)) return nullptr;
  return plan;
}

std::vector<LibraryProduct> dnn_products(Context& context, const ConvolutionShape& shape, Op pass) {
  std::string why;
  const std::shared_ptr<ConvolutionPlan> plan = make_dnn_convolution(context, shape, &why);
  if (!plan) return {};
  if (pass == Op::convolution_backward_input && !static_cast<DnnConvolution&>(*plan).has_backward_input()) return {};
  const Tensor in{nullptr, shape.dtype, shape.in()}, out{nullptr, shape.dtype, shape.out()},
      kernel{nullptr, pass == Op::convolution_backward_weights ? DType::float32 : shape.dtype, shape.weight()};
  LibraryProduct product;
  product.layout = "plain";
  product.implementation = plan->description();
  product.bytes = {in.bytes(), kernel.bytes(), out.bytes()};
  product.run = [plan, pass, in, kernel, out](Stream& stream, void* x, void* weight, void* y) {
    const Tensor input{x, in.dtype, in.dims}, weights{weight, kernel.dtype, kernel.dims},
        output{y, out.dtype, out.dims};
    if (pass == Op::convolution_backward_weights)
      return plan->backward_weights(stream, {.x = input, .dy = output, .d_weight = weights});
    plan->bind(weights);
    plan->refresh(stream);
    if (pass == Op::convolution_forward) return plan->forward(stream, {.x = input, .y = output});
    plan->backward_input(stream, {.dy = output, .dx = input});
  };
  return {product};
}

}  // namespace tw::models::cuda
