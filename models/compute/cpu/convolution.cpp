// Convolutions over NHWC images: each pass by the library's convolution, with weights packed as it wants them, or as a
// product of rows, one for each output position, where that measures faster.
#include <algorithm>

#include "models/compute/cpu/convolution.hpp"
#include "models/compute/cpu/products.hpp"

namespace tw::models::cpu {

namespace {

using dnnl::memory;

/// As its own convolution; a 1×1 one has no faster primitive for its backward passes (oneDNN 2.6).
class LibraryPass final : public ConvolutionPass {
 public:
  LibraryPass(Context& context, const ConvolutionShape& shape, Op pass) : context_(context), pass_(pass) {
    const ThreadScope scope(context.threads());
    const memory::dims weight_dims = convolution_weight(shape);
    const memory::desc plain(weight_dims, library_type(shape.dtype), plain_weight(shape));
    onednn::ConvolutionLayouts layouts = convolution_layouts(shape, memory::format_tag::nhwc);
    const dnnl::engine& engine = context.engine();
    const dnnl::primitive_attr attributes = plan_attributes(shape.math);

    const auto forward = TW_DNNL(onednn::convolution_forward(engine, layouts, attributes));
    if (pass == Op::convolution_forward) {
      take(forward, dnnl::convolution_forward(forward),
           {{DNNL_ARG_SRC, layouts.x}, {DNNL_ARG_WEIGHTS, forward.weights_desc()}, {DNNL_ARG_DST, layouts.y}});
      take_weight(plain, forward.weights_desc());
    } else if (pass == Op::convolution_backward_input) {
      using Input = dnnl::convolution_backward_data;
      const auto input = TW_DNNL(onednn::convolution_backward<Input>(engine, layouts, forward, attributes));
      take(input, Input(input),
           {{DNNL_ARG_DIFF_SRC, layouts.x}, {DNNL_ARG_WEIGHTS, input.weights_desc()}, {DNNL_ARG_DIFF_DST, layouts.y}});
      take_weight(plain, input.weights_desc());
    } else {
      using Weights = dnnl::convolution_backward_weights;
      layouts.weight = memory::desc(weight_dims, memory::data_type::f32, memory::format_tag::any);
      const memory::desc plain_gradient(weight_dims, memory::data_type::f32, plain_weight(shape));
      const auto weights = TW_DNNL(onednn::convolution_backward<Weights>(engine, layouts, forward, attributes));
      const memory::desc gradient = weights.diff_weights_desc();
      take(weights, Weights(weights),
           {{DNNL_ARG_SRC, layouts.x}, {DNNL_ARG_DIFF_WEIGHTS, gradient}, {DNNL_ARG_DIFF_DST, layouts.y}});
      gradient_is_plain_ = gradient == plain_gradient;
      // The library overwrites and has a layout of its own: into the workspace, then copied or added.
      for (const bool add : {false, true}) {
        unpack_[add] = Reorder(context, gradient, plain_gradient, add);
        context.reserve_scratchpad(unpack_[add].scratchpad_bytes());
      }
      context.reserve_workspace(gradient.get_size());
    }
  }

  std::string description() const override { return description_; }
  std::size_t bytes() const override { return packed_weight_.bytes(); }
  void refresh(const void* weight) override {
    if (packed_weight_) pack_.run(context_, weight, packed_weight_.data());
  }
  void run(const Operands& operands) override {
    if (pass_ != Op::convolution_backward_weights) {
      const void* w = packed_weight_ ? packed_weight_.data() : operands.weight;
      call_.run(context_.stream(), context_.scratchpad(), operands.x, w, operands.y);
      return;
    }
    void* target = gradient_is_plain_ && !operands.accumulate ? operands.d_weight : context_.workspace();
    call_.run(context_.stream(), context_.scratchpad(), operands.x, target, operands.y);
    if (target != operands.d_weight) unpack_[operands.accumulate].run(context_, target, operands.d_weight);
  }

