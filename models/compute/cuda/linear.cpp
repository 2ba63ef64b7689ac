// Linear layers by cuBLASLt. What its epilogues cannot do for a shape, or do more slowly, is done by a product with
// less of an epilogue and our own kernels.
#include <array>
#include <map>
#include <utility>

#include "models/compute/cuda/bench.hpp"
#include "models/compute/cuda/blas.hpp"
#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/cuda/plans.hpp"
#include "models/compute/error.hpp"

namespace tw::models::cuda {
namespace {

class CudaLinear final : public FusedLinear {
 public:
  CudaLinear(Context& context, const LinearShape& shape)
      : FusedLinear(context, shape, column_sums_scratch(shape.rows, shape.out_features), "a linear layer") {
    // All that steps usually ask for: searched and timed here, outside of them.
    keep(LinearPass::forward, {forward_epilogue(true), forward_epilogue(false)});
    keep(LinearPass::backward_input, {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_DGELU});
    keep(LinearPass::backward_weights, {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BGRADB});
    keep_plain();
    context.reserve(library_bytes() + sums_bytes_);
  }

  std::string description() const override {
    std::string text = "cuBLASLt";
    for (const Kept& kept : products_) {
      if (kept.alignment == 16) text += "; " + done_by(kept);
    }
    return text;
  }

 protected:
  void do_forward(Stream& on, const LinearForward& args) override {
    const cudaStream_t stream = begin(on);
    const int alignment = alignment_of(
        {args.x.data, weight().data, args.y.data, args.bias.data, args.residual.data, args.pre_activation.data},
        shape().dtype);
    run(stream, LinearPass::forward, forward_epilogue(args.bias.data != nullptr), alignment, true,
        context_.workspace(stream, library_bytes()),
        {.a = args.x.data,
         .b = weight().data,
         .c = args.residual.data,
         .d = args.y.data,
         .beta = args.residual ? 1.0f : 0.0f,
         .bias = args.bias.data,
         .aux = args.pre_activation.data});
  }

  void do_backward_input(Stream& on, const LinearBackwardInput& args) override {
    const cudaStream_t stream = begin(on);
    const int alignment =
        alignment_of({args.dy.data, weight().data, args.dx.data, args.input_pre_activation.data}, shape().dtype);
    const auto epilogue = args.input_pre_activation ? CUBLASLT_EPILOGUE_DGELU : CUBLASLT_EPILOGUE_DEFAULT;
    run(stream, LinearPass::backward_input, epilogue, alignment, true, context_.workspace(stream, library_bytes()),
        {.a = args.dy.data, .b = weight().data, .d = args.dx.data, .aux = args.input_pre_activation.data});
  }

  void do_backward_weights(Stream& on, const LinearBackwardWeights& args) override {
    const cudaStream_t stream = begin(on);
    const int alignment =
        alignment_of({args.x.data, args.dy.data, args.d_weight.data, args.d_bias.data}, shape().dtype);
    // The epilogue overwrites the bias's gradient: where it is added to, kernels of our own do it.
    const auto epilogue = args.d_bias ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_DEFAULT;
    run(stream, LinearPass::backward_weights, epilogue, alignment, !(args.d_bias && args.accumulate),
        context_.workspace(stream, library_bytes() + sums_bytes_),
        {.a = args.dy.data,
         .b = args.x.data,
         .d = args.d_weight.data,
         .beta = args.accumulate ? 1.0f : 0.0f,
         .bias = args.d_bias.data});
  }

