// Which sensor a row, a series or a meter of a report is of, and what its name alone says. Internal to the checks.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "results/record/record.hpp"

namespace tw::results {

using Sensor = std::pair<std::string, std::string>;  ///< host, domain

template <class Row>
Sensor sensor_of(const Row& row) {
  return {row.host, row.domain};
}
inline std::string name_of(const Sensor& sensor) { return sensor.second + " on " + sensor.first; }

/// The only domain listed for a host on a machine whose meters another host reads (EnergyWindow::entries).
constexpr std::string_view whole_machine = "node";

/// "rapl" of "rapl:package-0".
inline bool is_kind(const std::string& domain, const char* kind) {
  return domain.starts_with(std::string(kind) + ":");
}

/// The scope that a domain's name alone says; none where it may have several.
inline Scope scope_of_kind(const std::string& domain) {
  if (is_kind(domain, "rapl") || is_kind(domain, "perf"))
    return domain.find("psys") != std::string::npos   ? Scope::node
           : domain.find("dram") != std::string::npos ? Scope::dram
                                                      : Scope::package;
  if (is_kind(domain, "nvml") || is_kind(domain, "nvml-power")) return Scope::device;
  if (is_kind(domain, "ipmi") || domain == "external" || domain == "cray:node") return Scope::node;
  return {};
}

/// Of a GPU, which alone may be another job's.
inline bool is_gpu(const std::string& domain) {
  return is_kind(domain, "nvml") || is_kind(domain, "nvml-power") || is_kind(domain, "amdgpu") ||
         is_kind(domain, "amdsmi") || domain.starts_with("cray:accel");
}

/// What names the same sensors in the same way (power/meter/arbitration.cpp).
inline std::string source_of(const std::string& domain) {
  if (is_kind(domain, "rapl-mmio")) return "rapl";
  return is_gpu(domain) && !domain.starts_with("cray") ? "gpu" : domain.substr(0, domain.find(':'));
}
/// "package-0" of "rapl:package-0".
inline std::string id_of(const std::string& domain) {
  const std::size_t colon = domain.find(':');
  return colon == std::string::npos ? std::string() : domain.substr(colon + 1);
}

/// Joules that a meter has shown and that are in a total.
inline bool has_counted_joules(const EnergyRow& row) { return row.energy_j && row.counted; }

/// Of the uncertainty of a row with joules, a window and an update period, however large it is said to be: no more than
/// this share of its joules, and what four updates of its counter show, makes up for a difference.
inline double believed(const EnergyRow& row, double share) {
  const double updates = 4 * row.update_period_s.value_or(0) / row.window_s.value_or(1);
  return std::min(row.uncertainty_j.value_or(0), (share + updates) * *row.energy_j);
}

}  // namespace tw::results
