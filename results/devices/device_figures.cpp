#include "results/devices/device_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace tw::results {
namespace {

constexpr std::string_view mig_prefix = "MIG-";

bool is_gpu(const DeviceEntry& device) { return device.known_kind() == DeviceKind::cuda; }

/// The devices of the point's ranks, each once, in the order of the ranks.
std::vector<const DeviceEntry*> devices_of(const Record& record, std::span<const DeviceEntry> devices) {
  std::vector<const DeviceEntry*> mine;
  std::set<std::pair<std::string, std::string>> known;
  for (const DeviceEntry& device : devices) {
    if (device.rank >= record.workload.ranks) continue;
    if (device.uuid.empty() || known.emplace(device.host, device.uuid).second) mine.push_back(&device);
  }
  return mine;
}

/// Why there is no peak of this device at this precision; absent where there is one, which is added to `sum`.
std::optional<KnownReason> add_peak(const DeviceEntry& device, const std::string& precision, double& sum) {
  if (!is_gpu(device)) return KnownReason{no_peak_of_kind, {device.kind}};
  if (is_mig(device)) return KnownReason{no_peak_of_mig, {device.name}};
  const VendorPeak* row = find_vendor_peak(device.name);
  if (row == nullptr) return KnownReason{not_in_the_list, {device.name}};
  const std::optional<double> peak = row->flops_per_s(precision);
  if (!peak) return KnownReason{no_dense_peak, {device.name, precision}};
  sum += *peak;
  return std::nullopt;
}

/// Mean of a series along its window. An entry stands for the time to the next one.
std::optional<double> mean_of(const SeriesRow& row, double window_s) {
  const std::size_t count = std::min(row.time_s.size(), row.mean.size());
  double sum = 0, weights = 0, plain = 0;
  std::size_t values = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double end = i + 1 < count ? row.time_s[i + 1] : window_s, weight = std::max(0.0, end - row.time_s[i]);
    if (!std::isfinite(row.mean[i]) || !std::isfinite(weight)) continue;
    sum += weight * row.mean[i], weights += weight, plain += row.mean[i];
    ++values;
  }
  if (values == 0) return std::nullopt;
  return weights > 0 ? sum / weights : plain / static_cast<double>(values);
}

class UseOfGpus {
 public:
  UseOfGpus(std::vector<const DeviceEntry*> gpus, std::span<const Trial* const> trials)
      : gpus_(std::move(gpus)), trials_(trials) {}

  GpuUse use() {
    GpuUse use;
    use.gpus = static_cast<int>(gpus_.size());
    for (const DeviceEntry* gpu : gpus_)
      if (gpu->memory_bytes) use.memory_bytes = std::min(*gpu->memory_bytes, use.memory_bytes.value_or(UINT64_MAX));
    if (!use.memory_bytes) reasons_.emplace_back("memory_bytes: not recorded");
    use.utilisation = share_of("utilisation");
    use.sm_active = share_of("sm_active");
    double most = 0;
    if (each("memory_used_bytes", [&](const SeriesRow& row, double) {
          double mine = 0;
          for (const double value : row.maximum)
            if (std::isfinite(value)) mine = std::max(mine, value);
          most = std::max(most, mine);
          return mine > 0;
        }))
      use.memory_used_bytes = static_cast<std::uint64_t>(most);
    for (const std::string& reason : reasons_) use.reason += (use.reason.empty() ? "" : "; ") + reason;
    return use;
  }

