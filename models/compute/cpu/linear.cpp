// Linear layers: three matrix products, each in the layout that measured fastest.
#include <algorithm>
#include <array>

#include "models/compute/cpu/context.hpp"
#include "models/compute/error.hpp"

namespace tw::cpu {

namespace {

using dnnl::memory;
using Sum = Product::Sum;

/// Layouts are compared on at most this many rows: the order does not change beyond, the time of planning does.
constexpr Index measured_rows = 1024;

/// A product whose second operand is the plan's weight: plain, or packed by the library.
struct WeightProduct {
  std::array<MadeProduct, 3> made;  // by Sum; not all are made
  bool packed = false;
  Reorder pack;
  Buffer weight;
  std::string description() const { return (packed ? "packed " : "plain ") + made[0].implementation; }
};

class CpuLinearPlan final : public LinearPlan {
 public:
  CpuLinearPlan(Context& context, const LinearShape& shape)
      : LinearPlan(context.device(), shape),
        context_(context),
        zeros_(context.device(), static_cast<std::size_t>(shape.out_features) * size_of(shape.dtype)) {
    const DType type = shape.dtype;
    const Index in = shape.in_features, out = shape.out_features;
    context.kernels().fill(1, type, zeros_.data(), out, 0.0f);
    forward_layout_ = transposed_matrix(type, in, out);
    backward_layout_ = matrix(type, out, in);
    plan_weight_product(forward_, "forward", in, out, forward_layout_, true);
    plan_weight_product(backward_, "input", out, in, backward_layout_, false);
    plan_gradient();
    context.reserve_workspace(static_cast<std::size_t>(context.threads() * out) * sizeof(double));  // column sums
  }
  std::size_t bytes() const override { return forward_.weight.bytes() + backward_.weight.bytes() + zeros_.bytes(); }
  std::string description() const override {
    return "forward " + forward_.description() + "; input " + backward_.description() + "; weights " +
           (transpose_dy_ ? "dy transposed, " : "") + (pack_x_ ? "x packed, " : "") + gradient_[0].implementation;
  }

 protected:
  void do_refresh(Stream&) override {
    const ThreadScope scope(context_.threads());
    for (WeightProduct* product : {&forward_, &backward_}) {
      if (product->packed) {
        product->pack.run(context_, weight().data, product->weight.data());
      }
    }
  }

  void do_forward(Stream&, const LinearForward& args) override {
    const ThreadScope scope(context_.threads());
    const void* bias = args.bias ? args.bias.data : zeros_.data();
    const void* w = forward_.packed ? forward_.weight.data() : weight().data;
    const bool activated = shape().activation == Activation::gelu;
    void* y = activated ? args.pre_activation.data : args.y.data;
    const Sum sum = !args.residual ? Sum::none : args.residual.data == args.y.data ? Sum::into_c : Sum::other;
    Call& call = forward_.made[static_cast<std::size_t>(sum)].call;
    if (sum == Sum::other) {
      call.run(context_.stream(), context_.scratchpad(), args.x.data, w, y, bias, args.residual.data);
    } else {
      call.run(context_.stream(), context_.scratchpad(), args.x.data, w, y, bias);
    }
    if (activated) context_.kernels().gelu_forward(context_.threads(), shape().dtype, y, args.y.data, args.y.count());
  }

  void do_backward_input(Stream&, const LinearBackwardInput& args) override {
    const ThreadScope scope(context_.threads());
    const void* w = backward_.packed ? backward_.weight.data() : weight().data;
    backward_.made[0].call.run(context_.stream(), context_.scratchpad(), args.dy.data, w, args.dx.data);
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
    run_gradient(gradient_[args.accumulate ? 1 : 0], shape().rows, pack_x_call_, transpose_dy_, pack_x_, args.x.data,
                 args.dy.data, args.d_weight.data);
  }

 private:
  std::string key(const char* what) const {
    const LinearShape& s = shape();
    return std::string("linear ") + what + " " + std::to_string(s.rows) + " " + std::to_string(s.in_features) + " " +
           std::to_string(s.out_features) + " " + std::string(to_string(s.dtype));
  }

  MadeProduct make(Index rows, Index inner, Index columns, const memory::desc& weight_layout, bool with_bias, Sum sum) {
    const DType type = shape().dtype;
    Product product{matrix(type, rows, inner), weight_layout, matrix(type, rows, columns), memory::desc(), sum};
    if (with_bias) product.bias = matrix(type, 1, columns);
    MadeProduct made = make_product(context_, product);
    context_.reserve_scratchpad(made.call.scratchpad_bytes());
    return made;
  }

