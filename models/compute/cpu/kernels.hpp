// The vectorised loops of the cpu device: one table of functions for each instruction set. The sources kernels_*.cpp
// are compiled once for each of TW_CPU_INSTRUCTION_SETS in a namespace of that name, and the device takes one table at
// run time, so that a program built on one machine runs on another. Those sources call only functions with internal
// linkage: a shared inline function compiled with AVX-512 could otherwise be the copy that the linker keeps for all.
//
// `threads` is the most that a kernel may use; small work runs on the calling thread. Rows and columns are dense unless
// a leading dimension (`ld…`, elements) says otherwise. T is float32 or bf16 as the dtype argument says.
#pragma once

#include <cstdint>

#include "models/compute/operators.hpp"

namespace tw::models::cpu {

using Index = std::int64_t;

struct LabelSmoothing {
  float on_target = 1;   ///< 1 − ε
  float everywhere = 0;  ///< ε / classes
};

struct Kernels {
  const char* name;
#define TW_CPU_KERNEL(result, name, parameters) result(*name) parameters;
#include "models/compute/cpu/kernels.def"
};

namespace baseline {
extern const Kernels table;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
#endif

}  // namespace tw::models::cpu
