// Figures of a point that need to know its devices: the vendors' peaks, MFU, how GPUs were used; and what vendors state
// of their GPUs: dense peaks, memory bandwidth and capacity (results/devices/vendor_peaks.def).
#pragma once

#include <optional>
#include <span>
#include <string_view>

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

/// A part of a GPU, which has neither its peak nor its memory.
bool is_mig(const DeviceEntry& device);

struct VendorPeak {
  std::string_view device;                          ///< as its driver reports it: "NVIDIA H100 80GB HBM3"
  double float32 = 0, tf32 = 0, half = 0, fp8 = 0;  ///< TFLOP/s without sparsity; 0: none
  double bandwidth_gb_per_s = 0, memory_gb = 0;
  std::string_view sheet;  ///< the document of the vendor
  /// FLOP/s at a precision of --precision; absent where the sheet states none.
  std::optional<double> flops_per_s(std::string_view precision) const;
};

std::span<const VendorPeak> vendor_peaks();
/// The row of exactly this name; null where there is none.
const VendorPeak* find_vendor_peak(std::string_view device);

}  // namespace tw::results
