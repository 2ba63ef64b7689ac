// A tensor in memory of its own between two guards of sentinel bytes.
#pragma once

#include <string>
#include <vector>

#include "models/compute/device.hpp"
#include "tests/support/fills.hpp"

namespace tw::test {

class GuardedTensor {
 public:
  /// Contents: NaN in every element (int32: -1), so that an element never written shows.
  GuardedTensor(models::Device& device, models::Stream& stream, models::DType dtype, const models::Dims& dims);
  const models::Tensor& tensor() const { return tensor_; }
  /// Rounded to the tensor's dtype.
  void upload(const Floats& values);
  void upload(const Ints& values);
  void upload_bytes(const std::vector<unsigned char>& bytes);
  Floats download() const;     ///< float32, bf16 or fp16
  Ints download_ints() const;  ///< int32
  std::vector<unsigned char> download_bytes() const;
  /// Empty where both guards hold; else which guard and how far from the tensor the nearest wrong byte lies.
  std::string damage() const;

 private:
  models::Device* device_;
  models::Stream* stream_;
  models::Buffer memory_;
  models::Tensor tensor_;
};

}  // namespace tw::test
