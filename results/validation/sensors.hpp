// Which sensor a row, a series or a meter of a report is of, and what its name alone says. Internal to the checks.
#pragma once

#include <string>
#include <utility>

#include "results/record/record.hpp"

namespace tw::results {

using Sensor = std::pair<std::string, std::string>;  ///< host, domain

template <class Row>
Sensor sensor_of(const Row& row) {
  return {row.host, row.domain};
}
inline std::string name_of(const Sensor& sensor) { return sensor.second + " on " + sensor.first; }

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

/// Joules that a meter has shown and that are in a total.
inline bool has_counted_joules(const EnergyRow& row) { return row.energy_j && row.counted; }

}  // namespace tw::results
