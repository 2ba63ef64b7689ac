// Linear layers: three matrix products, each in the way that measured fastest.
#include "models/compute/cpu/products.hpp"

namespace tw::models::cpu {

namespace {

using Sum = Product::Sum;

class CpuLinearPlan final : public LinearPlan {
 public:
  CpuLinearPlan(Context& context, const LinearShape& shape)
      : LinearPlan(context.device(), shape),
        context_(context),
        zeros_(context.device(), static_cast<std::size_t>(shape.out_features) * size_of(shape.dtype)) {
    const DType type = shape.dtype;
    const Index rows = shape.rows, in = shape.in_features, out = shape.out_features;
    context.kernels().fill(1, type, zeros_.data(), out, 0.0f);
    const bool sums = shape.activation == Activation::none;
    forward_ = WeightProduct(context, "linear forward",
                             {type, rows, in, out, transposed_matrix(type, in, out), /*bias=*/true, sums, shape.math});
    backward_ =
        WeightProduct(context, "linear input", {type, rows, out, in, matrix(type, out, in), false, false, shape.math});
    gradient_ = make_gradient_product(context, "linear weights", {type, rows, in, out, shape.math});
    context.reserve_workspace(static_cast<std::size_t>(context.threads() * out) * sizeof(double));  // column sums
  }
  std::size_t bytes() const override { return forward_.bytes() + backward_.bytes() + zeros_.bytes(); }
  std::string description() const override {
    return "forward " + forward_.description() + "; input " + backward_.description() + "; weights " +
           gradient_->description();
  }

 protected:
  void do_refresh(Stream&) override {
    const ThreadScope scope(context_.threads());
    forward_.refresh(weight().data);
    backward_.refresh(weight().data);
  }

  void do_forward(Stream&, const LinearForward& args) override {
    const ThreadScope scope(context_.threads());
    const bool activated = shape().activation == Activation::gelu;
    void* y = activated ? args.pre_activation.data : args.y.data;
    const Sum sum = !args.residual ? Sum::none : args.residual.data == args.y.data ? Sum::into_c : Sum::other;
    forward_.run(args.x.data, weight().data, y, args.bias ? args.bias.data : zeros_.data(), sum, args.residual.data);
    if (activated) context_.kernels().gelu_forward(context_.threads(), shape().dtype, y, args.y.data, args.y.count());
  }

  void do_backward_input(Stream&, const LinearBackwardInput& args) override {
    const ThreadScope scope(context_.threads());
    backward_.run(args.dy.data, weight().data, args.dx.data);
    if (args.input_pre_activation) {
      context_.kernels().gelu_backward(context_.threads(), shape().dtype, args.input_pre_activation.data, args.dx.data,
                                       args.dx.count());
    }
  }

  void do_backward_weights(Stream&, const LinearBackwardWeights& args) override {
    const ThreadScope scope(context_.threads());
    if (args.d_bias) {
      context_.kernels().column_sums(context_.threads(), shape().dtype, args.dy.data, shape().rows,
                                     shape().out_features, 1.0f, args.d_bias.as<float>(), args.accumulate,
                                     reinterpret_cast<double*>(context_.workspace()));
    }
    gradient_->run(args.x.data, args.dy.data, args.d_weight.data, args.accumulate);
  }

 private:
  Context& context_;
  WeightProduct forward_, backward_;
  std::unique_ptr<GradientProduct> gradient_;
  Buffer zeros_;  // stands in for an absent bias
};

}  // namespace

std::unique_ptr<LinearPlan> make_linear(Context& context, const LinearShape& shape) {
  return std::make_unique<CpuLinearPlan>(context, shape);
}

}  // namespace tw::models::cpu
