// Linear layers in fp8: bf16 tensors are rounded to e4m3 (gradients to e5m2) in front of each product, under scales
// that follow the greatest magnitudes of the last calls (delayed scaling, arXiv 2209.05433 §4). The library wants both
// operands with the summed dimension in rows, hence the transposed copies. Sums, biases and results are as in bf16.
#include "models/compute/cuda/blas.hpp"
#include "models/compute/cuda/kernels/check.hpp"
#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/cuda/plans.hpp"

namespace tw::models::cuda {
namespace {

class Fp8Linear final : public LinearPlan {
 public:
  Fp8Linear(Context& context, const LinearShape& shape)
      : LinearPlan(context.device(), shape),
        context_(context),
        weights_(context.device(), 2 * count(shape.out_features, shape.in_features)),
        scales_(context.device(), scale_count * sizeof(Fp8Scale)) {
    context.use();
    TW_CUDA(cudaMemset(scales_.data(), 0, scales_.bytes()));
    TW_CUDA(cudaStreamSynchronize(nullptr));  // streams of the device do not wait for the default one
    const bool gelu = shape.activation == Activation::gelu;
    for (const auto epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                gelu ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_DEFAULT,
                                gelu ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_DEFAULT}) {
      kept(LinearPass::forward, epilogue, nullptr);
    }
    for (const auto epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_DGELU}) {
      kept(LinearPass::backward_input, epilogue, nullptr);
    }
    kept(LinearPass::backward_weights, CUBLASLT_EPILOGUE_DEFAULT, nullptr);
    for (const LinearPass pass : {LinearPass::forward, LinearPass::backward_input, LinearPass::backward_weights}) {
      plain(pass, nullptr);
    }
    context.reserve(lay_out(nullptr).bytes);
  }

  std::size_t bytes() const override { return weights_.bytes() + scales_.bytes(); }
  std::string description() const override {
    std::string text = "cuBLASLt in e4m3 and e5m2, scales from 16 calls";
    for (const Kept& kept : products_) {
      if (kept.product) text += "; " + kept.product.name() + (kept.slower ? ", slower than" : "");
      if (!kept.product || kept.slower)
        text += std::string(kept.product ? "" : ";") + " a plain product and own kernels";
    }
    return text;
  }

 protected:
  void do_refresh(Stream& on) override {
    const cudaStream_t stream = begin(on);
    round(stream, Role::weight, weight(), shape().out_features, shape().in_features, weights_.data(),
          transposed_weight());
  }

