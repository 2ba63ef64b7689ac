// What the plans by cuBLASLt share. Private to models/compute/cuda.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/compute/cuda/blas.hpp"
#include "models/compute/cuda/context.hpp"

namespace tw::models::cuda {

enum class LinearPass { forward, backward_input, backward_weights };
/// The product alone, of what the shape's dtype stores.
ProductShape linear_product(const LinearShape& shape, LinearPass pass);
/// Throws Error{unsupported}.
[[noreturn]] void throw_no_algorithm(Context& context, const ProductShape& shape, const char* what);

/// A linear layer by products with epilogues. What these cannot do for a shape, or do more slowly, is done by a product
/// with less of an epilogue and own kernels.
class FusedLinear : public LinearPlan {
 protected:
  enum class Means {
    fused,       ///< one product with the whole epilogue
    bias_fused,  ///< bias and GELU: a product with the bias, then our GELU
    apart,       ///< a plain product and own kernels
  };
  static constexpr std::size_t means_count = 3;
  struct Kept {
    LinearPass pass;
    int alignment;
    Product product;                   ///< with the whole epilogue
    std::optional<Product> with_bias;  ///< that of Means::bias_fused, where the library has it
    Means means = Means::fused;        ///< how calls are done
  };
  /// `sums_bytes`: of the workspace behind the library's, for column sums; `name` for messages.
  FusedLinear(Context& context, const LinearShape& shape, std::size_t sums_bytes, const char* name)
      : LinearPlan(context.device(), shape), context_(context), sums_bytes_(sums_bytes), name_(name) {}
  virtual ProductShape product_of(LinearPass pass) const = 0;

  /// The current device is the plan's from here on.
  cudaStream_t begin(Stream& on) const {
    context_.use();
    return stream_of(on);
  }
  std::size_t library_bytes() const { return context_.blas().workspace_bytes(); }
  /// The epilogue of a forward with what is given.
  cublasLtEpilogue_t forward_epilogue(bool with_bias) const;
  /// Searches and times products of a pass, outside of steps.
  void keep(LinearPass pass, std::initializer_list<cublasLtEpilogue_t> epilogues);
  void keep_plain();
  /// By the means that were kept where the arguments `may_fuse`, else apart. What the library then refuses is done by
  /// the next means from there on.
  void run(cudaStream_t stream, LinearPass pass, cublasLtEpilogue_t epilogue, int alignment, bool may_fuse,
           void* workspace, const ProductArguments& args);
  /// The calls of `kept` and what does them: "forward with bias: algorithm 66 …".
  std::string done_by(const Kept& kept) const;
  /// Every library has it; Error{unsupported} says otherwise.
  const Product& plain(LinearPass pass, int alignment, cudaStream_t stream);

  Context& context_;
  std::size_t sums_bytes_;
  const char* name_;
  std::deque<Kept> products_;

 private:
  Kept& kept(LinearPass pass, cublasLtEpilogue_t epilogue, int alignment, cudaStream_t stream);
  /// What calls may be done by, the usual one first. Which is faster must not decide how often a result is rounded, so
  /// that apart is among others only where it rounds as they do.
  std::vector<Means> granted(const Kept& kept) const;
  /// Whether a result in 16 bits is rounded once more if it is made apart: the sum of bias and residual before the
  /// product is added, or the product before GELU's derivative. Each rounding is off by at most 2^-9 of what is rounded
  /// in bf16, 2^-12 in fp16.
  bool rounds_more_apart(cublasLtEpilogue_t epilogue) const;
  void run_by(Means means, const Kept& kept, cudaStream_t stream, void* workspace, const ProductArguments& args);
  void run_apart(cudaStream_t stream, LinearPass pass, cublasLtEpilogue_t epilogue, int alignment, void* workspace,
                 const ProductArguments& args);
};

std::unique_ptr<LinearPlan> make_fp8_linear(Context& context, const LinearShape& shape);
std::vector<LibraryProduct> library_products(Context& context, const LinearShape& shape, Op pass);

/// Parts of a workspace, one behind the other, each 256-byte aligned; counts them where there is no memory yet.
class Parts {
 public:
  explicit Parts(void* base = nullptr) : base_(static_cast<char*>(base)) {}
  template <class T = char>
  T* take(std::size_t bytes) {
    char* const at = base_ == nullptr ? nullptr : base_ + bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return reinterpret_cast<T*>(at);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  char* base_;
  std::size_t bytes_ = 0;
};

}  // namespace tw::models::cuda
