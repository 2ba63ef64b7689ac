// Convolutions of the library over NHWC images, with weights packed as it wants them.
#include "models/compute/cpu/context.hpp"
#include "models/compute/error.hpp"

namespace tw::cpu {

namespace {

using dnnl::memory;

class CpuConvolutionPlan final : public ConvolutionPlan {
 public:
  CpuConvolutionPlan(Context& context, const ConvolutionShape& shape)
      : ConvolutionPlan(context.device(), shape), context_(context) {
    const ThreadScope scope(context.threads());
    const auto type = library_type(shape.dtype);
    const memory::desc x = image(shape.in_channels, shape.height, shape.width);
    const memory::desc y = image(shape.out_channels, shape.out_height(), shape.out_width());
    const memory::dims weight_dims{shape.out_channels, shape.in_channels, shape.kernel, shape.kernel};
    const memory::desc any(weight_dims, type, memory::format_tag::any);
    const memory::desc any_gradient(weight_dims, memory::data_type::f32, memory::format_tag::any);
    const memory::desc plain(weight_dims, type, memory::format_tag::ohwi);
    const memory::desc plain_gradient(weight_dims, memory::data_type::f32, memory::format_tag::ohwi);
    const memory::dims strides{shape.stride, shape.stride}, begin{shape.padding, shape.padding};
    const memory::dims end{(shape.out_height() - 1) * shape.stride + shape.kernel - shape.height - shape.padding,
                           (shape.out_width() - 1) * shape.stride + shape.kernel - shape.width - shape.padding};
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const dnnl::engine& engine = context.engine();
    const dnnl::primitive_attr attributes = plan_attributes();

    const auto forward = TW_DNNL(dnnl::convolution_forward::primitive_desc(
        {dnnl::prop_kind::forward_training, algorithm, x, any, y, strides, begin, end}, attributes, engine));
    forward_.call = made(forward, dnnl::convolution_forward(forward),
                         {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, forward.weights_desc()}, {DNNL_ARG_DST, y}});
    take_weight(forward_, plain, forward.weights_desc());

    const auto input = TW_DNNL(dnnl::convolution_backward_data::primitive_desc(
        {algorithm, x, any, y, strides, begin, end}, attributes, engine, forward));
    input_.call = made(input, dnnl::convolution_backward_data(input),
                       {{DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_WEIGHTS, input.weights_desc()}, {DNNL_ARG_DIFF_SRC, x}});
    take_weight(input_, plain, input.weights_desc());

    const auto weights = TW_DNNL(dnnl::convolution_backward_weights::primitive_desc(
        {algorithm, x, any_gradient, y, strides, begin, end}, attributes, engine, forward));
    const memory::desc gradient = weights.diff_weights_desc();
    weights_call_ = made(weights, dnnl::convolution_backward_weights(weights),
                         {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, y}, {DNNL_ARG_DIFF_WEIGHTS, gradient}});
    gradient_is_plain_ = gradient == plain_gradient;
    // The library overwrites and has a layout of its own: into the workspace, then copied or added.
    for (const bool add : {false, true}) {
      unpack_[add] = Reorder(context, gradient, plain_gradient, add);
      context.reserve_scratchpad(unpack_[add].scratchpad_bytes());
    }
    context.reserve_workspace(gradient.get_size());
  }

  std::size_t bytes() const override { return forward_.weight.bytes() + input_.weight.bytes(); }
  std::string description() const override { return description_; }

 protected:
  void do_refresh(Stream&) override {
    const ThreadScope scope(context_.threads());
    for (WithWeight* product : {&forward_, &input_}) {
      if (product->weight) product->pack.run(context_, weight().data, product->weight.data());
    }
  }
  void do_forward(Stream&, const ConvolutionForward& args) override {
    const ThreadScope scope(context_.threads());
    forward_.call.run(context_.stream(), context_.scratchpad(), args.x.data, weight_of(forward_), args.y.data);
  }
  void do_backward_input(Stream&, const ConvolutionBackwardInput& args) override {
    const ThreadScope scope(context_.threads());
    input_.call.run(context_.stream(), context_.scratchpad(), args.dy.data, weight_of(input_), args.dx.data);
  }
  void do_backward_weights(Stream&, const ConvolutionBackwardWeights& args) override {
    const ThreadScope scope(context_.threads());
    void* target = gradient_is_plain_ && !args.accumulate ? args.d_weight.data : context_.workspace();
    weights_call_.run(context_.stream(), context_.scratchpad(), args.x.data, args.dy.data, target);
    if (target != args.d_weight.data) {
      unpack_[args.accumulate].run(context_, target, args.d_weight.data);
    }
  }

 private:
  struct WithWeight {
    Call call;
    Reorder pack;
    Buffer weight;  // empty: the plain weight is used as it is
  };

  memory::desc image(Index channels, Index height, Index width) const {
    return memory::desc({shape().batch, channels, height, width}, library_type(shape().dtype),
                        memory::format_tag::nhwc);
  }
  template <class PrimitiveDesc>
  Call made(const PrimitiveDesc& primitive, const dnnl::primitive& implementation,
            std::vector<std::pair<int, memory::desc>> arguments) {
    const std::string name = primitive.impl_info_str();
    description_ += (description_.empty() ? "" : "; ") + name;
    Call call(context_, implementation, primitive.scratchpad_desc(), std::move(arguments));
    context_.reserve_scratchpad(call.scratchpad_bytes());
    return call;
  }
  void take_weight(WithWeight& product, const memory::desc& plain, const memory::desc& layout) {
    if (layout == plain) return;
    product.pack = Reorder(context_, plain, layout);
    context_.reserve_scratchpad(product.pack.scratchpad_bytes());
    product.weight = Buffer(context_.device(), layout.get_size());
  }
  const void* weight_of(const WithWeight& product) const {
    return product.weight ? product.weight.data() : weight().data;
  }

  Context& context_;
  WithWeight forward_, input_;
  Call weights_call_;
  Reorder unpack_[2];
  bool gradient_is_plain_ = false;
  std::string description_;
};

}  // namespace

std::unique_ptr<ConvolutionPlan> make_convolution(Context& context, const ConvolutionShape& shape) {
  return std::make_unique<CpuConvolutionPlan>(context, shape);
}

}  // namespace tw::cpu
