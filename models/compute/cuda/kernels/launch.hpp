// The one way in which kernels are launched: launch<kernel<T>>(grid, block, shared_bytes, stream, arguments…), no
// <<<>>> anywhere. A kernel is a template argument, so that its name is known. nvcc takes cudaLaunchKernel; a host
// compiler takes the harness of the tests, which runs a kernel's threads on the CPU and is found as <simt/simt.hpp> by
// whoever compiles so.
//
// Kernels that run in both: blocks of a multiple of 32 threads; shared memory through dynamic_shared() (the harness
// guards it and fills it with NaN); warp functions with the mask of the lanes that really call them; no lockstep
// assumed between them; no cooperative groups, no atomics on floating point; PTX and intrinsics only under
// __CUDA_ARCH__ with a twin for the host beside them. Private to models/compute/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#if defined(__CUDACC__)
#include "models/compute/cuda/kernels/check.hpp"
#include "models/compute/cuda/kernels/occupancy.hpp"
#else
#include <simt/simt.hpp>
#endif

namespace tw::models::cuda {

#if defined(__CUDACC__)
/// Enqueues `kernel` on `stream` with `shared_bytes` of dynamic shared memory; the arguments are converted to the
/// parameters' types. Throws ApiError for an impossible launch.
template <auto* kernel, class... Arguments>
void launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, Arguments... arguments) {
  const auto with = [&]<class... Parameters>(void (*function)(Parameters...)) {
    const auto enqueue = [&](Parameters... parameters) {
      void* addresses[] = {static_cast<void*>(&parameters)..., nullptr};
      if (shared_bytes > occupancy::unasked_shared_bytes) {
        TW_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(function),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
      }
      TW_CUDA(cudaLaunchKernel(reinterpret_cast<const void*>(function), grid, block, addresses, shared_bytes, stream));
    };
    enqueue(static_cast<Parameters>(arguments)...);
  };
  with(kernel);
}

/// The block's dynamic shared memory, 16-byte aligned.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}

/// The harness counts here what a kernel loads and stores.
__device__ inline void touches(const void*, std::size_t, bool) {}

/// What the runtime says about the code of `kernel` on the current device: cudaErrorNoKernelImageForDevice where there
/// is none.
template <auto* kernel>
cudaError_t find_image() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel));
}
#else
using simt::dynamic_shared;
using simt::find_image;
using simt::launch;
using simt::touches;
#endif

}  // namespace tw::models::cuda
