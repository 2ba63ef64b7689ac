// The table of this instruction set.
#include "models/compute/cpu/kernel_support.hpp"

#define TW_CPU_TEXT_(text) #text
#define TW_CPU_TEXT(text) TW_CPU_TEXT_(text)

namespace tw::models::cpu::TW_ISA {

const Kernels table = {
    TW_CPU_TEXT(TW_ISA),
#define TW_CPU_KERNEL(result, name, parameters) name,
#include "models/compute/cpu/kernels.def"
};

}  // namespace tw::models::cpu::TW_ISA
