// What a report says of its devices' memory, peaks and use, from the devices, the series and the list of vendor peaks.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "results/analysis/trials.hpp"
#include "results/devices/device_figures.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"
#include "results/validation/checks.hpp"

namespace tw::results {
namespace {

/// Text rounding and the order of sums, nothing more.
bool same(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

template <class T>
bool same(const std::optional<T>& stated, const std::optional<T>& computed) {
  if (stated.has_value() != computed.has_value()) return false;
  return !stated || same(static_cast<double>(*stated), static_cast<double>(*computed));
}

void check_peak(const Summary& s, const DeviceFigures& figures, const std::string& at, bool is_newer, Findings& found) {
  if (s.peak_flops_per_s) {
    if (!figures.peak_flops_per_s && is_newer) return;
    if (!same(s.peak_flops_per_s, figures.peak_flops_per_s))
      found.broken("peak_differs", at + "/peak_flops_per_s",
                   figures.peak_flops_per_s
                       ? "is " + text::si(*s.peak_flops_per_s, "FLOP/s") + ", the list of vendor peaks gives " +
                             text::si(*figures.peak_flops_per_s, "FLOP/s")
                       : "must be null: " + figures.no_peak->text());
  } else if (figures.peak_flops_per_s && s.flops_per_s) {
    found.note("mfu_left_out", at + "/mfu",
               "is null, and by the list of vendor peaks it is " +
                   text::significant(s.flops_per_s->value / *figures.peak_flops_per_s));
  }
}

/// The reason is one that the writer gives for these devices, by this version's list of peaks, an older one or none.
void check_reason(const Record& record, const DeviceFigures& figures, std::span<const DeviceEntry> devices,
                  const std::string& at, Findings& found) {
  const Summary& s = record.summary;
  if (s.mfu || s.mfu_reason.empty()) return;
  std::vector<KnownReason> reasons = {{no_list_of_peaks}};
  if (s.peak_flops_per_s) {
    reasons = {{no_throughput}};
  } else if (figures.no_peak) {
    reasons.push_back(*figures.no_peak);
  } else {
    for (const DeviceEntry& device : devices) {
      reasons.push_back({not_in_the_list, {device.name}});
      reasons.push_back({no_dense_peak, {device.name, record.workload.precision}});
    }
  }
  if (std::ranges::none_of(reasons, [&](const KnownReason& one) { return one.known.is(s.mfu_reason, one.values); }))
    found.broken("reason_differs", at + "/mfu_reason",
                 "is none that the program gives for these devices: \"" +
                     (figures.no_peak ? *figures.no_peak : reasons.front()).text() + "\"");
}

void check_gpu(const Summary& s, const DeviceFigures& figures, const std::string& at, Findings& found) {
  if (!s.gpu) return;  // a report from before it was summed up; nobody gains by leaving it out
  const auto broken = [&](const char* field, const std::string& what) {
    found.broken("gpu_use_differs", at + "/gpu" + field, what);
  };
  if (!figures.gpu) return broken("", "is given although no GPU trained");
  const GpuUse &stated = *s.gpu, &computed = *figures.gpu;
  if (stated.gpus != computed.gpus) broken("/gpus", "is not the number of the launch's GPUs");
  const char* const not_series = "is not what the series give";
  if (!same(stated.utilisation, computed.utilisation)) broken("/utilisation", not_series);
  if (!same(stated.sm_active, computed.sm_active)) broken("/sm_active", not_series);
  if (!same(stated.memory_used_bytes, computed.memory_used_bytes)) broken("/memory_used_bytes", not_series);
  if (!same(stated.memory_bytes, computed.memory_bytes)) broken("/memory_bytes", "is not what the devices have");
  if (stated.reason.empty() != computed.reason.empty())
    found.broken("reason_missing", at + "/gpu/reason",
                 computed.reason.empty() ? "is given although nothing is absent" : "is empty: " + computed.reason);
}

/// A GPU of the list has the memory that the list states: another's name would give it another peak. The driver and
/// error correction take some percent of it, and a process may be given a part only, but nothing adds to it.
void check_memory(const DeviceEntry& device, const std::string& at, bool is_own, Findings& found) {
  constexpr double slack = 0.1, gib = 1 << 30;
  if (device.known_kind() != DeviceKind::cuda || is_mig(device)) return;
  const VendorPeak* const row = find_vendor_peak(device.name);
  if (row == nullptr) return;
  if (!device.memory_bytes) {
    if (is_own) found.broken("device_memory", at, "is missing: the program that the report names always writes it");
    return;
  }
  const double own = row->memory_gb * gib, share = static_cast<double>(*device.memory_bytes) / own;
  const std::string what =
      "is " + text::bytes(share * own) + ", and " + device.name + " has " + text::bytes(own) + " by the list";
  if (share > 1 + slack)
    found.broken("device_memory", at, what);
  else if (share < 1 - slack)
    found.note("device_memory", at, what + ": it is another device, or the process may not use all of it");
}

}  // namespace

void check_devices(const Report& report, bool is_newer, Findings& found) {
  for (const RecordedLaunch& launch : launches_of(report)) {
    const bool is_own = is_this_program(*launch.program);
    const std::vector<DeviceEntry>& devices = launch.context->devices;
    for (std::size_t i = 0; i < devices.size(); ++i)
      check_memory(devices[i], launch.where + "/devices/" + std::to_string(i) + "/memory_bytes", is_own, found);
    for (const std::size_t place : launch.records) {
      const Record& record = report.records[place];
      if (is_command(record)) continue;
      const DeviceFigures figures = device_figures(record, valid_trials(record), launch.context->devices);
      const std::string at = place_of(place) + "/summary";
      check_peak(record.summary, figures, at, is_newer, found);
      if (!is_newer && !launch.context->devices.empty())
        check_reason(record, figures, launch.context->devices, at, found);
      check_gpu(record.summary, figures, at, found);
    }
  }
}

}  // namespace tw::results
