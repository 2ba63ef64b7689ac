// How the reference device reads and writes tensors: all of it as float64, rounded once when it is stored. Since inputs
// are read before outputs are written, every aliasing is safe.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "models/compute/tensor.hpp"

namespace tw::models::reference {

using Values = std::vector<double>;

/// Nearest bf16 or fp16, ties to even, without the double rounding that a detour over the nearest float would bring:
/// the float in between is rounded to odd, which keeps on which side of a tie the value lies.
inline float round_to_odd(double value) {
  const float narrow = static_cast<float>(value);
  const double back = narrow;
  if (back == value || std::isnan(value)) return narrow;
  auto bits = std::bit_cast<std::uint32_t>(narrow);
  if (std::fabs(back) > std::fabs(value)) bits -= 1;
  return std::bit_cast<float>(bits | 1u);
}
inline bf16 round_to_bf16(double value) { return to_bf16(round_to_odd(value)); }
inline fp16 round_to_fp16(double value) { return to_fp16(round_to_odd(value)); }

inline Values load(const Tensor& tensor) {
  Values values(static_cast<std::size_t>(tensor.count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = float_at(tensor, static_cast<std::int64_t>(i));
  }
  return values;
}

inline void store(const Tensor& tensor, const Values& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype == DType::bf16) {
      tensor.as<bf16>()[i] = round_to_bf16(values[i]);
    } else if (tensor.dtype == DType::fp16) {
      tensor.as<fp16>()[i] = round_to_fp16(values[i]);
    } else {
      tensor.as<float>()[i] = static_cast<float>(values[i]);
    }
  }
}

/// What the stored dtype keeps of `values`.
inline void round_to(DType dtype, Values& values) {
  for (double& value : values) {
    value = dtype == DType::bf16   ? to_float(round_to_bf16(value))
            : dtype == DType::fp16 ? to_float(round_to_fp16(value))
                                   : static_cast<float>(value);
  }
}

/// A float32 gradient: = or +=, rounded once.
inline void store_gradient(const Tensor& tensor, Values values, bool accumulate) {
  if (accumulate) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += tensor.as<float>()[i];
  }
  store(tensor, values);
}

}  // namespace tw::models::reference
