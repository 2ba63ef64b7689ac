// The harness itself: kernels that are right come through, and each kind of wrong one is caught.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "models/compute/cuda/kernels/launch.hpp"

namespace tw::models::cuda {
namespace {
/// Of the name of one of our own: only launches that are refused, so that no record says it ran.
__global__ void loss_scale_kernel() {}
}  // namespace
}  // namespace tw::models::cuda

namespace tw::simt {
namespace {

template <class T>
class Array {
 public:
  explicit Array(std::size_t count) : count_(count), data_(static_cast<T*>(allocate(count * sizeof(T)))) {}
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { simt::free(data_); }
  T* data() const { return data_; }
  std::vector<T> values() const { return {data_, data_ + count_}; }

 private:
  std::size_t count_;
  T* data_;
};

/// The error that `run` must end with.
template <class Run>
std::string error_of(Run&& run) {
  try {
    run();
  } catch (const KernelError& error) {
    return error.what();
  }
  return "no error";
}
void expect_names(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" in: " << text;
}

__global__ void index_kernel(int* y) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  y[block * threads + thread] = static_cast<int>(block * threads + thread);
}

TEST(Simt, EveryThreadOfEveryBlockRunsOnceWithItsOwnIndex) {
  Array<int> y(2 * 3 * 2 * 4 * 8 * 2);
  launch<index_kernel>(dim3(2, 3, 2), dim3(4, 8, 2), 0, nullptr, y.data());
  std::vector<int> wanted(2 * 3 * 2 * 4 * 8 * 2);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(y.values(), wanted);
}

/// y[t] = x of the thread at the other end; `waits` or not.
template <bool waits>
__global__ void reverse_kernel(const float* x, float* y) {
  float* shared = dynamic_shared<float>();
  shared[threadIdx.x] = x[threadIdx.x];
  if (waits) __syncthreads();
  y[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

TEST(Simt, ABarrierIsWaitedFor) {
  Array<float> x(96), y(96);
  std::iota(x.data(), x.data() + 96, 0.0f);
  launch<reverse_kernel<true>>(1, 96, 96 * sizeof(float), nullptr, x.data(), y.data());
  for (int i = 0; i < 96; ++i) EXPECT_EQ(y.data()[i], 95 - i);
}

TEST(Simt, AMissingBarrierIsCaught) {
  Array<float> x(96), y(96);
  std::iota(x.data(), x.data() + 96, 0.0f);
  expect_names(error_of([&] { launch<reverse_kernel<false>>(1, 96, 96 * sizeof(float), nullptr, x.data(), y.data()); }),
               {"reverse_kernel<false>", "ascending", "descending", "differ", "384 bytes"});
}

/// Sums over warps in two rounds; `waits` or not before the second takes the memory of the first.
template <bool waits>
__global__ void two_rounds_kernel(int* y) {
  int* shared = dynamic_shared<int>();
  const int warp = static_cast<int>(threadIdx.x) / 32, warps = static_cast<int>(blockDim.x) / 32;
  for (int round = 0; round < 2; ++round) {
    const int one = __shfl_sync(0xffffffffu, round + 1, 0);
    if (threadIdx.x % 32 == 0) shared[warp] = one;
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < warps; ++i) sum += shared[i];
    y[round * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)] = sum;
    if (waits) __syncthreads();
  }
}

TEST(Simt, AWarpThatRunsAheadIsCaught) {
  Array<int> y(256);
  launch<two_rounds_kernel<true>>(1, 128, 16, nullptr, y.data());
  EXPECT_EQ(y.values()[0], 4);
  EXPECT_EQ(y.values()[255], 8);
  expect_names(error_of([&] { launch<two_rounds_kernel<false>>(1, 128, 16, nullptr, y.data()); }),
               {"two_rounds_kernel<false>", "differ"});
}

__global__ void lockstep_kernel(int* y) {  // as if the lanes of a warp moved together
  int* shared = dynamic_shared<int>();
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  y[threadIdx.x] = shared[threadIdx.x ^ 1u];
}

TEST(Simt, LanesAreNotInLockstep) {
  Array<int> y(32);
  expect_names(error_of([&] { launch<lockstep_kernel>(1, 32, 128, nullptr, y.data()); }),
               {"lockstep_kernel", "differ"});
}

__global__ void last_block_kernel(int* y) { *y = static_cast<int>(blockIdx.x); }

TEST(Simt, AnOrderOfBlocksIsNotPromised) {
  Array<int> y(1);
  expect_names(error_of([&] { launch<last_block_kernel>(3, 32, 0, nullptr, y.data()); }),
               {"last_block_kernel", "differ"});
}

__global__ void divergent_kernel() {
  if (threadIdx.x < 40) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void leaving_kernel() {
  if (threadIdx.x == 7) return;
  __syncthreads();
}
__global__ void mixed_kernel(int* y) {
  if (threadIdx.x < 32) {
    y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, static_cast<int>(threadIdx.x), 1);
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(Simt, ADivergentBarrierIsCaughtWithItsLines) {
  expect_names(error_of([] { launch<divergent_kernel>(2, 64, 0, nullptr); }),
               {"divergent_kernel", "block (0, 0, 0)", "__syncthreads at harness_test.cpp:", "not all threads reach"});
  Array<int> y(32);
  expect_names(error_of([&] { launch<mixed_kernel>(1, 64, 0, nullptr, y.data()); }), {"not all threads reach"});
}

TEST(Simt, AThreadThatHasLeftIsMissingAtABarrier) {
  expect_names(error_of([] { launch<leaving_kernel>(1, 64, 0, nullptr); }),
               {"leaving_kernel", "no thread can go on", "thread 0 waits in __syncthreads", "(and 62 more)",
                "thread 7 has left"});
}

TEST(Simt, AfterAnErrorTheNextLaunchRuns) {
  for (int i = 0; i < 3; ++i) {
    error_of([] { launch<leaving_kernel>(1, 1024, 0, nullptr); });
    Array<float> x(1024), y(1024);
    launch<reverse_kernel<true>>(1, 1024, 4096, nullptr, x.data(), y.data());
  }
}

__global__ void store_kernel(int* y, int count, int offset) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) + offset;
  if (i < count) y[i] = i;
}
__global__ void shared_store_kernel(int at) { dynamic_shared<int>()[at] = 1; }

TEST(Simt, AStoreOutOfBoundsIsCaught) {
  Array<int> y(33);
  launch<store_kernel>(2, 32, 0, nullptr, y.data(), 33, 0);
  EXPECT_EQ(y.values()[32], 32);
  expect_names(error_of([&] { launch<store_kernel>(2, 32, 0, nullptr, y.data(), 34, 0); }),
               {"store_kernel", "block (1, 0, 0)", "1 bytes after the allocation of 132 bytes"});
  expect_names(error_of([&] { launch<store_kernel>(1, 32, 0, nullptr, y.data(), 33, -1); }),
               {"1 bytes before the allocation of 132 bytes"});
  launch<store_kernel>(2, 32, 0, nullptr, y.data(), 33, 0);
}

TEST(Simt, AStoreBehindSharedMemoryIsCaught) {
  launch<shared_store_kernel>(1, 32, 12, nullptr, 2);
  expect_names(error_of([] { launch<shared_store_kernel>(1, 32, 12, nullptr, 3); }),
               {"shared_store_kernel", "1 bytes after its 12 bytes of shared memory"});
}

__global__ void fresh_kernel(float* y) {
  if (blockIdx.x == 1) y[threadIdx.x] = dynamic_shared<float>()[threadIdx.x];
  dynamic_shared<float>()[threadIdx.x] = 1;
}

TEST(Simt, SharedMemoryStartsAsNaNInEachBlock) {
  Array<float> y(32);
  launch<fresh_kernel>(2, 32, 128, nullptr, y.data());
  for (const float value : y.values()) EXPECT_TRUE(std::isnan(value));
}

__global__ void static_shared_kernel(int* y) {
  __shared__ int values[32];
  values[threadIdx.x] = static_cast<int>(threadIdx.x * blockIdx.x);
  __syncthreads();
  y[blockIdx.x * 32 + threadIdx.x] = values[31 - threadIdx.x];
}

TEST(Simt, StaticSharedMemory) {
  Array<int> y(64);
  launch<static_shared_kernel>(2, 32, 0, nullptr, y.data());
  for (int i = 0; i < 32; ++i) EXPECT_EQ(y.values()[static_cast<std::size_t>(32 + i)], 31 - i);
}

struct Shuffles {
  int indexed, up, down, crossed, indexed_in_8, up_in_8, down_in_8, crossed_in_8, crossed_far_in_8;
};
__global__ void shuffle_kernel(Shuffles* y, double* wide) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  constexpr unsigned all = 0xffffffffu;
  y[threadIdx.x] = {
      __shfl_sync(all, lane, 5),         __shfl_up_sync(all, lane, 3),     __shfl_down_sync(all, lane, 3),
      __shfl_xor_sync(all, lane, 6),     __shfl_sync(all, lane, 5, 8),     __shfl_up_sync(all, lane, 3, 8),
      __shfl_down_sync(all, lane, 3, 8), __shfl_xor_sync(all, lane, 6, 8), __shfl_xor_sync(all, lane, 16, 8)};
  wide[threadIdx.x] = __shfl_sync(all, 0.1 * threadIdx.x, lane + 1);
}

