#include "results/devices/vendor_peaks.hpp"

#include <algorithm>

namespace tw::results {
namespace {

constexpr VendorPeak all_peaks[] = {
#define TW_PEAK(device, float32, tf32, half, fp8, bandwidth, memory, sheet) \
  {device, float32, tf32, half, fp8, bandwidth, memory, sheet},
#include "results/devices/vendor_peaks.def"
};

}  // namespace

std::optional<double> VendorPeak::flops_per_s(std::string_view precision) const {
  const double tera = precision == "float32"                        ? float32
                      : precision == "tf32"                         ? tf32
                      : precision == "bf16" || precision == "fp16" ? half
                      : precision == "fp8"                          ? fp8
                                                                    : 0;
  return tera > 0 ? std::optional(tera * 1e12) : std::nullopt;
}

std::span<const VendorPeak> vendor_peaks() { return all_peaks; }

const VendorPeak* find_vendor_peak(std::string_view device) {
  const auto found = std::ranges::find(all_peaks, device, &VendorPeak::device);
  return found == std::end(all_peaks) ? nullptr : found;
}

}  // namespace tw::results
