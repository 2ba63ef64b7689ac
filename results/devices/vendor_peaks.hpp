// What vendors state of their GPUs: dense peaks, memory bandwidth and capacity (results/devices/vendor_peaks.def).
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace tw::results {

struct VendorPeak {
  std::string_view device;                            ///< as its driver reports it: "NVIDIA H100 80GB HBM3"
  double float32 = 0, tf32 = 0, half = 0, fp8 = 0;    ///< TFLOP/s without sparsity; 0: none
  double bandwidth_gb_per_s = 0, memory_gb = 0;
  std::string_view sheet;                             ///< the document of the vendor
  /// FLOP/s at a precision of --precision; absent where the sheet states none.
  std::optional<double> flops_per_s(std::string_view precision) const;
};

std::span<const VendorPeak> vendor_peaks();
/// The row of exactly this name; null where there is none.
const VendorPeak* find_vendor_peak(std::string_view device);

}  // namespace tw::results
