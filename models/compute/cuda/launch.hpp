// The one way in which kernels are launched. nvcc takes cudaLaunchKernel; a host compiler (tests/support/simt) the
// function that runs the kernel's threads on the CPU. No <<<>>> anywhere. Private to models/compute/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#if defined(__CUDACC__)
#include "models/compute/cuda/check.hpp"
#else
#include "tests/support/simt/simt.hpp"
#endif

namespace tw::cuda {

#if defined(__CUDACC__)
/// Enqueues `kernel` on `stream` with `shared_bytes` of dynamic shared memory. Throws ApiError for an impossible launch.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments) {
  const auto with = [&](Parameters... parameters) {  // converted to the parameters' own types
    void* addresses[] = {static_cast<void*>(&parameters)..., nullptr};
    TW_CUDA(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, addresses, shared_bytes, stream));
  };
  with(static_cast<Parameters>(arguments)...);
}

/// The block's dynamic shared memory.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}
#endif

}  // namespace tw::cuda
