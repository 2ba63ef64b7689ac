// Linear layers in fp8: bf16 tensors are rounded to e4m3 (gradients to e5m2) under scales that follow the greatest
// magnitudes of the last calls (delayed scaling, arXiv 2209.05433 §4). The library wants both operands with the summed
// dimension in rows, hence the transposed copies: one kernel writes both layouts, of which the caller keeps the one
// that a later product takes. Because the scale is known before the operand, the operator that makes x can be that
// kernel (round_ahead), all but the first time. GELU is such an operator, hence a kernel of our own in any case: so a
// forward that is recomputed gives the same bits. Sums, biases and results are as in bf16.
#include "models/compute/cuda/blas.hpp"
#include "models/compute/cuda/kernels/check.hpp"
#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/cuda/plans.hpp"

namespace tw::models::cuda {
namespace {

class Fp8Linear final : public FusedLinear {
 public:
  Fp8Linear(Context& context, const LinearShape& shape)
      : FusedLinear(context, shape, 0, "a linear layer in fp8"),
        weights_(context.device(), 2 * count(shape.out_features, shape.in_features)),
        scales_(context.device(), scale_count * sizeof(Fp8Scale)) {
    context.use();
    TW_CUDA(cudaMemset(scales_.data(), 0, scales_.bytes()));
    TW_CUDA(cudaStreamSynchronize(nullptr));  // streams of the device do not wait for the default one
    keep(LinearPass::forward, {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS});
    keep(LinearPass::backward_input, {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_DGELU});
    keep(LinearPass::backward_weights, {CUBLASLT_EPILOGUE_DEFAULT});
    keep_plain();
    context.reserve(lay_out(nullptr).bytes);
    TW_CUDA(find_rounding_images());
  }

  std::size_t bytes() const override { return weights_.bytes() + scales_.bytes(); }
  std::string description() const override {
    std::string text = "cuBLASLt in e4m3 and e5m2, scales from 16 calls";
    for (const Kept& kept : products_) text += "; " + done_by(kept);
    if (shape().activation == Activation::gelu)
      text += rounds_result_ ? "; own GELU, which rounds for the next layer" : "; own GELU";
    if (rounds_ahead_) text += "; input rounded by the operator in front";
    return text;
  }

 protected:
  Fp8Scale* do_round_ahead(Stream& on, bool follows) override {
    if (!has_history(Role::x)) return nullptr;
    rounds_ahead_ = true;
    Fp8Scale* const used = scale(Role::x);
    if (follows) fp8_next_scale(begin(on), false, used);
    return used;
  }

  void do_refresh(Stream& on) override {
    const cudaStream_t stream = begin(on);
    round(stream, Role::weight, weight(), shape().out_features, shape().in_features, weights_.data(),
          transposed_weight());
  }

  void do_forward(Stream& on, const LinearForward& args) override {
    const cudaStream_t stream = begin(on);
    const LinearShape& s = shape();
    const Space space = lay_out(context_.workspace(stream, lay_out(nullptr).bytes));
    if (args.x_rounded && args.x_rounded.scale != scale(Role::x))
      throw Error(Failure::usage, "linear layer in fp8: x_rounded: wanted what this plan's round_ahead() has made");
    const Fp8Scale* const x_scale = args.x_rounded
                                        ? args.x_rounded.scale
                                        : round(stream, Role::x, args.x, s.rows, s.in_features, space.rounded,
                                                args.x_for_weights.data, inverse_of(args.x_for_weights), args.follows);
    const bool has_gelu = s.activation == Activation::gelu;
    const ProductArguments product{.a = args.x_rounded ? args.x_rounded.straight.data : space.rounded,
                                   .b = weights_.data(),
                                   .c = args.residual.data,
                                   .d = has_gelu ? args.pre_activation.data : args.y.data,
                                   .beta = args.residual ? 1.0f : 0.0f,
                                   .bias = args.bias.data,
                                   .a_scale = &x_scale->inverse,
                                   .b_scale = &scale(Role::weight)->inverse};
    const bool aligned = alignment_of({product.d, args.bias.data, args.residual.data}, DType::bf16) == 16;
    run(stream, LinearPass::forward, args.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT, 16, aligned,
        space.library, product);
    if (args.y_rounded) {
      rounds_result_ = true;
      gelu_rounded(stream, args.pre_activation.as<bf16>(), s.rows, s.out_features, args.y_rounded);
    } else if (has_gelu) {
      gelu_forward(stream, DType::bf16, args.pre_activation.data, args.y.data, args.y.count());
    }
  }

  void do_backward_input(Stream& on, const LinearBackwardInput& args) override {
    const cudaStream_t stream = begin(on);
    const Space space = lay_out(context_.workspace(stream, lay_out(nullptr).bytes));
    const auto epilogue = args.input_pre_activation ? CUBLASLT_EPILOGUE_DGELU : CUBLASLT_EPILOGUE_DEFAULT;
    const bool aligned = alignment_of({args.dx.data, args.input_pre_activation.data}, DType::bf16) == 16;
    run(stream, LinearPass::backward_input, epilogue, 16, aligned, space.library,
        {.a = args.dy.data,
         .b = transposed_weight(),
         .d = args.dx.data,
         .aux = args.input_pre_activation.data,
         .a_scale = inverse_of(args.dy),
         .b_scale = &scale(Role::weight)->inverse});
  }