 private:
  template <class PrimitiveDesc>
  void take(const PrimitiveDesc& primitive, const dnnl::primitive& implementation,
            std::vector<std::pair<int, memory::desc>> arguments) {
    description_ = primitive.impl_info_str();
    call_ = Call(context_, implementation, primitive.scratchpad_desc(), std::move(arguments));
    context_.reserve_scratchpad(call_.scratchpad_bytes());
  }
  void take_weight(const memory::desc& plain, const memory::desc& layout) {
    if (layout == plain) return;
    pack_ = Reorder(context_, plain, layout);
    context_.reserve_scratchpad(pack_.scratchpad_bytes());
    packed_weight_ = Buffer(context_.device(), layout.get_size());
  }

  Context& context_;
  Op pass_;
  Call call_;
  Reorder pack_;
  Buffer packed_weight_;  // empty: the plain weight is used as it is
  Reorder unpack_[2];
  bool gradient_is_plain_ = false;
  std::string description_;
};

/// As a product of rows. They are the image itself where the kernel is one pixel, the stride 1 and nothing padded; else
/// they are gathered.
class ProductPass final : public ConvolutionPass {
 public:
  ProductPass(Context& context, const ConvolutionShape& shape, Op pass)
      : context_(context),
        shape_(shape),
        pass_(pass),
        gathers_(shape.kernel != 1 || shape.stride != 1 || shape.padding != 0) {
    const DType type = shape.dtype;
    const Index in = patch(shape), out = shape.out_channels, rows = rows_of(shape);
    const std::string name = to_string(pass) + std::string(gathers_ ? ", gathered" : "");
    if (pass == Op::convolution_backward_weights) {
      GradientProduct::Shape wanted{type, rows, in, out, shape.math};
      if (gathers_) {
        wanted.gather = [this](int threads, const void* x, Index first, Index count, void* to) {
          context_.kernels().gather_patches(threads, shape_, x, first, count, to);
        };
        wanted.source = shape.batch * shape.height * shape.width * shape.in_channels;
      }
      gradient_ = make_gradient_product(context, name, wanted);
      return;
    }
    const bool forward = pass == Op::convolution_forward;
    product_ =
        WeightProduct(context, name,
                      {type, rows, forward ? in : out, forward ? out : in,
                       forward ? transposed_matrix(type, in, out) : matrix(type, out, in), false, false, shape.math});
    if (gathers_) context.reserve_workspace(static_cast<std::size_t>(rows * in) * size_of(type));
  }

  std::string description() const override {
    return std::string("product of rows, ") + (gradient_ ? gradient_->description() : product_.description());
  }
  std::size_t bytes() const override { return product_.bytes(); }
  void refresh(const void* weight) override {
    if (!gradient_) product_.refresh(weight);
  }
  void run(const Operands& operands) override {
    const Kernels& kernels = context_.kernels();
    void* rows = gathers_ ? context_.workspace() : operands.x;
    if (pass_ == Op::convolution_backward_weights) {
      gradient_->run(operands.x, operands.y, operands.d_weight, operands.accumulate);
    } else if (pass_ == Op::convolution_forward) {
      if (gathers_) kernels.gather_patches(context_.threads(), shape_, operands.x, 0, rows_of(shape_), rows);
      product_.run(rows, operands.weight, operands.y);
    } else {
      product_.run(operands.y, operands.weight, rows);
      if (gathers_) kernels.spread_pixels(context_.threads(), shape_, rows, operands.x);
    }
  }

  static Index rows_of(const ConvolutionShape& shape) { return shape.batch * shape.out_height() * shape.out_width(); }
  static Index patch(const ConvolutionShape& shape) { return shape.kernel.area() * shape.in_channels; }

 private:
  Context& context_;
  ConvolutionShape shape_;
  Op pass_;
  bool gathers_;
  WeightProduct product_;
  std::unique_ptr<GradientProduct> gradient_;
};

class CpuConvolutionPlan final : public ConvolutionPlan {
 public:
  CpuConvolutionPlan(Context& context, const ConvolutionShape& shape)
      : ConvolutionPlan(context.device(), shape), context_(context) {
    for (std::size_t i = 0; i < 3; ++i) passes_[i] = fastest_pass(context, shape, ops[i]);
  }

  std::size_t bytes() const override { return passes_[0]->bytes() + passes_[1]->bytes(); }
  std::string description() const override {
    return "forward " + passes_[0]->description() + "; input " + passes_[1]->description() + "; weights " +
           passes_[2]->description();
  }

