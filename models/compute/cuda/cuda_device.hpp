// NVIDIA GPUs through the CUDA runtime: memory, streams, events and graphs, all operators, and the plans: products by cuBLASLt,
// convolutions and fused attention by cuDNN, the rest by own kernels. What a library that is missing would do, or this GPU
// cannot, supports() denies and plan() throws as Error{unsupported}.
#pragma once

#include <memory>
#include <string>

#include "models/compute/registry.hpp"

namespace tw::models {

/// Throws Error{environment}: no such index, or this program holds no code for that GPU's architecture.
std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options);
/// GPUs that the CUDA runtime can use here (CUDA_VISIBLE_DEVICES is honoured by it); 0 without a driver.
int count_cuda_devices();
/// Why count_cuda_devices() is 0: no driver, a driver too old for this runtime, no device, …; empty otherwise.
std::string why_no_cuda_device();

}  // namespace tw::models
