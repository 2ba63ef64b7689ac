#include "tests/fuzz/steps.hpp"

volatile std::uint64_t tw::fuzz::steps = 0;

/// The compiler calls it in each basic block. This source is compiled without.
extern "C" void __sanitizer_cov_trace_pc();
extern "C" void __sanitizer_cov_trace_pc() { tw::fuzz::steps = tw::fuzz::steps + 1; }