  void plan_weight_product(WeightProduct& product, const char* what, Index inner, Index columns,
                           const memory::desc& plain, bool is_forward) {
    const ThreadScope scope(context_.threads());
    const DType type = shape().dtype;
    const Index rows = shape().rows;
    const memory::desc any = any_matrix(type, inner, columns);
    const int choice = context_.fastest(key(what), [&] {
      const Index some = std::min(rows, measured_rows);
      auto a = operand(some * inner, type), b = operand(0, type), c = operand(some * columns, type);
      auto bias = operand(columns, type);
      std::vector<std::function<void()>> candidates;
      for (const memory::desc& layout : {plain, any}) {
        auto made = std::make_shared<MadeProduct>(make(some, inner, columns, layout, is_forward, Sum::none));
        if (made->b.get_size() > b->bytes()) *b = Buffer(context_.device(), made->b.get_size());
        candidates.push_back([this, made, a, b, c, bias, is_forward] {
          if (is_forward) {
            made->call.run(context_.stream(), context_.scratchpad(), a->data(), b->data(), c->data(), bias->data());
          } else {
            made->call.run(context_.stream(), context_.scratchpad(), a->data(), b->data(), c->data());
          }
        });
      }
      context_.kernels().fill(context_.threads(), type, b->data(), static_cast<Index>(b->bytes() / size_of(type)),
                              0.01f);
      return candidates;
    });
    product.packed = choice == 1;
    product.made[0] = make(rows, inner, columns, product.packed ? any : plain, is_forward, Sum::none);
    const memory::desc& layout = product.made[0].b;
    product.packed = product.packed && layout != plain;
    if (is_forward && shape().activation == Activation::none) {
      for (const Sum sum : {Sum::into_c, Sum::other}) {
        product.made[static_cast<std::size_t>(sum)] = make(rows, inner, columns, layout, true, sum);
      }
    }
    if (!product.packed) return;
    product.pack = Reorder(context_, plain, layout);
    context_.reserve_scratchpad(product.pack.scratchpad_bytes());
    product.weight = Buffer(context_.device(), layout.get_size());
  }

  /// Temporary operand of a measurement, filled: neither zeros nor denormals.
  std::shared_ptr<Buffer> operand(Index count, DType type) {
    auto buffer = std::make_shared<Buffer>(context_.device(), static_cast<std::size_t>(count) * size_of(type));
    if (count > 0) context_.kernels().fill(context_.threads(), type, buffer->data(), count, 0.5f);
    return buffer;
  }

  MadeProduct make_gradient(Index rows, bool transpose_dy, bool pack_x, bool accumulate) {
    const DType type = shape().dtype;
    const Index in = shape().in_features, out = shape().out_features;
    MadeProduct made =
        make_product(context_, {transpose_dy ? matrix(type, out, rows) : transposed_matrix(type, out, rows),
                                pack_x ? any_matrix(type, rows, in) : matrix(type, rows, in),
                                matrix(DType::float32, out, in), memory::desc(), accumulate ? Sum::into_c : Sum::none});
    context_.reserve_scratchpad(made.call.scratchpad_bytes());
    context_.reserve_workspace(transposed_bytes(rows) + made.b.get_size());
    return made;
  }
  Reorder make_pack_x(Index rows, const MadeProduct& made) {
    Reorder call(context_, matrix(shape().dtype, rows, shape().in_features), made.b);
    context_.reserve_scratchpad(call.scratchpad_bytes());
    return call;
  }
  std::size_t transposed_bytes(Index rows) const {
    return (static_cast<std::size_t>(rows * shape().out_features) * size_of(shape().dtype) + 4095) / 4096 * 4096;
  }

  void run_gradient(MadeProduct& made, Index rows, Reorder& pack, bool transpose_dy, bool pack_x, const void* x,
                    const void* dy, void* dw) {
    if (transpose_dy) {
      context_.kernels().transpose(context_.threads(), shape().dtype, dy, rows, shape().out_features,
                                   context_.workspace());
      dy = context_.workspace();
    }
    if (pack_x) {
      char* packed = context_.workspace() + transposed_bytes(rows);
      pack.run(context_, x, packed);
      x = packed;
    }
    made.call.run(context_.stream(), context_.scratchpad(), dy, x, dw);
  }

  void plan_gradient() {
    const ThreadScope scope(context_.threads());
    const DType type = shape().dtype;
    const Index rows = shape().rows, in = shape().in_features, out = shape().out_features;
    const int choice = context_.fastest(key("weights"), [&] {
      const Index some = std::min(rows, measured_rows);
      auto x = operand(some * in, type), dy = operand(some * out, type), dw = operand(out * in, DType::float32);
      std::vector<std::function<void()>> candidates;
      for (int option = 0; option < 4; ++option) {
        const bool transpose_dy = (option & 1) != 0, pack_x = (option & 2) != 0;
        auto made = std::make_shared<MadeProduct>(make_gradient(some, transpose_dy, pack_x, false));
        auto pack = std::make_shared<Reorder>(pack_x ? make_pack_x(some, *made) : Reorder());
        candidates.push_back([this, some, x, dy, dw, made, pack, transpose_dy, pack_x] {
          run_gradient(*made, some, *pack, transpose_dy, pack_x, x->data(), dy->data(), dw->data());
        });
      }
      return candidates;
    });
    transpose_dy_ = (choice & 1) != 0;
    pack_x_ = (choice & 2) != 0;
    for (const bool accumulate : {false, true})
      gradient_[accumulate] = make_gradient(rows, transpose_dy_, pack_x_, accumulate);
    if (pack_x_) pack_x_call_ = make_pack_x(rows, gradient_[0]);
    if (gradient_[0].b != gradient_[1].b) {
      throw Error(Failure::internal, "oneDNN packs x in two ways for one product (linear weight gradient)");
    }
  }

  Context& context_;
  memory::desc forward_layout_, backward_layout_;
  WeightProduct forward_, backward_;
  // dW = dyᵀ·x: dy as a transposed view or transposed into the workspace, x plain or packed into the workspace.
  std::array<MadeProduct, 2> gradient_;  // overwriting, accumulating
  bool transpose_dy_ = false, pack_x_ = false;
  Reorder pack_x_call_;
  Buffer zeros_;  // stands in for an absent bias
};

}  // namespace

std::unique_ptr<LinearPlan> make_linear(Context& context, const LinearShape& shape) {
  return std::make_unique<CpuLinearPlan>(context, shape);
}

}  // namespace tw::cpu