 private:
  /// Calls `take` with the series of each GPU in each trial, until one says that it has no value. Whether all had one.
  template <class Take>
  bool each(const std::string& quantity, Take take) {
    if (trials_.empty()) return reasons_.push_back(quantity + ": no valid trial"), false;
    for (const Trial* trial : trials_)
      for (const DeviceEntry* gpu : gpus_) {
        if (is_mig(*gpu)) return reasons_.push_back(quantity + ": a MIG instance has no sensor of its own"), false;
        const std::string domain = "nvml:" + gpu->uuid;
        const auto row = std::ranges::find_if(
            trial->series, [&](const SeriesRow& one) { return one.domain == domain && one.quantity == quantity; });
        if (row == trial->series.end() || !take(*row, trial->window_s))
          return reasons_.push_back(fmt::format("{}: {} recorded none", quantity, domain)), false;
      }
    return true;
  }
  /// Mean over the GPUs, and over the trials by the length of their windows.
  std::optional<double> share_of(const std::string& quantity) {
    double sum = 0, weights = 0;
    const bool has_all = each(quantity, [&](const SeriesRow& row, double window_s) {
      const std::optional<double> mean = mean_of(row, window_s);
      if (mean) sum += window_s * *mean, weights += window_s;
      return mean.has_value();
    });
    return has_all && weights > 0 ? std::optional(sum / weights) : std::nullopt;
  }

  std::vector<const DeviceEntry*> gpus_;
  std::span<const Trial* const> trials_;
  std::vector<std::string> reasons_;
};

constexpr VendorPeak all_peaks[] = {
#define TW_PEAK(device, float32, tf32, half, fp8, bandwidth, memory, sheet) \
  {device, float32, tf32, half, fp8, bandwidth, memory, sheet},
#include "results/devices/vendor_peaks.def"
};

}  // namespace

bool is_mig(const DeviceEntry& device) {
  return device.uuid.starts_with(mig_prefix) || device.name.find(" MIG ") != std::string::npos;
}

DeviceFigures device_figures(const Record& record, std::span<const Trial* const> trials,
                             std::span<const DeviceEntry> devices) {
  DeviceFigures figures;
  const std::vector<const DeviceEntry*> mine = devices_of(record, devices);
  double sum = 0;
  if (mine.empty()) figures.no_peak = KnownReason{no_list_of_peaks};
  for (const DeviceEntry* device : mine)
    if (!figures.no_peak) figures.no_peak = add_peak(*device, record.workload.precision, sum);
  if (!figures.no_peak) figures.peak_flops_per_s = sum;
  if (!trials.empty() && !mine.empty() &&
      std::ranges::all_of(mine, [](const DeviceEntry* one) { return is_gpu(*one); }))
    figures.gpu = UseOfGpus(mine, trials).use();
  return figures;
}

void set_device_figures(Record& record, DeviceFigures figures) {
  if (is_command(record)) return;
  Summary& s = record.summary;
  s.peak_flops_per_s = figures.peak_flops_per_s, s.gpu = std::move(figures.gpu);
  s.mfu_reason = figures.no_peak ? figures.no_peak->text() : "";
  set_mfu(s);
}

void set_mfu(Summary& s) {
  s.mfu.reset();
  if (s.flops_per_s && s.peak_flops_per_s && *s.peak_flops_per_s > 0) {
    s.mfu = s.flops_per_s->value / *s.peak_flops_per_s;
    s.mfu_reason.clear();
  } else if (s.mfu_reason.empty()) {
    s.mfu_reason = (s.peak_flops_per_s ? no_throughput : no_list_of_peaks).text();
  }
}

std::optional<double> VendorPeak::flops_per_s(std::string_view precision) const {
  const double tera = precision == "float32"                       ? float32
                      : precision == "tf32"                        ? tf32
                      : precision == "bf16" || precision == "fp16" ? half
                      : precision == "fp8"                         ? fp8
                                                                   : 0;
  return tera > 0 ? std::optional(tera * 1e12) : std::nullopt;
}

std::span<const VendorPeak> vendor_peaks() { return all_peaks; }

const VendorPeak* find_vendor_peak(std::string_view device) {
  const auto found = std::ranges::find(all_peaks, device, &VendorPeak::device);
  return found == std::end(all_peaks) ? nullptr : found;
}

}  // namespace tw::results
