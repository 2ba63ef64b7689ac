// Which GPUs a process sees.
#pragma once

#include <string>
#include <vector>

namespace tw {

/// By domain: "nvml:GPU-…", "amdgpu:0000:c1:00.0".
struct Sight {
  std::vector<std::string> addressable;  ///< whose driver answers this process; NVIDIA's may not answer others
  std::vector<std::string> visible;      ///< that programs of this process may use
  /// Why others may be visible, too: one line with what to do; empty where all of them are known.
  std::string unclear = {};
};

/// Of all makers whose GPUs we meter.
Sight look();

}  // namespace tw
