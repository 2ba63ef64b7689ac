// Which AMD GPUs the programs of this process may use.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "power/sources/gpu_sight.hpp"

namespace tw::power::amdgpu {

/// What hides GPUs from ROCm's programs; absent where the variable is not set.
struct Hiding {
  std::optional<std::string> rocr;  ///< ROCR_VISIBLE_DEVICES: numbers or UUIDs; an empty one hides all
  /// HIP_VISIBLE_DEVICES: the same among what the former leaves; an empty one hides none.
  std::optional<std::string> hip;
  /// CUDA_VISIBLE_DEVICES, where it can mean AMD's GPUs: HIP took it for the former where that one is empty or not set,
  /// up to ROCm 7, and later takes no notice.
  std::optional<std::string> cuda = {};
};

/// `driver` as /sys/bus/pci/drivers/amdgpu, `topology` as /sys/class/kfd/kfd/topology/nodes, whose order is ROCm's. A
/// list ends at its first entry that names nothing, as ROCm's runtime has it. GPUs that a cgroup hides cannot be read
/// there (the kernel answers EPERM), get no number, and are not visible; nor is a card that the topology does not know,
/// which no program of ROCm's can use. Where it shows no GPU at all, nothing is known: all cards are visible. All are
/// `addressable`: the kernel shows their sensors to everybody. `unclear` where the versions of HIP differ about what is
/// visible, which is then what the later ones see.
///
/// Source: ROCm documentation, GPU isolation techniques (of 7.1 and of 10.1); Linux
/// drivers/gpu/drm/amd/amdkfd/kfd_topology.c, node_show.
Sight look_in(const std::filesystem::path& driver, const std::filesystem::path& topology, const Hiding& hiding);
/// Of this machine. `beside_nvidia`: there are NVIDIA's GPUs too, which CUDA_VISIBLE_DEVICES is about.
Sight look(bool beside_nvidia);

}  // namespace tw::power::amdgpu
