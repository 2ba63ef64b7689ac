// Which GPUs a process sees, as one vendor's source finds them.
#pragma once

#include <string>
#include <vector>

namespace tw::power {

/// By domain: "nvml:GPU-…", "amdgpu:0000:c1:00.0".
struct Sight {
  std::vector<std::string> addressable;  ///< whose driver answers this process; NVIDIA's may not answer others
  std::vector<std::string> visible;      ///< that programs of this process may use
  /// Why others may be visible, too: one line with what to do; empty if all of them are known.
  std::string unclear = {};
};

/// A GPU, or an instance of one that is cut into several (MIG), as NVML calls it.
struct GpuName {
  std::string uuid;   ///< "GPU-…", or "MIG-…" of an instance
  std::string whole;  ///< "GPU-…": what has sensors and knobs
};

}  // namespace tw::power