TEST(Simt, ShufflesReadTheLanesThatCudaSays) {
  Array<Shuffles> y(64);
  Array<double> wide(64);
  launch<shuffle_kernel>(1, 64, 0, nullptr, y.data(), wide.data());
  for (int t = 0; t < 64; ++t) {
    const Shuffles& s = y.data()[t];
    const int i = t % 32, segment = i / 8 * 8, inside = i % 8;
    EXPECT_EQ(s.indexed, 5);
    EXPECT_EQ(s.up, i < 3 ? i : i - 3);
    EXPECT_EQ(s.down, i + 3 > 31 ? i : i + 3);
    EXPECT_EQ(s.crossed, i ^ 6);
    EXPECT_EQ(s.indexed_in_8, segment + 5);
    EXPECT_EQ(s.up_in_8, inside < 3 ? i : i - 3);
    EXPECT_EQ(s.down_in_8, inside + 3 > 7 ? i : i + 3);
    EXPECT_EQ(s.crossed_in_8, i ^ 6);
    EXPECT_EQ(s.crossed_far_in_8, i < 16 ? i : i - 16);  // an earlier segment may be read, a later one not
    EXPECT_EQ(wide.data()[t], 0.1 * (t / 32 * 32 + (i + 1) % 32));
  }
}

__global__ void half_warps_kernel(int* y) {  // the halves make different numbers of calls and meet again
  const int lane = static_cast<int>(threadIdx.x);
  int sum = lane;
  if (lane < 16) {
    for (int distance = 8; distance > 0; distance /= 2) sum += __shfl_xor_sync(0x0000ffffu, sum, distance);
  } else {
    sum = __shfl_xor_sync(0xffff0000u, sum, 1);
    __syncwarp(0xffff0000u);
  }
  __syncwarp();
  y[lane] = __shfl_sync(0xffffffffu, sum, 31 - lane);
}

