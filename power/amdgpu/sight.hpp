// Which AMD GPUs the programs of this process may use.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "power/sight.hpp"

namespace tw::amdgpu {

/// What hides GPUs from ROCm's programs; absent where the variable is not set.
struct Hiding {
  std::optional<std::string> rocr;  ///< ROCR_VISIBLE_DEVICES: numbers or UUIDs; an empty one hides all
  std::optional<std::string>
      hip;  ///< HIP_VISIBLE_DEVICES: the same among what the former leaves; an empty one hides none
};

/// `driver` as /sys/bus/pci/drivers/amdgpu, `topology` as /sys/class/kfd/kfd/topology/nodes, whose order is ROCm's. A
/// list ends at its first entry that names nothing, as ROCm's runtime has it. GPUs that a cgroup hides cannot be read
/// there, and get no number. A card that the topology does not know is nothing that the variables could hide. All are
/// `addressable`: the kernel shows their sensors to everybody.
///
/// Source: ROCm documentation, GPU isolation techniques; Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c.
Sight look_in(const std::filesystem::path& driver, const std::filesystem::path& topology, const Hiding& hiding);
Sight look();

}  // namespace tw::amdgpu
