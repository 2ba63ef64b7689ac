// Operators of Device that have no kernel on the cuda device: supports() denies them, and a call is Error{unsupported}.
// Private to models/compute/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "models/compute/error.hpp"
#include "models/compute/operators.hpp"

namespace tw::models::cuda {

inline bool has_no_kernel(Op op) {
  return op == Op::rms_norm_forward || op == Op::rms_norm_backward || op == Op::rotary || op == Op::swiglu_forward ||
         op == Op::swiglu_backward;
}
[[noreturn]] inline void refuse(Op op) {
  throw Error(Failure::unsupported, "device cuda: no kernel for " + std::string(to_string(op)));
}

inline void rms_norm_forward(cudaStream_t, const RmsNormForward&) { refuse(Op::rms_norm_forward); }
inline void rms_norm_backward(cudaStream_t, const RmsNormBackward&) { refuse(Op::rms_norm_backward); }
inline void rotary(cudaStream_t, const Rotary&) { refuse(Op::rotary); }
inline void swiglu_forward(cudaStream_t, const SwigluForward&) { refuse(Op::swiglu_forward); }
inline void swiglu_backward(cudaStream_t, const SwigluBackward&) { refuse(Op::swiglu_backward); }

}  // namespace tw::models::cuda
