// Energy of AMD GPUs: the driver's accumulator through AMD SMI, believed only where it agrees with the power that the
// kernel shows of the same card.
#pragma once

#include <filesystem>
#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power::amdsmi {

/// The accumulator's watts over the kernel's, or the kernel's over the accumulator's, above which the accumulator is
/// refused. Wrong resolutions seen in the field are wrong by far more; power is averaged, over up to a second.
inline constexpr double disagreement_factor = 1.5;

/// `pci_devices` as /sys/bus/pci/devices. Watches for half a second, once more where a card disagrees (its load may
/// have changed). The kernel's power itself is a meter of power/sources/hwmon, "amdgpu:0000:c1:00.0": a cross-check
/// beside the accumulator, counted where that is refused.
std::vector<MeterFinding> find_meters_in(const std::filesystem::path& pci_devices);

}  // namespace tw::power::amdsmi
