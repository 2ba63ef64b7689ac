// Which kind of device a program computes on.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "models/compute/registry.hpp"
#include "power/visible_gpus.hpp"

namespace tw::bench {

struct DeviceChoice {
  std::string name, note;  ///< a line to say about it; may be empty
  int visible = 1;         ///< devices of that kind which this process is shown
};

/// The NVIDIA GPU that programs of this process may use, whether this one can or not: "NVML shows GPU-…", or, where
/// NVML does not answer, "/dev/nvidia0 is there"; empty if there is none, CUDA_VISIBLE_DEVICES names none, or a
/// cgroup keeps the device files away.
std::string visible_gpu();
/// The same of what was seen: the device files under `root`, and the variable's text, null if it is unset.
std::string visible_gpu(const power::Sight& sight, const std::filesystem::path& root, const char* named);

/// `auto` takes CUDA where a GPU is visible, and says so; a visible GPU that cannot be used is Error{environment},
/// never a silent CPU run. `cpu` where a usable GPU is visible says that it is not used.
DeviceChoice choose_device(const std::string& wanted);
DeviceChoice choose_device(const std::string& wanted, const std::vector<models::Backend>& backends,
                           const std::function<std::string()>& visible_gpu);

}  // namespace tw::bench
