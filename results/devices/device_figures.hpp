// Figures of a point that need to know its devices: the vendors' peaks, MFU, how GPUs were used.
#pragma once

#include <optional>
#include <span>

#include "results/record/known_texts.hpp"
#include "results/record/record.hpp"

namespace tw::results {

struct DeviceFigures {
  std::optional<double> peak_flops_per_s;  ///< of Summary
  std::optional<KnownReason> no_peak;      ///< why there is no peak; absent otherwise
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

}  // namespace tw::results
