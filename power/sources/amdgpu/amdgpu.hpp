// AMD GPUs as the kernel shows them: which of them programs may use, which share their package with a CPU, and their
// telemetry.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "power/sources/gpu_sight.hpp"
#include "power/telemetry/telemetry.hpp"

namespace tw::power::amdgpu {

/// What hides GPUs from ROCm's programs; absent if the variable is not set.
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

/// What people must know where a GPU shares its package, and its power sensor, with a CPU.
inline constexpr const char* socket_note = "an APU: the power is the whole socket's, its CPU cores included";

/// Whether it does: `chip` as /sys/class/hwmon/hwmon3 of the driver amdgpu, whose PCI device is chip/device. APUs alone
/// show a voltage of the northbridge (in1_input); MI300A, which shows none, is known by its PCI id. Their
/// power1_average and power1_input include the CPU.
///
/// Source: Linux Documentation/gpu/amdgpu/thermal.rst, drivers/gpu/drm/amd/pm/amdgpu_pm.c.
bool is_integrated(const std::filesystem::path& chip);

/// What the kernel shows of AMD GPUs besides joules, for ordinary users and without ROCm, as domain
/// "amdgpu:0000:c1:00.0": power_w, temperature_c (the hot spot, where there is one), sm_clock_mhz (of the compute
/// units), memory_clock_mhz, utilisation (gpu_busy_percent), memory_used_bytes (mem_info_vram_used). Channels that
/// are not there are absent.
///
/// Source: Linux Documentation/gpu/amdgpu/thermal.rst (labels "junction", "sclk", "mclk").
///
/// `hwmon` as /sys/class/hwmon.
std::vector<TelemetryFinding> find_telemetry_in(const std::filesystem::path& hwmon);

}  // namespace tw::power::amdgpu
