// What the kernels share: element types, wide loads and stores, reductions over warps and blocks, launch shapes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/cuda/kernels/launch.hpp"
#include "models/compute/cuda/kernels/occupancy.hpp"
#include "models/compute/formulas.hpp"

namespace tw::models::cuda {

/// body(static_cast<T*>(nullptr)) for the C++ type of an activation's dtype: the one list of types that kernels are
/// compiled for.
template <class Body>
void with_type(DType dtype, Body&& body) {
  if (dtype == DType::bf16) {
    body(static_cast<bf16*>(nullptr));
  } else if (dtype == DType::fp16) {
    body(static_cast<fp16*>(nullptr));
  } else {
    body(static_cast<float*>(nullptr));
  }
}
/// The same of what a float32 is rounded to; bf16 where `dtype` is no half.
template <class Body>
void with_half(DType dtype, Body&& body) {
  if (dtype == DType::fp16) {
    body(static_cast<fp16*>(nullptr));
  } else {
    body(static_cast<bf16*>(nullptr));
  }
}

template <class T>
__device__ inline T from_float(float value) {
  if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(value);
  } else if constexpr (std::is_same_v<T, fp16>) {
    return to_fp16(value);
  } else {
    return value;
  }
}

// ---- wide accesses ----
constexpr int access_bytes = 16;

/// Elements of T in one access.
template <class T>
constexpr int width_of = access_bytes / static_cast<int>(sizeof(T));

/// N neighbours as they lie in memory, moved by accesses of up to 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N < access_bytes ? sizeof(T) * N : access_bytes) Pack {
  T values[N];
};

/// N neighbours as the kernels compute with them.
template <int N>
struct Floats {
  float values[N];
  __device__ float& operator[](int i) { return values[i]; }
  __device__ float operator[](int i) const { return values[i]; }
};

template <int N, class T>
__device__ inline Pack<T, N> load_pack(const T* p) {
  touches(p, sizeof(T) * N, false);
  return *reinterpret_cast<const Pack<T, N>*>(p);
}
/// Neighbours of two bytes, the first in the lower half.
template <class T>
__device__ inline Floats<2> floats_of(std::uint32_t pair) {
  if constexpr (std::is_same_v<T, bf16>) {
    return {std::bit_cast<float>(pair << 16), std::bit_cast<float>(pair & 0xffff0000u)};
  } else {
    return {to_float(T{static_cast<std::uint16_t>(pair)}), to_float(T{static_cast<std::uint16_t>(pair >> 16)})};
  }
}
/// The same of two floats, by one instruction where there is one.
template <class T>
__device__ inline std::uint32_t pair_of(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  std::uint32_t pair;
  if constexpr (std::is_same_v<T, bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  }
  return pair;
#else
  return from_float<T>(first).bits | static_cast<std::uint32_t>(from_float<T>(second).bits) << 16;
#endif
}
template <int N>
struct Pairs {
  std::uint32_t words[N / 2];
};
template <class T, int N>
constexpr bool in_pairs = sizeof(T) == 2 && N % 2 == 0;

template <class T, int N>
__device__ inline Floats<N> to_floats(const Pack<T, N>& pack) {
  Floats<N> floats;
  if constexpr (in_pairs<T, N>) {
    const auto pairs = std::bit_cast<Pairs<N>>(pack);
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      const Floats<2> two = floats_of<T>(pairs.words[i / 2]);
      floats[i] = two[0];
      floats[i + 1] = two[1];
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) floats[i] = to_float(pack.values[i]);
  }
  return floats;
}
template <int N, class T>
__device__ inline Floats<N> load(const T* p) {
  return to_floats(load_pack<N>(p));
}
/// 16 bytes of global memory at once. (Of a plain store nvcc makes four where it does not see the alignment.)
__device__ inline void store_words(std::uint32_t* p, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                   std::uint32_t d) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(p)), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
#else
  *reinterpret_cast<Pack<std::uint32_t, 4>*>(p) = {{a, b, c, d}};
#endif
}
template <class T, int N>
__device__ inline Pack<T, N> to_pack(const Floats<N>& floats) {
  if constexpr (in_pairs<T, N>) {
    Pairs<N> pairs;
#pragma unroll
    for (int i = 0; i < N; i += 2) pairs.words[i / 2] = pair_of<T>(floats[i], floats[i + 1]);
    return std::bit_cast<Pack<T, N>>(pairs);
  } else {
    Pack<T, N> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) pack.values[i] = from_float<T>(floats[i]);
    return pack;
  }
}
/// To global memory.
template <class T, int N>
__device__ inline void store_pack(T* p, const Pack<T, N>& pack) {
  touches(p, sizeof(T) * N, true);
  if constexpr (sizeof(pack) % access_bytes == 0) {
    struct Words {
      std::uint32_t at[sizeof(pack) / 4];
    };
    const auto words = std::bit_cast<Words>(pack);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(pack) / 4); i += 4)
      store_words(reinterpret_cast<std::uint32_t*>(p) + i, words.at[i], words.at[i + 1], words.at[i + 2],
                  words.at[i + 3]);
  } else {
    *reinterpret_cast<Pack<T, N>*>(p) = pack;
  }
}
template <class T, int N>
__device__ inline void store(T* p, const Floats<N>& floats) {
  store_pack(p, to_pack<T>(floats));
}
/// The first `count` of N; the rest is `otherwise`.
template <int N, class T>
__device__ inline Floats<N> load_some(const T* p, Index count, float otherwise = 0) {
  if (count >= N) return load<N>(p);
  Floats<N> floats;
#pragma unroll
  for (int i = 0; i < N; ++i) floats[i] = i < count ? load<1>(p + i)[0] : otherwise;
  return floats;
}

