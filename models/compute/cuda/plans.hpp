// What the plans by cuBLASLt share. Private to models/compute/cuda.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "models/compute/cuda/blas.hpp"
#include "models/compute/cuda/context.hpp"

namespace tw::models::cuda {

enum class LinearPass { forward, backward_input, backward_weights };
/// The product alone, of what the shape's dtype stores.
ProductShape linear_product(const LinearShape& shape, LinearPass pass);
/// Throws Error{unsupported}.
[[noreturn]] void throw_no_algorithm(Context& context, const ProductShape& shape, const char* what);

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
