// Argument checks that all communicators share; all throw Error{usage} naming the function.
#pragma once

#include <string>

#include "models/compute/error.hpp"
#include "models/compute/tensor.hpp"

namespace tw::comm {

inline void check_values(const models::Tensor& values, const char* function) {
  if (values.dtype != models::DType::float32 && values.dtype != models::DType::bf16)
    throw models::Error(models::Failure::usage, std::string(function) + ": float32 or bf16 wanted, got " +
                                                    std::string(models::to_string(values.dtype)));
  if (values.count() > 0 && !values.data)
    throw models::Error(models::Failure::usage, std::string(function) + ": tensor without memory");
}

/// input has `input_blocks` blocks of n elements, output `output_blocks` of the same n.
inline void check_blocks(const models::Tensor& input, const models::Tensor& output, int input_blocks, int output_blocks,
                         const char* function) {
  check_values(input, function);
  check_values(output, function);
  if (input.dtype != output.dtype)
    throw models::Error(models::Failure::usage, std::string(function) + ": input and output differ in dtype");
  if (input.count() % input_blocks != 0 || output.count() % output_blocks != 0 ||
      input.count() / input_blocks != output.count() / output_blocks)
    throw models::Error(models::Failure::usage, std::string(function) + ": " + std::to_string(input.count()) +
                                                    " elements do not fit " + std::to_string(output.count()) +
                                                    " of the output");
}

inline void check_peer(int peer, int size, const char* function) {
  if (peer < 0 || peer >= size)
    throw models::Error(models::Failure::usage, std::string(function) + ": rank " + std::to_string(peer) +
                                                    " is not among " + std::to_string(size) + " ranks");
}

}  // namespace tw::comm
