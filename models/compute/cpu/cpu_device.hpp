// The cpu device: oneDNN for products and convolutions, OpenMP loops with AVX2 or AVX-512 for everything else.
// ONEDNN_MAX_CPU_ISA (oneDNN's own variable: SSE41, AVX2, AVX512_CORE, AVX512_CORE_BF16, …) caps the instruction set of
// both; bf16 is there where the capped instruction set has AVX512-BF16 or AMX. One device serves one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "models/compute/registry.hpp"

namespace tw::models {

/// Throws Error{usage} for a negative number of threads.
std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options);
int count_cpu_devices();
std::string why_no_cpu_device();

}  // namespace tw::models
