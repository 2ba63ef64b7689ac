// Which GPUs a process sees.
#pragma once

#include <string>
#include <vector>

namespace tw {

/// By domain: "nvml:GPU-…", "amdgpu:0000:c1:00.0".
struct Sight {
  std::vector<std::string> addressable;  ///< whose driver answers this process; NVIDIA's may not answer others
  std::vector<std::string> visible;      ///< that programs of this process may use
};

/// Of all makers whose GPUs we meter.
Sight look();

}  // namespace tw
