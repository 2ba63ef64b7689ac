// CUDA kernels on the CPU: what a kernel's source needs when a host compiler reads it, in place of nvcc's language.
//
// launch() runs the threads of a grid as fibers, one block after the other, three times: in ascending, descending and
// seeded order of blocks and threads, in the first two with one warp as far ahead of the others as it gets. Before each
// time device memory is as it was before the launch; afterwards guards around all device memory must hold, and the
// three results must be equal bit for bit. So a missing barrier, a race, an assumption of lockstep and a store out of
// bounds are failures of every test that runs into them. Shared memory starts as NaN in each block and is guarded
// behind its end. A kernel of models/compute/cuda may not be launched with more threads or shared memory than its row
// of kernels/occupancy.def has. A launch into a stream that is captured runs when the graph does (stream.hpp). A
// barrier or a warp function that not all its threads reach ends the launch with the kernel's name and the lines at
// which its threads wait.
//
// Stricter than a GPU: a thread that has left the kernel is missing at barriers and in masks; a shuffle may not read
// from a lane outside the mask. More lenient: static __shared__ arrays keep the last block's values (use
// dynamic_shared()), and blocks run one at a time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/simt/stream.hpp"

namespace tw::simt {

/// What a GPU would have answered with a wrong result, a hang or an error: kernel, block, schedule and lines in the
/// text.
class KernelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// ---- device memory ----
/// 256-byte aligned, filled with NaN (0xff), between guards. What kernels write must lie in such memory.
void* allocate(std::size_t bytes);
void free(void* data) noexcept;

// ---- launches ----
/// Kernels by name with their template arguments ("tw::models::cuda::fill_kernel<float>"): those for which a launch is
/// compiled into this program, and whether it has run.
struct KernelRun {
  std::string name;
  bool launched = false;
};
std::vector<KernelRun> kernels();

struct KernelEntry {
  std::string_view signature;  // of a function with the kernel as its template argument
  bool launched = false;
  KernelEntry* next = nullptr;
  explicit KernelEntry(std::string_view text);
};
void run_grid(KernelEntry& kernel, dim3 grid, dim3 block, std::size_t shared_bytes,
              const std::function<void()>& thread);

template <auto* kernel>
struct Listed {
  static constexpr std::string_view signature() { return __PRETTY_FUNCTION__; }
  inline static KernelEntry entry{signature()};
};

template <auto* kernel, class... Arguments>
void launch(dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream, Arguments... arguments) {
  const auto with = [&]<class... Parameters>(void (*function)(Parameters...)) {
    const auto enqueue = [&](Parameters... parameters) {
      enqueue_or_throw(stream, "cudaLaunchKernel", [=] {
        run_grid(Listed<kernel>::entry, grid, block, shared_bytes, [&] { function(parameters...); });
      });
    };
    enqueue(static_cast<Parameters>(arguments)...);
  };
  with(kernel);
}
template <auto* kernel>
cudaError_t find_image() {
  return cudaSuccess;
}

// ---- inside a kernel ----
struct Thread {
  uint3 thread_index{}, block_index{};
  dim3 block_extent, grid_extent;
};
const Thread& current();
void* shared_memory();
template <class T>
T* dynamic_shared() {
  return static_cast<T*>(shared_memory());
}

/// What kernels have loaded from device memory and stored to it by the accesses of kernels/support.cuh since the last
/// start of counting, of one of the three runs of each launch. Single elements that a kernel reaches by a pointer of
/// its own are not counted.
struct Touched {
  std::size_t read = 0, written = 0;  ///< bytes
  std::size_t most_read = 0;          ///< of them, the most by one thread of a launch
};
void count_touched();    ///< starts from 0
Touched take_touched();  ///< ends counting
/// Of a kernel, where it loads or stores.
void touches(const void* data, std::size_t bytes, bool is_store);

/// Where in the source a thread waits.
struct Place {
  const char* function;
  const char* file;
  int line;
};
void barrier(Place place);
/// Waits for all lanes of the mask; their values (up to 8 bytes) by lane. Valid until the lane's next call.
const std::uint64_t* exchange(Place place, unsigned mask, std::uint64_t value);
int lane();
[[noreturn]] void fail(Place place, const std::string& what);

template <class T>
T shuffle(Place place, unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const std::uint64_t* all = exchange(place, mask, bits);
  if ((mask >> source & 1u) == 0)
    fail(place, "reads from lane " + std::to_string(source) + ", which is not in the mask");
  std::memcpy(&value, &all[source], sizeof value);
  return value;
}
/// The source lanes of CUDA's four shuffles; a source outside the segment of `width` lanes is the lane itself.
inline int indexed(int source, int width) { return (lane() & ~(width - 1)) + (source & (width - 1)); }
inline int up(int delta, int width) { return (lane() & (width - 1)) < delta ? lane() : lane() - delta; }
inline int down(int delta, int width) { return (lane() & (width - 1)) + delta >= width ? lane() : lane() + delta; }
inline int crossed(int bits, int width) { return (lane() ^ bits) / width > lane() / width ? lane() : lane() ^ bits; }
unsigned ballot(Place place, unsigned mask, bool vote);
/// CUDA's default arguments.
inline int width_or_warp(int width = 32) { return width; }
inline unsigned mask_or_all(unsigned mask = 0xffffffffu) { return mask; }

/// Threads run one at a time: what stands between two waits is atomic. Returns the old value.
template <class T, class Change>
T atomically(T* address, Change change) {
  const T old = *address;
  *address = change(old);
  return old;
}

}  // namespace tw::simt

