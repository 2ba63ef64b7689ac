// The checking macros for the CUDA runtime API. Private to models/compute/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

#include "models/compute/error.hpp"
#include "models/compute/machine_fault.hpp"

namespace tw::models {

/// What a user does about an error that is the machine's (machine_faults.def); null of the others.
inline const char* what_helps(cudaError_t code) {
  switch (code) {
#define TW_MACHINE_FAULT(fault, text) \
  case fault:                         \
    return text;
#include "models/compute/cuda/kernels/machine_faults.def"
    default:
      return nullptr;
  }
}

inline void check_cuda(cudaError_t code, const char* expression, const char* file, int line) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // clears what can be cleared, so that the next call does not report this failure again
  const std::string meaning = std::string(cudaGetErrorName(code)) + ": " + cudaGetErrorString(code);
  if (const char* const helps = what_helps(code))
    throw MachineFault("CUDA", static_cast<int>(code), meaning, expression, file, line, helps);
  throw ApiError("CUDA", static_cast<int>(code), meaning, expression, file, line,
                 code == cudaErrorMemoryAllocation ? Failure::environment : Failure::internal);
}

inline void warn_cuda(cudaError_t code, const char* expression, const char* file, int line) noexcept {
  // When the process ends, the runtime may be gone before the last destructor; memory went with it.
  if (code == cudaSuccess || code == cudaErrorCudartUnloading) return;
  cudaGetLastError();
  std::fprintf(stderr, "CUDA: %s in %s at %s:%d\n", cudaGetErrorString(code), expression, file, line);
}

/// Throws ApiError or MachineFault where the device has failed: for what a library answers then is only a consequence.
/// Waits for the device, so it is called where something has gone wrong already.
inline void check_device(const char* file, int line) {
  const cudaError_t code = cudaDeviceSynchronize();
  if (code == cudaErrorStreamCaptureUnsupported) {  // nothing can be learned while a graph is recorded
    cudaGetLastError();
    return;
  }
  check_cuda(code, "cudaDeviceSynchronize()", file, line);
}

}  // namespace tw::models

/// Throws MachineFault for an error of machine_faults.def, else ApiError.
#define TW_CUDA(expression) ::tw::models::check_cuda((expression), #expression, __FILE__, __LINE__)
#define TW_CHECK_DEVICE() ::tw::models::check_device(__FILE__, __LINE__)
/// TW_CUDA's twin for destructors: one line on stderr, never throws.
#define TW_CUDA_NOTHROW(expression) ::tw::models::warn_cuda((expression), #expression, __FILE__, __LINE__)
