// What nvcc's code of our own kernels uses of an SM, held against models/compute/cuda/kernels/occupancy.def.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

/// One compiled kernel, as `cuobjdump --dump-resource-usage` reports it.
struct KernelUsage {
  std::string architecture;  // "sm_90"
  std::string instance;      // "batch_norm_sums_kernel<float, 4>"
  std::string kernel;        // "batch_norm_sums_kernel"; empty for one that is not in tw::models::cuda, as CUB's
  int registers = 0;
  std::size_t stack_bytes = 0, local_bytes = 0;  // per thread; spilled registers are on the stack
  std::size_t static_bytes = 0;                  // shared memory of a block, with what the driver reserves
};

/// Throws std::runtime_error for output of another form.
std::vector<KernelUsage> read_usages(std::string_view cuobjdump_output);

/// Blocks of `threads` that an SM of this architecture ("sm_90") holds at once, with the shared memory that
/// read_usages() found and that of the launch. Throws std::invalid_argument for an architecture whose limits are not
/// known.
int blocks_per_sm(const std::string& architecture, int registers, int threads, std::size_t static_bytes,
                  std::size_t dynamic_bytes);

/// What is wrong with the code of each architecture, a line each: local memory, fewer blocks than the launch assumes, a
/// kernel without a row, a row without a kernel, an architecture whose limits are not known, no kernel at all.
std::vector<std::string> resource_faults(const std::vector<KernelUsage>& usages);

}  // namespace tw