/// Whether N neighbours at multiples of N from each address may be moved by wide accesses (an absent tensor does not
/// matter).
template <int N>
bool aligned(std::initializer_list<Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    const std::size_t wanted = std::min<std::size_t>(size_of(tensor.dtype) * N, access_bytes);
    if (reinterpret_cast<std::uintptr_t>(tensor.data) % wanted != 0) return false;
  }
  return true;
}
inline bool aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % access_bytes == 0; }

/// body.template operator()<T, N>() for the C++ type of `dtype`; N fills an access where lines of `width` elements are
/// whole packs of that many and all addresses are aligned (an absent tensor's is), else it is 1.
template <class Body>
void with_packs(DType dtype, Index width, std::initializer_list<const void*> addresses, Body&& body) {
  bool are_aligned = true;
  for (const void* address : addresses) are_aligned = are_aligned && aligned(address);
  with_type(dtype, [&]<class T>(T*) {
    if (are_aligned && width % width_of<T> == 0)
      body.template operator()<T, width_of<T>>();
    else
      body.template operator()<T, 1>();
  });
}

// ---- reductions ----
constexpr int warp_size = 32;
constexpr unsigned all_lanes = 0xffffffffu;

/// Over all 32 lanes; each gets the same bits.
template <class T>
__device__ inline T warp_sum(T value) {
#pragma unroll
  for (int distance = warp_size / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(all_lanes, value, distance);
  return value;
}

/// `count` values over all threads of a one-dimensional block, brought together by `combine` (which must not depend on
/// the order of its two) in a fixed order; each thread gets the same bits. The caller separates calls with the same
/// scratch by a barrier.
template <int count, class T, class Combine>
__device__ inline void block_combine(T (&values)[count], T* scratch /* count · warps */, Combine&& combine) {
  const int warp = static_cast<int>(threadIdx.x) / warp_size, warps = static_cast<int>(blockDim.x) / warp_size;
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int distance = warp_size / 2; distance > 0; distance /= 2)
      values[i] = combine(values[i], __shfl_xor_sync(all_lanes, values[i], distance));
  }
  if (warps == 1) return;
  if (threadIdx.x % warp_size == 0) {
#pragma unroll
    for (int i = 0; i < count; ++i) scratch[warp * count + i] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = scratch[i];
  for (int other = 1; other < warps; ++other) {
#pragma unroll
    for (int i = 0; i < count; ++i) values[i] = combine(values[i], scratch[other * count + i]);
  }
}
template <int count, class T>
__device__ inline void block_sum(T (&values)[count], T* scratch /* count · warps */) {
  block_combine(values, scratch, [](T a, T b) { return a + b; });
}

// ---- functions ----
/// e^x for x ≤ 0, as a softmax wants it: one instruction for 2^y, relative error < 2^-21.9 + |x|·2^-23, zero below
/// 2^-126; exactly 1 at 0, and a NaN stays.
__device__ inline float exponential_below_one(float x) {
  const float y = x * 1.44269504088896341f;
#if defined(__CUDA_ARCH__)
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(y));  // exp2f spends three more on denormal results
  return power;
#else
  return ::exp2f(y);
#endif
}

/// The tanh form, which linear layers fuse.
struct Gelu {
  __device__ static float value(float x) { return formula::gelu(x); }
  __device__ static float derivative(float x) { return formula::gelu_derivative(x); }
};

// ---- launch shapes ----
constexpr Index ceil_div(Index count, Index by) { return (count + by - 1) / by; }
constexpr int round_to_warps(Index threads) { return static_cast<int>(ceil_div(threads, warp_size) * warp_size); }
constexpr Index power_of_two_from(Index count) {
  return static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

__device__ inline Index first_index() { return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline Index index_step() { return static_cast<Index>(gridDim.x) * blockDim.x; }

/// op.template at<N>(i) for elements [i, i + N) of `packs` packs, at<1>(i) for the rest.
template <int N, class Op>
__global__ void map_kernel(Op op, Index packs, Index count) {
  for (Index i = first_index(); i < packs; i += index_step()) op.template at<N>(i * N);
  for (Index i = packs * N + first_index(); i < count; i += index_step()) op.template at<1>(i);
}

/// `wide`: packs of N may be used.
template <int N, class Op>
void map(cudaStream_t stream, const Op& op, Index count, bool wide) {
  constexpr Index threads = occupancy::map_kernel.threads, most_blocks = 4096;  // the kernel strides over the rest
  const Index packs = wide ? count / N : 0;
  const Index blocks = std::clamp<Index>(ceil_div(packs > 0 ? packs : count, threads), 1, most_blocks);
  launch<map_kernel<N, Op>>(static_cast<unsigned>(blocks), threads, 0, stream, op, packs, count);
}

}  // namespace tw::models::cuda
