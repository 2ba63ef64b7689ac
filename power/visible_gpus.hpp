// Which GPUs a process sees, of all vendors.
#pragma once

#include <string>
#include <vector>

#include "power/sources/gpu_sight.hpp"

namespace tw::power {

/// Of all makers whose GPUs we meter.
Sight look();

/// Of what the CUDA runtime calls `uuid`, which from version 13 on is the instance's under MIG and looks like a GPU's;
/// `uuid` itself where NVML knows no better.
GpuName name_of_gpu(const std::string& uuid);

/// What NVML calls the GPUs that a process started here may use ("NVIDIA H200"), in no order. Empty without a
/// driver, and under MIG: an instance is only a part of the GPU that the name stands for.
std::vector<std::string> names_of_gpus();

}  // namespace tw::power