TEST(Simt, PartsOfAWarpGoTheirOwnWays) {
  Array<int> y(32);
  launch<half_warps_kernel>(1, 32, 0, nullptr, y.data());
  for (int i = 0; i < 16; ++i) EXPECT_EQ(y.data()[i], (31 - i) ^ 1);
  for (int i = 16; i < 32; ++i) EXPECT_EQ(y.data()[i], 120);
}

__global__ void vote_kernel(unsigned* y) {
  const unsigned lane = threadIdx.x;
  constexpr unsigned low = 0x000000ffu;
  y[lane] = __ballot_sync(0xffffffffu, lane % 3 == 0);
  if (lane >= 8) return;
  y[lane] += (__any_sync(low, lane == 9) ? 1u : 0u) + (__any_sync(low, lane == 2) ? 2u : 0u) +
             (__all_sync(low, lane < 8) ? 4u : 0u) + (__all_sync(low, lane < 7) ? 8u : 0u);
}

TEST(Simt, Votes) {
  Array<unsigned> y(32);
  launch<vote_kernel>(1, 32, 0, nullptr, y.data());
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(y.data()[i], 0x49249249u + (i < 8 ? 6u : 0u));
}

__global__ void not_in_its_mask_kernel() { __syncwarp(0x0000ffffu); }
__global__ void source_outside_kernel(int* y) {
  if (threadIdx.x < 16) *y = __shfl_sync(0x0000ffffu, 1, 20);
}
__global__ void waits_for_left_kernel(int* y) {
  if (threadIdx.x == 3) return;
  y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
}
__global__ void two_calls_kernel(int* y) {
  if (threadIdx.x < 16) {
    y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1, 1);
  } else {
    y[threadIdx.x] = static_cast<int>(__ballot_sync(0xffffffffu, true));
  }
}

