// What the kernel sources share: declarations of the kernels of this instruction set, loads and stores that convert,
// and the split of work over threads. Private to kernels_*.cpp; everything here has internal linkage.
#pragma once

#include <omp.h>

#include <cmath>
#include <cstring>

#include "models/compute/cpu/kernels.hpp"
#include "models/compute/formulas.hpp"

#define TW_SIMD _Pragma("omp simd")
#define TW_SIMD_SUM(...) _Pragma(TW_STRING(omp simd reduction(+ : __VA_ARGS__)))
#define TW_STRING(text) #text
// Hot loops stand in functions of their own, with their bounds and pointers as arguments: as part of a lambda that
// captures them by reference, g++ 12 compiles some to scalar code.
#define TW_LOOP __attribute__((noinline)) inline

namespace tw::models::cpu::TW_ISA {

#define TW_CPU_KERNEL(result, name, parameters) result name parameters;
#include "models/compute/cpu/kernels.def"

namespace {

inline void store(float* destination, float value) { *destination = value; }
inline void store(bf16* destination, float value) { *destination = to_bf16(value); }

/// The value as T, for loops that use it again: a variable whose address is taken keeps a loop from being vectorised.
template <class T>
T narrowed(float value) {
  if constexpr (sizeof(T) == sizeof(bf16)) {
    return to_bf16(value);
  } else {
    return value;
  }
}

struct Range {
  Index begin, end;
};

/// Part `part` of [0, count) cut into `parts`, at multiples of `grain`.
inline Range share(Index count, int parts, int part, Index grain) {
  const Index grains = (count + grain - 1) / grain;
  const Index begin = grains * part / parts * grain, end = grains * (part + 1) / parts * grain;
  return {begin < count ? begin : count, end < count ? end : count};
}

/// Waking threads costs microseconds; below this many elements one thread is faster.
constexpr Index serial_elements = 16384;

/// body(part, parts) on up to `threads` threads.
template <class Body>
void in_parallel(int threads, Index elements, Body&& body) {
  if (threads <= 1 || elements <= serial_elements) {
    body(0, 1);
    return;
  }
#pragma omp parallel num_threads(threads)
  body(omp_get_thread_num(), omp_get_num_threads());
}

/// body(range) on up to `threads` threads, each with its part of [0, count).
template <class Body>
void in_shares(int threads, Index elements, Index count, Index grain, Body&& body) {
  in_parallel(threads, elements, [&](int part, int parts) { body(share(count, parts, part, grain)); });
}

/// body(slice, range) for each slice of [0, count): their number, and so a sum over them, does not follow the threads
/// that run them.
template <class Body>
void in_slices(int slices, Index elements, Index count, Index grain, Body&& body) {
  in_parallel(slices, elements, [&](int part, int parts) {
    for (int slice = part; slice < slices; slice += parts) body(slice, share(count, slices, slice, grain));
  });
}

/// Calls the cache lines of `count` elements.
template <class T>
inline void prefetch(const T* x, Index count) {
  for (Index i = 0; i < count; i += static_cast<Index>(64 / sizeof(T))) __builtin_prefetch(x + i);
}

/// body(static_cast<T*>(nullptr)) for the C++ type of `dtype`.
template <class Body>
void with_type(DType dtype, Body&& body) {
  if (dtype == DType::bf16) {
    body(static_cast<bf16*>(nullptr));
  } else {
    body(static_cast<float*>(nullptr));
  }
}

}  // namespace
}  // namespace tw::models::cpu::TW_ISA
