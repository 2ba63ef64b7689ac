// Figures of a point that need to know its devices: the vendors' peaks, MFU, how GPUs were used.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

struct DeviceFigures {
  std::optional<double> peak_flops_per_s;  ///< of Summary
  std::string mfu_reason;                  ///< why there is no peak; empty otherwise
  std::optional<GpuUse> gpu;               ///< of Summary
};
/// Of a point whose ranks compute on `devices`, those of its launch, one entry a rank: the point has the first of them.
/// A GPU that several ranks share counts once. `trials`: those that count (results/analysis/trials.hpp).
DeviceFigures device_figures(const Record& record, std::span<const Trial* const> trials,
                             std::span<const DeviceEntry> devices);
/// Puts them into the summary, whose mfu follows by set_mfu(). A metered command keeps what it says.
void set_device_figures(Record& record, DeviceFigures figures);
/// mfu = flops_per_s / peak_flops_per_s, or null with the reason; an existing reason is kept.
void set_mfu(Summary& summary);

/// What reports from before there was a list of peaks say of every device.
/// Reasons of an absent MFU, whole or in part.
inline constexpr const char *no_throughput = "no throughput", *not_in_the_list = ": not in the list of vendor peaks",
                            *no_dense_peak = ": the vendor states no dense peak for ";
inline constexpr const char* no_list_of_peaks = "no vendor peak known for this device";

}  // namespace tw::results
