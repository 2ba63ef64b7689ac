// Kernels over single elements, enqueued on a stream of the current device. Private to models/compute/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "models/compute/dtype.hpp"

namespace tw::cuda {

/// What the runtime says about this program's code on the current device: cudaSuccess, or cudaErrorNoKernelImageForDevice.
cudaError_t find_kernel_image();

void fill(cudaStream_t stream, float* y, std::int64_t count, float value);
void fill(cudaStream_t stream, bf16* y, std::int64_t count, float value);  // value rounded once, to nearest even
void cast(cudaStream_t stream, const float* x, bf16* y, std::int64_t count);
void cast(cudaStream_t stream, const bf16* x, float* y, std::int64_t count);

}  // namespace tw::cuda