TEST(Simt, WrongMasksAreCaught) {
  Array<int> y(32);
  expect_names(error_of([] { launch<not_in_its_mask_kernel>(1, 32, 0, nullptr); }),
               {"thread 16", "__syncwarp", "mask"});
  expect_names(error_of([&] { launch<source_outside_kernel>(1, 32, 0, nullptr, y.data()); }), {"lane 20", "mask"});
  expect_names(error_of([&] { launch<waits_for_left_kernel>(1, 32, 0, nullptr, y.data()); }),
               {"no thread can go on", "__shfl_xor_sync", "thread 3 has left"});
  expect_names(error_of([&] { launch<two_calls_kernel>(1, 32, 0, nullptr, y.data()); }),
               {"__ballot_sync", "__shfl_xor_sync", "same mask"});
}

__global__ void atomic_kernel(int* sum, unsigned* least, unsigned* most, int* exchanged, int* first) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(sum, static_cast<int>(i));
  atomicMin(least, i + 5);
  atomicMax(most, i);
  if (i == 20) atomicExch(exchanged, 7);
  if (atomicCAS(first, 0, 1) == 0) atomicAdd(sum, 1000);
}

TEST(Simt, Atomics) {
  Array<int> ints(3);
  Array<unsigned> bounds(2);
  std::fill_n(ints.data(), 3, 0);
  bounds.data()[0] = 1000;
  bounds.data()[1] = 0;
  launch<atomic_kernel>(2, 64, 0, nullptr, ints.data(), bounds.data(), bounds.data() + 1, ints.data() + 1,
                        ints.data() + 2);
  EXPECT_EQ(ints.values(), (std::vector<int>{127 * 64 + 1000, 7, 1}));
  EXPECT_EQ(bounds.values(), (std::vector<unsigned>{5, 127}));
}

struct alignas(16) Four {
  float values[4];
};
__global__ void wide_kernel(const float* x, float* y) {
  *reinterpret_cast<Four*>(y) = *reinterpret_cast<const Four*>(x);
}

TEST(SimtDeathTest, AWideLoadFromAMisalignedAddressIsCaught) {
  Array<float> x(8), y(4);
  launch<wide_kernel>(1, 32, 0, nullptr, x.data() + 4, y.data());
  EXPECT_DEATH(launch<wide_kernel>(1, 32, 0, nullptr, x.data() + 1, y.data()), "misaligned address");
}

TEST(Simt, ImpossibleLaunchesAreRefused) {
  for (const unsigned threads : {0u, 31u, 48u, 1056u}) {
    expect_names(error_of([&] { launch<divergent_kernel>(1, threads, 0, nullptr); }),
                 {"divergent_kernel", "multiple of 32"});
  }
  expect_names(error_of([] { launch<divergent_kernel>(0, 32, 0, nullptr); }), {"grid"});
  expect_names(error_of([] { launch<divergent_kernel>(dim3(1, 65536), 32, 0, nullptr); }), {"grid"});
  expect_names(error_of([] { launch<shared_store_kernel>(1, 32, 101377, nullptr, 0); }), {"shared memory"});
}

TEST(Simt, ALaunchBeyondTheKernelsRowIsRefused) {
  using models::cuda::loss_scale_kernel;
  expect_names(error_of([] { launch<loss_scale_kernel>(1, 64, 0, nullptr); }),
               {"loss_scale_kernel", "a block of 64 threads", "occupancy.def has 32"});
  expect_names(error_of([] { launch<loss_scale_kernel>(1, 32, 4, nullptr); }),
               {"loss_scale_kernel", "4 bytes of shared memory", "occupancy.def has 0"});
}

__global__ void never_launched_kernel() {}
[[maybe_unused]] void never_called() { launch<never_launched_kernel>(1, 32, 0, nullptr); }

TEST(Simt, KernelsAreListedWithWhetherTheyRan) {
  launch<reverse_kernel<true>>(1, 32, 128, nullptr, Array<float>(32).data(), Array<float>(32).data());
  int found = 0;
  for (const KernelRun& kernel : kernels()) {
    if (kernel.name == "tw::simt::reverse_kernel<true>") found += kernel.launched ? 1 : 100;
    if (kernel.name == "tw::simt::never_launched_kernel") found += kernel.launched ? 100 : 10;
  }
  EXPECT_EQ(found, 11);
}

}  // namespace
}  // namespace tw::simt
