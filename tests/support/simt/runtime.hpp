// The made-up GPU behind the stand-in for CUDA's runtime (runtime.cpp).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tw::simt {

struct StandInGpu {
  int architecture = 90;
  std::size_t memory_bytes = std::size_t{64} << 20;
  std::vector<std::string> calls;  ///< that allocate or wait, in their order
};
StandInGpu& gpu();

}  // namespace tw::simt