  void do_forward(Stream& on, const LinearForward& args) override {
    const cudaStream_t stream = begin(on);
    const LinearShape& s = shape();
    const bool gelu = s.activation == Activation::gelu;
    const Space space = lay_out(context_.workspace(stream, lay_out(nullptr).bytes));
    const Fp8Scale* const x_scale =
        round(stream, Role::x, args.x, s.rows, s.in_features, space.first, nullptr, args.follows);
    ProductArguments product_args{
        .a = space.first, .b = weights_.data(), .a_scale = &x_scale->inverse, .b_scale = &scale(Role::weight)->inverse};
    const auto epilogue = gelu ? (args.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX)
                               : (args.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
    const bool aligned =
        alignment_of({args.y.data, args.bias.data, args.residual.data, args.pre_activation.data}, DType::bf16) == 16;
    product_args.c = args.residual.data;
    product_args.d = args.y.data;
    product_args.beta = args.residual ? 1 : 0;
    product_args.bias = args.bias.data;
    product_args.aux = args.pre_activation.data;
    run(stream, LinearPass::forward, epilogue, aligned, product_args, space.library);
  }

  void do_backward_input(Stream& on, const LinearBackwardInput& args) override {
    const cudaStream_t stream = begin(on);
    const LinearShape& s = shape();
    const Space space = lay_out(context_.workspace(stream, lay_out(nullptr).bytes));
    round(stream, Role::dy_for_input, args.dy, s.rows, s.out_features, space.first, nullptr);
    const ProductArguments product_args{.a = space.first,
                                        .b = transposed_weight(),
                                        .d = args.dx.data,
                                        .aux = args.input_pre_activation.data,
                                        .a_scale = &scale(Role::dy_for_input)->inverse,
                                        .b_scale = &scale(Role::weight)->inverse};
    const auto epilogue = args.input_pre_activation ? CUBLASLT_EPILOGUE_DGELU : CUBLASLT_EPILOGUE_DEFAULT;
    const bool aligned = alignment_of({args.dx.data, args.input_pre_activation.data}, DType::bf16) == 16;
    run(stream, LinearPass::backward_input, epilogue, aligned, product_args, space.library);
  }

  void do_backward_weights(Stream& on, const LinearBackwardWeights& args) override {
    const cudaStream_t stream = begin(on);
    const LinearShape& s = shape();
    const Space space = lay_out(context_.workspace(stream, lay_out(nullptr).bytes));
    round(stream, Role::x_for_weights, args.x, s.rows, s.in_features, nullptr, space.first);
    round(stream, Role::dy_for_weights, args.dy, s.rows, s.out_features, nullptr, space.second);
    plain(LinearPass::backward_weights, stream)
        .run(stream,
             {.a = space.second,
              .b = space.first,
              .d = args.d_weight.data,
              .beta = args.accumulate ? 1.0f : 0.0f,
              .a_scale = &scale(Role::dy_for_weights)->inverse,
              .b_scale = &scale(Role::x_for_weights)->inverse},
             space.library);
    if (args.d_bias) {
      column_sums(stream, DType::bf16, args.dy.data, s.rows, s.out_features, s.out_features, 1, args.d_bias.as<float>(),
                  args.accumulate, space.sums);
    }
  }

 private:
  /// What has a scale of its own: the two uses of x and of dy are calls of their own, in whatever order.
  enum class Role : std::size_t { weight, x, x_for_weights, dy_for_input, dy_for_weights, aside };
  static constexpr std::size_t scale_count = 6;
  struct Kept {
    LinearPass pass;
    Product product;
    bool slower = false;  ///< than a plain product and own kernels
  };
  struct Space {
    void *library, *first, *second, *sums;
    std::size_t bytes;
  };

  static std::size_t count(Index rows, Index columns) { return static_cast<std::size_t>(rows * columns); }
  cudaStream_t begin(Stream& on) const {
    context_.use();
    return stream_of(on);
  }
  void* transposed_weight() const {
    return static_cast<char*>(weights_.data()) + count(shape().out_features, shape().in_features);
  }
  Fp8Scale* scale(Role role) const { return static_cast<Fp8Scale*>(scales_.data()) + static_cast<std::size_t>(role); }

  Space lay_out(void* base) const {
    const LinearShape& s = shape();
    Parts parts(base);
    Space space{};
    space.library = parts.take(context_.blas().workspace_bytes());
    space.first = parts.take(count(s.rows, std::max(s.in_features, s.out_features)));  // x or dy
    space.second = parts.take(count(s.rows, s.out_features));
    space.sums = parts.take(column_sums_scratch(s.rows, s.out_features));
    space.bytes = parts.bytes();
    return space;
  }

  /// Rounds under the scale that the calls so far have left; the first call looks at its tensor before. One that the scale
  /// does not follow goes by the last one's, or where there was none by a scale for itself. Returns the scale.
  Fp8Scale* round(cudaStream_t stream, Role role, const Tensor& x, Index rows, Index columns, void* straight,
                  void* turned, bool follows = true) {
    const bool gradient = role == Role::dy_for_input || role == Role::dy_for_weights;
    bool& known = has_history_[static_cast<std::size_t>(role)];
    Fp8Scale* const used = scale(follows || known ? role : Role::aside);
    if (!known) {
      if (!follows) TW_CUDA(cudaMemsetAsync(used, 0, sizeof *used, stream));
      fp8_greatest(stream, x.as<bf16>(), rows * columns, used);
    }
    if (follows || !known) fp8_next_scale(stream, gradient, used);
    known = known || follows;
    fp8_round(stream, gradient, x.as<bf16>(), rows, columns, used, straight, turned, follows);
    return used;
  }

  /// By one product where that is there and not slower.
  void run(cudaStream_t stream, LinearPass pass, cublasLtEpilogue_t epilogue, bool aligned,
           const ProductArguments& args, void* workspace) {
    if (const Kept& fused = kept(pass, epilogue, stream); fused.product && !fused.slower && aligned) {
      fused.product.run(stream, args, workspace);
    } else {
      run_apart(stream, pass, epilogue, args, workspace);
    }
  }
  void run_apart(cudaStream_t stream, LinearPass pass, cublasLtEpilogue_t epilogue, const ProductArguments& args,
                 void* workspace) {
    const LinearShape& s = shape();
    const bool gelu = epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    ProductArguments sum = args;
    sum.bias = sum.aux = nullptr;
    if (gelu) sum.d = args.aux;
    if (pass == LinearPass::forward && args.bias != nullptr) {
      bias_rows(stream, DType::bf16, args.bias, args.c, sum.d, s.rows, s.out_features);
      sum.c = nullptr;
      sum.beta = 1;
    }
    plain(pass, stream).run(stream, sum, workspace);
    if (gelu) gelu_forward(stream, DType::bf16, sum.d, args.d, s.rows * s.out_features);
    if (epilogue == CUBLASLT_EPILOGUE_DGELU)
      gelu_backward(stream, DType::bf16, args.aux, sum.d, s.rows * s.in_features);
  }

  const Kept& kept(LinearPass pass, cublasLtEpilogue_t epilogue, cudaStream_t stream) {
    for (const Kept& kept : products_) {
      if (kept.pass == pass && kept.product.shape().epilogue == epilogue) return kept;
    }
    const LinearShape& s = shape();
    ProductShape wanted = linear_product(s, pass);
    const Index k = wanted.k;
    wanted.a = {.type = pass == LinearPass::forward ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2, .ld = k};
    wanted.b = {.type = CUDA_R_8F_E4M3, .transposed = true, .ld = k};
    wanted.scaled = true;
    wanted.fast_sums = pass == LinearPass::forward;
    wanted.epilogue = epilogue;
    wanted.bias_type = CUDA_R_16BF;
    wanted.aux_ld = wanted.n;
    products_.push_back({pass, Product(context_.blas(), wanted, stream)});
    Kept& made = products_.back();
    if (made.product && epilogue != CUBLASLT_EPILOGUE_DEFAULT) {
      made.slower = context_.blas().is_slower(
          made.product, 0,
          [&](cudaStream_t on, const ProductArguments& args, void* workspace) {
            run_apart(on, pass, epilogue, args, workspace);
          },
          stream);
    }
    return made;
  }
  const Product& plain(LinearPass pass, cudaStream_t stream) {
    const Product& found = kept(pass, CUBLASLT_EPILOGUE_DEFAULT, stream).product;
    if (!found) throw_no_algorithm(context_, found.shape(), "a linear layer in fp8");
    return found;
  }

  Context& context_;
  Buffer weights_;  // e4m3 (out, in), then (in, out)
  Buffer scales_;   // Fp8Scale for each Role
  std::array<bool, scale_count> has_history_{};
  std::deque<Kept> products_;
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