 protected:
  void do_refresh(Stream&) override {
    const ThreadScope scope(context_.threads());
    for (const auto& pass : passes_) pass->refresh(weight().data);
  }
  void do_forward(Stream&, const ConvolutionForward& args) override {
    run(0, {weight().data, args.x.data, args.y.data});
  }
  void do_backward_input(Stream&, const ConvolutionBackwardInput& args) override {
    run(1, {weight().data, args.dx.data, args.dy.data});
  }
  void do_backward_weights(Stream&, const ConvolutionBackwardWeights& args) override {
    run(2, {nullptr, args.x.data, args.dy.data, args.d_weight.data, args.accumulate});
  }

 private:
  static constexpr std::array<Op, 3> ops = {Op::convolution_forward, Op::convolution_backward_input,
                                            Op::convolution_backward_weights};

  static std::unique_ptr<ConvolutionPass> fastest_pass(Context& context, const ConvolutionShape& shape, Op op) {
    if (!convolves_by_product(shape, op)) return make_convolution_pass(context, shape, op, ConvolutionWay::library);
    // The order of the ways does not change with more images; the time of planning and its memory do.
    // As many as the products are measured with, so that those mostly choose once.
    const Index plane = shape.out_height() * shape.out_width();
    ConvolutionShape some = shape;
    some.batch = std::min((measured_slices_rows + plane - 1) / plane, shape.batch);
    const std::string image = std::string(to_string(op)) + " " + std::to_string(shape.height) + " " +
                              std::to_string(shape.width) + " " + shape.kernel.str() + " " + shape.stride.str() + " " +
                              shape.padding.str();
    const std::string key =
        choice_key(image, ProductPass::rows_of(some), shape.in_channels, shape.out_channels, shape.dtype, shape.math);
    // Where it is fixed: most kernels of one pixel need no gathering.
    const int fixed = static_cast<int>(shape.kernel == 1 ? ConvolutionWay::product : ConvolutionWay::library);
    const int choice = context.fastest(key, fixed, [&] {
      auto x = measured_operand(context, some.batch * some.height * some.width * some.in_channels, some.dtype);
      auto y = measured_operand(context, ProductPass::rows_of(some) * some.out_channels, some.dtype);
      const Index weights = some.out_channels * ProductPass::patch(some);
      auto w = measured_operand(context, weights, some.dtype), dw = measured_operand(context, weights, DType::float32);
      std::vector<std::function<void()>> candidates;
      for (const ConvolutionWay way : {ConvolutionWay::library, ConvolutionWay::product}) {
        std::shared_ptr<ConvolutionPass> made = make_convolution_pass(context, some, op, way);
        {
          const ThreadScope scope(context.threads());
          made->refresh(w->data());
        }
        candidates.push_back([&context, made, x, y, w, dw] {
          const ThreadScope scope(context.threads());
          made->run({w->data(), x->data(), y->data(), dw->data(), false});
        });
      }
      return candidates;
    });
    return make_convolution_pass(context, shape, op, static_cast<ConvolutionWay>(choice));
  }

  void run(std::size_t pass, const ConvolutionPass::Operands& operands) {
    const ThreadScope scope(context_.threads());
    passes_[pass]->run(operands);
  }

  Context& context_;
  std::array<std::unique_ptr<ConvolutionPass>, 3> passes_;
};

}  // namespace

bool convolves_by_product(const ConvolutionShape& shape, Op pass) {
  if (shape.groups != 1) return false;
  if (shape.kernel == 1 && shape.padding == 0) return true;
  // Gathered patches take as many times as the kernel has pixels the memory of the image.
  constexpr std::size_t most = std::size_t{32} << 20;
  const Index elements = ProductPass::rows_of(shape) * ProductPass::patch(shape);
  return pass == Op::convolution_backward_weights && static_cast<std::size_t>(elements) * size_of(shape.dtype) <= most;
}

std::unique_ptr<ConvolutionPass> make_convolution_pass(Context& context, const ConvolutionShape& shape, Op pass,
                                                       ConvolutionWay way) {
  if (way == ConvolutionWay::product) return std::make_unique<ProductPass>(context, shape, pass);
  return std::make_unique<LibraryPass>(context, shape, pass);
}

std::unique_ptr<ConvolutionPlan> make_convolution(Context& context, const ConvolutionShape& shape) {
  return std::make_unique<CpuConvolutionPlan>(context, shape);
}

}  // namespace tw::models::cpu