 private:
  ProductShape product_of(LinearPass pass) const override { return linear_product(shape(), pass); }
};

std::string epilogue_name(cublasLtEpilogue_t epilogue) {
  static const std::map<cublasLtEpilogue_t, const char*> all = {
      {CUBLASLT_EPILOGUE_BIAS, " with bias"},
      {CUBLASLT_EPILOGUE_GELU_AUX, " with GELU"},
      {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, " with bias and GELU"},
      {CUBLASLT_EPILOGUE_DGELU, " with GELU's derivative"},
      {CUBLASLT_EPILOGUE_BGRADB, " with the bias's"}};
  const auto found = all.find(epilogue);
  return found == all.end() ? "" : found->second;
}

}  // namespace

cublasLtEpilogue_t FusedLinear::forward_epilogue(bool with_bias) const {
  if (shape().activation == Activation::gelu)
    return with_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
  return with_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

void FusedLinear::keep(LinearPass pass, std::initializer_list<cublasLtEpilogue_t> epilogues) {
  for (const cublasLtEpilogue_t epilogue : epilogues) kept(pass, epilogue, 16, nullptr);
}
void FusedLinear::keep_plain() {
  for (const LinearPass pass : {LinearPass::forward, LinearPass::backward_input, LinearPass::backward_weights})
    plain(pass, 16, nullptr);
}

void FusedLinear::run(cudaStream_t stream, LinearPass pass, cublasLtEpilogue_t epilogue, int alignment, bool may_fuse,
                      void* workspace, const ProductArguments& args) {
  Kept& found = kept(pass, epilogue, alignment, stream);
  if (!may_fuse) return run_by(Means::apart, found, stream, workspace, args);
  for (;;) {
    try {
      return run_by(found.means, found, stream, workspace, args);
    } catch (const Refused&) {  // where nothing was timed, the first call shows what runs; it has enqueued nothing
      const Means next = granted(found).front();
      if (epilogue == CUBLASLT_EPILOGUE_DEFAULT || found.means == Means::apart || found.means == next) throw;
      found.means = next;
    }
  }
}

std::vector<FusedLinear::Means> FusedLinear::granted(const Kept& kept) const {
  std::vector<Means> means;
  if (kept.product) means.push_back(Means::fused);
  if (kept.with_bias && *kept.with_bias) means.push_back(Means::bias_fused);
  if (means.empty() || !rounds_more_apart(kept.product.shape().epilogue)) means.push_back(Means::apart);
  return means;
}

bool FusedLinear::rounds_more_apart(cublasLtEpilogue_t epilogue) const {
  return is_half(shape().dtype) && (epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_DGELU);
}

void FusedLinear::run_by(Means means, const Kept& kept, cudaStream_t stream, void* workspace,
                         const ProductArguments& args) {
  switch (means) {
    case Means::fused:
      return kept.product.run(stream, args, workspace);
    case Means::bias_fused: {
      ProductArguments sum = args;
      sum.d = args.aux;
      kept.with_bias->run(stream, sum, workspace);
      return gelu_forward(stream, shape().dtype, args.aux, args.d, shape().rows * shape().out_features);
    }
    case Means::apart:
      return run_apart(stream, kept.pass, kept.product.shape().epilogue, kept.alignment, workspace, args);
  }
}

std::string FusedLinear::done_by(const Kept& kept) const {
  static constexpr std::array<const char*, 3> names = {"forward", "input gradient", "weight gradient"};
  const std::string call =
      names[static_cast<std::size_t>(kept.pass)] + epilogue_name(kept.product.shape().epilogue) + ": ";
  if (kept.means == Means::fused) return call + kept.product.name();
  const std::string instead = kept.product ? kept.product.name() + ", slower than " : "";
  if (kept.means == Means::bias_fused)
    return call + instead + "a product with bias (" + kept.with_bias->name() + ") and own GELU";
  return call + instead + "a plain product and own kernels" +
         (rounds_more_apart(kept.product.shape().epilogue) ? ", rounded twice" : "");
}

void FusedLinear::run_apart(cudaStream_t stream, LinearPass pass, cublasLtEpilogue_t epilogue, int alignment,
                            void* workspace, const ProductArguments& args) {
  const LinearShape& s = shape();
  const bool gelu = epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  ProductArguments sum = args;
  sum.bias = sum.aux = nullptr;
  if (gelu) sum.d = args.aux;
  if (pass == LinearPass::forward && args.bias != nullptr) {
    bias_rows(stream, s.dtype, args.bias, args.c, sum.d, s.rows, s.out_features);
    sum.c = nullptr;
    sum.beta = 1;
  }
  plain(pass, alignment, stream).run(stream, sum, workspace);
  if (gelu) gelu_forward(stream, s.dtype, sum.d, args.d, s.rows * s.out_features);
  if (epilogue == CUBLASLT_EPILOGUE_DGELU) gelu_backward(stream, s.dtype, args.aux, sum.d, s.rows * s.in_features);
  if (epilogue == CUBLASLT_EPILOGUE_BGRADB) {
    column_sums(stream, s.dtype, args.a, s.rows, s.out_features, s.out_features, 1, static_cast<float*>(args.bias),
                args.beta != 0, static_cast<char*>(workspace) + library_bytes());
  }
}

FusedLinear::Kept& FusedLinear::kept(LinearPass pass, cublasLtEpilogue_t epilogue, int alignment, cudaStream_t stream) {
  for (Kept& kept : products_) {
    if (kept.pass == pass && kept.alignment == alignment && kept.product.shape().epilogue == epilogue) return kept;
  }
  ProductShape wanted = product_of(pass);
  wanted.epilogue = epilogue;
  wanted.bias_type = wanted.d.type;
  wanted.aux_ld = wanted.n;
  wanted.alignment = alignment;
  products_.push_back({pass, alignment, Product(context_.blas(), wanted, stream), {}});
  Kept& made = products_.back();
  if (epilogue == CUBLASLT_EPILOGUE_DEFAULT) return made;
  if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
    wanted.epilogue = CUBLASLT_EPILOGUE_BIAS;
    wanted.aux_ld = 0;
    if (Product with_bias(context_.blas(), wanted, stream); with_bias) made.with_bias = std::move(with_bias);
  }
  const std::vector<Means> means = granted(made);
  made.means = means.front();
  const bool is_measured =
      made.product.is_measured() || (made.with_bias && made.with_bias->is_measured());  // as algorithms are
  if (means.size() == 1 || !is_measured) return made;
  std::vector<Blas::Way> ways(means_count);
  for (const Means one : means) {
    ways[static_cast<std::size_t>(one)] = [this, one, &made](cudaStream_t on, const ProductArguments& args,
                                                             void* workspace) {
      run_by(one, made, on, workspace, args);
    };
  }
  const std::optional<std::size_t> fastest = context_.blas().fastest(made.product, sums_bytes_, ways, stream);
  if (!fastest) throw_no_algorithm(context_, wanted, name_);
  made.means = static_cast<Means>(*fastest);
  return made;
}

const Product& FusedLinear::plain(LinearPass pass, int alignment, cudaStream_t stream) {
  const Product& found = kept(pass, CUBLASLT_EPILOGUE_DEFAULT, alignment, stream).product;
  if (!found) throw_no_algorithm(context_, found.shape(), name_);
  return found;
}

void throw_no_algorithm(Context& context, const ProductShape& s, const char* what) {
  throw Error(Failure::unsupported, std::string(what) + ": cuBLASLt " + context.blas().library().version() +
                                        " has no algorithm for " + extents_of(s));
}

ProductShape linear_product(const LinearShape& s, LinearPass pass) {
  const cudaDataType_t type = cuda_type(s.dtype);
  const Index rows = s.rows, in = s.in_features, out = s.out_features;
  ProductShape p;
  p.compute = compute_type(s.math == Math::fp8 ? Math::standard : s.math);
  switch (pass) {
    case LinearPass::forward:  // y (rows, out) = x · Wᵀ
      p.m = rows, p.n = out, p.k = in;
      p.a = {.type = type, .ld = in};
      p.b = {.type = type, .transposed = true, .ld = in};
      p.d = {.type = type, .ld = out};
      break;
    case LinearPass::backward_input:  // dx (rows, in) = dy · W
      p.m = rows, p.n = in, p.k = out;
      p.a = {.type = type, .ld = out};
      p.b = {.type = type, .ld = in};
      p.d = {.type = type, .ld = in};
      break;
    case LinearPass::backward_weights:  // dW (out, in) = dyᵀ · x
      p.m = out, p.n = in, p.k = rows;
      p.a = {.type = type, .transposed = true, .ld = out};
      p.b = {.type = type, .ld = in};
      p.d = {.type = CUDA_R_32F, .ld = in};
      break;
  }
  return p;
}

std::unique_ptr<LinearPlan> make_linear(Context& context, const LinearShape& shape) {
  if (shape.math == Math::fp8) return make_fp8_linear(context, shape);
  return std::make_unique<CudaLinear>(context, shape);
}

std::vector<LibraryProduct> library_products(Context& context, const LinearShape& shape, Op pass) {
  const LinearPass which = pass == Op::linear_forward          ? LinearPass::forward
                           : pass == Op::linear_backward_input ? LinearPass::backward_input
                                                               : LinearPass::backward_weights;
  const auto product = std::make_shared<Product>(context.blas(), linear_product(shape, which), cudaStream_t{});
  if (!*product) return {};
  context.reserve(context.blas().workspace_bytes());
  LibraryProduct found;
  found.layout = "plain";
  found.implementation = "cuBLASLt " + product->name();
  const std::size_t element = size_of(shape.dtype);
  const auto count = [](Index rows, Index columns) { return static_cast<std::size_t>(rows * columns); };
  found.bytes = {
      count(shape.rows, shape.in_features) * element,
      count(shape.out_features, shape.in_features) * (which == LinearPass::backward_weights ? sizeof(float) : element),
      count(shape.rows, shape.out_features) * element};
  found.run = [&context, product, which](Stream& on, void* x, void* weight, void* y) {
    context.use();
    const cudaStream_t stream = stream_of(on);
    ProductArguments args;
    switch (which) {
      case LinearPass::forward:
        args.a = x, args.b = weight, args.d = y;
        break;
      case LinearPass::backward_input:
        args.a = y, args.b = weight, args.d = x;
        break;
      case LinearPass::backward_weights:
        args.a = y, args.b = x, args.d = weight;
        break;
    }
    product->run(stream, args, context.workspace(stream, context.blas().workspace_bytes()));
  };
  return {found};
}

}  // namespace tw::models::cuda
