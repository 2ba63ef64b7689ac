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

/// A GPU, or an instance of one that is cut into several (MIG), as NVML calls it.
struct GpuName {
  std::string uuid;   ///< "GPU-…", or "MIG-…" of an instance
  std::string whole;  ///< "GPU-…": what has sensors and knobs
};
/// Of what the CUDA runtime calls `uuid`, which from version 13 on is the instance's under MIG and looks like a GPU's;
/// `uuid` itself where NVML knows no better.
GpuName name_of_gpu(const std::string& uuid);

}  // namespace tw
