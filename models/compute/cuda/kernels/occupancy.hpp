// The figures of occupancy.def: for kernels and launches as occupancy::KERNEL.threads, .blocks and .shared_bytes, for
// the tests as a list. Private to models/compute/cuda.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <string_view>

namespace tw::models::cuda::occupancy {

/// SMs of an H100 SXM or an H200, for grids that fill them a whole number of times.
constexpr int sms = 132;

/// Dynamic shared memory of a block that a kernel may have unasked; launch() asks for more (CUDA C++ Programming Guide,
/// "Compute Capabilities").
constexpr std::size_t unasked_shared_bytes = 48 * 1024;

struct Block {
  int threads;
  int blocks;
  std::size_t shared_bytes;
};

#define TW_KERNEL(kernel, threads, blocks, shared_bytes) inline constexpr Block kernel{threads, blocks, shared_bytes};
#define TW_KERNEL_ON_100_KIB(kernel, blocks)
#include "models/compute/cuda/kernels/occupancy.def"
#undef TW_KERNEL
#undef TW_KERNEL_ON_100_KIB

struct Row {
  std::string_view kernel;
  Block block;
};
inline constexpr Row rows[] = {
#define TW_KERNEL(kernel, threads, blocks, shared_bytes) {#kernel, kernel},
#define TW_KERNEL_ON_100_KIB(kernel, blocks)
#include "models/compute/cuda/kernels/occupancy.def"
#undef TW_KERNEL
#undef TW_KERNEL_ON_100_KIB
};

/// Blocks of a row's kernel that must fit on an SM with this much shared memory.
constexpr int blocks_on(const Row& row, std::size_t sm_shared_bytes) {
#define TW_KERNEL(kernel, threads, blocks, shared_bytes)
#define TW_KERNEL_ON_100_KIB(name, blocks) \
  if (sm_shared_bytes <= 100 * 1024 && row.kernel == #name) return blocks;
#include "models/compute/cuda/kernels/occupancy.def"
#undef TW_KERNEL
#undef TW_KERNEL_ON_100_KIB
  return row.block.blocks;
}

/// The row of a kernel's name, without namespaces and template arguments; null where there is none.
constexpr const Row* find(std::string_view kernel) {
  for (const Row& row : rows)
    if (row.kernel == kernel) return &row;
  return nullptr;
}

/// The threads that kernels with one block size in common have. Rows that differ do not compile.
consteval int common_threads(std::initializer_list<Block> blocks) {
  for (const Block& block : blocks)
    if (block.threads != blocks.begin()->threads) throw std::logic_error("the kernels' rows have different threads");
  return blocks.begin()->threads;
}

}  // namespace tw::models::cuda::occupancy
