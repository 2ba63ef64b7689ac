// Views of device memory. A Tensor owns nothing; Buffer (device.hpp) does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "models/compute/dtype.hpp"

namespace tw::models {

/// Extents of a tensor, outermost first; at most 5 of them. The default has rank 0 and stands for "no tensor".
class Dims {
 public:
  static constexpr int max_rank = 5;
  /// More elements than any address space holds; sums and byte counts of what lies below cannot overflow.
  static constexpr std::int64_t max_count = std::int64_t{1} << 47;
  constexpr Dims() = default;
  /// Throws Error{internal} for more than max_rank extents.
  constexpr Dims(std::initializer_list<std::int64_t> extents) {
    if (extents.size() > max_rank) refuse_rank(extents.size());
    for (const std::int64_t extent : extents) extent_[rank_++] = extent;
  }
  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int axis) const { return extent_[axis]; }
  /// Number of elements; 0 for rank 0. Throws Error{usage} above max_count.
  constexpr std::int64_t count() const {
    if (rank_ == 0) return 0;
    std::int64_t product = 1;
    for (int axis = 0; axis < rank_; ++axis) {
      if (__builtin_mul_overflow(product, extent_[axis], &product) || product > max_count) refuse_count();
    }
    return product;
  }
  constexpr bool operator==(const Dims&) const = default;
  /// "(4, 256, 768)"
  std::string str() const;

 private:
  [[noreturn]] static void refuse_rank(std::size_t rank);
  [[noreturn]] void refuse_count() const;

  std::array<std::int64_t, max_rank> extent_{};
  int rank_ = 0;
};

/// A dense row-major view of device memory. Images are NHWC, convolution weights (out, kh, kw, in), linear ones
/// (out, in).
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::float32;
  Dims dims;

  std::int64_t count() const { return dims.count(); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype); }
  explicit operator bool() const { return data != nullptr; }

  /// The elements as T; the caller states the type it has checked.
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  /// Same memory, other extents with the same count.
  Tensor reshaped(Dims other) const { return Tensor{data, dtype, other}; }
  /// Elements [begin, begin + extents.count()) of the flat view.
  Tensor slice(std::int64_t begin, Dims extents) const {
    return Tensor{static_cast<char*>(data) + static_cast<std::size_t>(begin) * size_of(dtype), dtype, extents};
  }
};

/// Element i of a tensor in host memory, float32, bf16 or fp16.
inline float float_at(const Tensor& tensor, std::int64_t i) {
  return tensor.dtype == DType::bf16   ? to_float(tensor.as<bf16>()[i])
         : tensor.dtype == DType::fp16 ? to_float(tensor.as<fp16>()[i])
                                       : tensor.as<float>()[i];
}

}  // namespace tw::models
