#include <algorithm>

#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/cuda/launch.hpp"

namespace tw::cuda {
namespace {

template <class T>
__device__ T rounded(float value);
template <>
__device__ float rounded<float>(float value) {
  return value;
}
template <>
__device__ bf16 rounded<bf16>(float value) {
  return to_bf16(value);
}

template <class T>
__global__ void fill_kernel(T* y, std::int64_t count, float value) {
  const T element = rounded<T>(value);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    y[i] = element;
  }
}

template <class From, class To>
__global__ void cast_kernel(const From* x, To* y, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    y[i] = rounded<To>(to_float(x[i]));
  }
}

constexpr int block_size = 256;

/// Enough blocks for `count`, at most what keeps every multiprocessor busy; the kernels stride over the rest.
int blocks_for(std::int64_t count) {
  constexpr std::int64_t most = 4096;
  return static_cast<int>(std::clamp<std::int64_t>((count + block_size - 1) / block_size, 1, most));
}

template <class T>
void launch_fill(cudaStream_t stream, T* y, std::int64_t count, float value) {
  launch(fill_kernel<T>, blocks_for(count), block_size, 0, stream, y, count, value);
}

template <class From, class To>
void launch_cast(cudaStream_t stream, const From* x, To* y, std::int64_t count) {
  launch(cast_kernel<From, To>, blocks_for(count), block_size, 0, stream, x, y, count);
}

}  // namespace

cudaError_t find_kernel_image() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, fill_kernel<float>);
}

void fill(cudaStream_t stream, const Fill& args) {
  if (args.y.dtype == DType::bf16) {
    launch_fill(stream, args.y.as<bf16>(), args.y.count(), args.value);
  } else {
    launch_fill(stream, args.y.as<float>(), args.y.count(), args.value);
  }
}

void cast(cudaStream_t stream, const Cast& args) {
  if (args.x.dtype == DType::bf16) {
    launch_cast(stream, args.x.as<bf16>(), args.y.as<float>(), args.x.count());
  } else {
    launch_cast(stream, args.x.as<float>(), args.y.as<bf16>(), args.x.count());
  }
}

}  // namespace tw::cuda
