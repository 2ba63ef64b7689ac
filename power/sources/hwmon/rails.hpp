// What a power or energy sensor of the kernel's hardware monitoring measures, told by its chip and label, and which
// count.
//
// NVIDIA Grace (ACPI power meters, told apart by power1_oem_info): Module Power Socket N contains Grace Power Socket N,
// which contains CPU Power Socket N and SysIO Power Socket N. Source: NVIDIA Grace Performance Tuning Guide. An ACPI
// power meter without such a label measures the system (ACPI specification, 10.4); beside modules it does not count,
// since it would hold theirs. The driver amdgpu's PPT is the power of the card (Linux
// Documentation/gpu/amdgpu/thermal.rst); of an APU, that of the whole socket.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power::hwmon {

struct Rail {
  std::string chip;   ///< the file name: "power_meter", "amd_energy", "ina3221"
  std::string label;  ///< energy1_label, power1_label or power1_oem_info; may be empty
  std::string id;     ///< "hwmon3/power1"
  bool battery = false;
  std::string pci = {};     ///< address of the chip's PCI device, "0000:c1:00.0"; empty if it has none
  bool integrated = false;  ///< a GPU beside CPU cores (amdgpu::is_integrated)
};

struct RailUse {
  std::string domain;                ///< unique: "hwmon:module-0", "hwmon:grace-0", "hwmon:cpu-0", "hwmon:node",
                                     ///< "amdgpu:0000:c1:00.0", "hwmon:hwmon3/power1"
  std::optional<EnergyScope> scope;  ///< absent if it is not to be opened
  std::string reason, detail;        ///< then why: "contained", "duplicate", "unsupported"; detail also of an APU
};

/// One answer for each rail, in their order.
std::vector<RailUse> classify(const std::vector<Rail>& rails);

}  // namespace tw::power::hwmon
