// Views of device memory. A Tensor owns nothing; Buffer (device.hpp) does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "models/compute/dtype.hpp"

namespace tw {

/// Extents of a tensor, outermost first; at most 5 of them. The default has rank 0 and stands for "no tensor".
class Dims {
 public:
  static constexpr int max_rank = 5;
  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<std::int64_t> extents) {
    for (const std::int64_t extent : extents) extent_[rank_++] = extent;  // more than max_rank does not compile in constexpr
  }
  constexpr int rank() const { return rank_; }
  constexpr std::int64_t operator[](int axis) const { return extent_[axis]; }
  /// Number of elements; 0 for rank 0.
  constexpr std::int64_t count() const {
    if (rank_ == 0) return 0;
    std::int64_t product = 1;
    for (int axis = 0; axis < rank_; ++axis) product *= extent_[axis];
    return product;
  }
  constexpr bool operator==(const Dims&) const = default;
  /// "(4, 256, 768)"
  std::string str() const;

 private:
  std::array<std::int64_t, max_rank> extent_{};
  int rank_ = 0;
};

/// A dense row-major view of device memory. Images are NHWC, convolution weights (out, kh, kw, in), linear weights (out, in).
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

}  // namespace tw