  void do_backward_weights(Stream& on, const LinearBackwardWeights& args) override {
    const cudaStream_t stream = begin(on);
    const LinearShape& s = shape();
    const Space space = lay_out(context_.workspace(stream, lay_out(nullptr).bytes));
    round(stream, Role::dy, args.dy, s.rows, s.out_features, args.dy_for_input.data, space.rounded,
          inverse_of(args.dy_for_input), true, args.d_bias ? space.of_tiles : nullptr);
    plain(LinearPass::backward_weights, 16, stream)
        .run(stream,
             {.a = space.rounded,
              .b = args.x.data,
              .d = args.d_weight.data,
              .beta = args.accumulate ? 1.0f : 0.0f,
              .a_scale = &scale(Role::dy)->inverse,
              .b_scale = inverse_of(args.x)},
             space.library);
    if (args.d_bias) {
      column_sums(stream, DType::float32, space.of_tiles, fp8_tiles(s.rows), s.out_features, s.out_features, 1,
                  args.d_bias.as<float>(), args.accumulate, space.sums);
    }
  }

 private:
  /// What has a scale of its own. `aside`: for an x that no scale is to follow.
  enum class Role : std::size_t { weight, x, dy, aside };
  static constexpr std::size_t scale_count = 4;
  struct Space {
    void *library, *rounded, *sums;
    float* of_tiles;  // sums of dy's columns in each tile of rows
    std::size_t bytes;
  };

  static std::size_t count(Index rows, Index columns) { return static_cast<std::size_t>(rows * columns); }
  void* transposed_weight() const {
    return static_cast<char*>(weights_.data()) + count(shape().out_features, shape().in_features);
  }
  /// Of an operand that is kept: behind its elements.
  static float* inverse_of(const Tensor& left) {
    return left ? left.slice(left.count() - 16, {16}).as<float>() : nullptr;
  }
  bool& has_history(Role role) { return has_history_[static_cast<std::size_t>(role)]; }
  Fp8Scale* scale(Role role) const { return static_cast<Fp8Scale*>(scales_.data()) + static_cast<std::size_t>(role); }

  Space lay_out(void* base) const {
    const LinearShape& s = shape();
    Parts parts(base);
    Space space{};
    space.library = parts.take(context_.blas().workspace_bytes());
    space.rounded = parts.take(count(s.rows, std::max(s.in_features, s.out_features)));  // x, or dy transposed
    const Index tiles = fp8_tiles(s.rows);
    space.of_tiles = reinterpret_cast<float*>(parts.take(count(tiles, s.out_features) * sizeof(float)));
    space.sums = parts.take(column_sums_scratch(tiles, s.out_features));
    space.bytes = parts.bytes();
    return space;
  }

  /// Rounds under the scale that the calls so far have left; the first call looks at its tensor before. One that the
  /// scale does not follow goes by the last one's, or where there was none by a scale for itself. Returns the scale;
  /// its inverse goes to `inverse` too, and to `sums` the sums of the columns of each tile, where these are given.
  Fp8Scale* round(cudaStream_t stream, Role role, const Tensor& x, Index rows, Index columns, void* straight,
                  void* turned, float* inverse = nullptr, bool follows = true, float* sums = nullptr) {
    const bool gradient = role == Role::dy;
    bool& known = has_history(role);
    Fp8Scale* const used = scale(follows || known ? role : Role::aside);
    if (!known) {
      if (!follows) TW_CUDA(cudaMemsetAsync(used, 0, sizeof *used, stream));
      fp8_greatest(stream, x.as<bf16>(), rows * columns, used);
    }
    if (follows || !known) fp8_next_scale(stream, gradient, used);
    known = known || follows;
    fp8_round(stream, gradient, x.as<bf16>(), rows, columns, used, straight, turned, follows, inverse, sums);
    return used;
  }

  ProductShape product_of(LinearPass pass) const override {
    ProductShape product = linear_product(shape(), pass);
    product.a = {.type = pass == LinearPass::forward ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2, .ld = product.k};
    product.b = {.type = CUDA_R_8F_E4M3, .transposed = true, .ld = product.k};
    product.scaled = true;
    product.fast_sums = pass == LinearPass::forward;
    return product;
  }

  Buffer weights_;  // e4m3 (out, in), then (in, out)
  Buffer scales_;   // Fp8Scale for each Role
  std::array<bool, scale_count> has_history_{};
  bool rounds_ahead_ = false, rounds_result_ = false;  // so far
};

}  // namespace

std::unique_ptr<LinearPlan> make_fp8_linear(Context& context, const LinearShape& shape) {
  for (const auto& [name, extent] : {std::pair("rows", shape.rows), std::pair("in_features", shape.in_features),
                                     std::pair("out_features", shape.out_features)}) {
    if (extent % 16 == 0) continue;
    throw Error(Failure::unsupported, std::string("linear layer in fp8: ") + name + " is " + std::to_string(extent) +
                                          ", but must be a multiple of 16");
  }
  return std::make_unique<Fp8Linear>(context, shape);
}

}  // namespace tw::models::cuda