// ---- CUDA's names ----
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

#define threadIdx (::tw::simt::current().thread_index)
#define blockIdx (::tw::simt::current().block_index)
#define blockDim (::tw::simt::current().block_extent)
#define gridDim (::tw::simt::current().grid_extent)

#define TW_SIMT_HERE(function) (::tw::simt::Place{function, __FILE__, __LINE__})
#define __syncthreads() ::tw::simt::barrier(TW_SIMT_HERE("__syncthreads"))
#define __syncwarp(...) ::tw::simt::exchange(TW_SIMT_HERE("__syncwarp"), ::tw::simt::mask_or_all(__VA_ARGS__), 0)
#define TW_SIMT_SHUFFLE(name, lanes, mask, value, source, ...) \
  ::tw::simt::shuffle(TW_SIMT_HERE(name), mask, value,         \
                      ::tw::simt::lanes(source, ::tw::simt::width_or_warp(__VA_ARGS__)))
#define __shfl_sync(mask, value, ...) TW_SIMT_SHUFFLE("__shfl_sync", indexed, mask, value, __VA_ARGS__)
#define __shfl_up_sync(mask, value, ...) TW_SIMT_SHUFFLE("__shfl_up_sync", up, mask, value, __VA_ARGS__)
#define __shfl_down_sync(mask, value, ...) TW_SIMT_SHUFFLE("__shfl_down_sync", down, mask, value, __VA_ARGS__)
#define __shfl_xor_sync(mask, value, ...) TW_SIMT_SHUFFLE("__shfl_xor_sync", crossed, mask, value, __VA_ARGS__)
#define __ballot_sync(mask, vote) ::tw::simt::ballot(TW_SIMT_HERE("__ballot_sync"), mask, vote)
#define __any_sync(mask, vote) (::tw::simt::ballot(TW_SIMT_HERE("__any_sync"), mask, vote) != 0)
#define __all_sync(mask, vote) (::tw::simt::ballot(TW_SIMT_HERE("__all_sync"), mask, vote) == (mask))

// As in CUDA at global scope.
template <class T>
T atomicAdd(T* address, T value) {
  return tw::simt::atomically(address, [=](T old) { return old + value; });
}
template <class T>
T atomicMin(T* address, T value) {
  return tw::simt::atomically(address, [=](T old) { return value < old ? value : old; });
}
template <class T>
T atomicMax(T* address, T value) {
  return tw::simt::atomically(address, [=](T old) { return old < value ? value : old; });
}
template <class T>
T atomicExch(T* address, T value) {
  return tw::simt::atomically(address, [=](T) { return value; });
}
template <class T>
T atomicCAS(T* address, T wanted, T value) {
  return tw::simt::atomically(address, [=](T old) { return old == wanted ? value : old; });
}
