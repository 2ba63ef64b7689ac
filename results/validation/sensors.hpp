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
inline bool is_kind(const std::string& domain, const char* kind) { return domain.starts_with(std::string(kind) + ":"); }

/// What the name of a domain says of its sensor.
struct DomainKind {
  std::string_view prefix;       ///< of the domain; without a colon: the whole domain
  std::string_view part = {};    ///< which the domain contains
  std::string_view source = {};  ///< kinds of one source name the same sensors in the same way; empty: the kind itself
  Scope scope = Scope::none;     ///< none: several are possible
  bool is_gpu = false;           ///< of a GPU, which alone may be another job's
  bool is_module = false;        ///< of a CPU that shares a module with a GPU
  /// Whether its power in a series is read by itself, and then may be unreadable where the joules are not, is made from
  /// its joules, or comes late and is only near them.
  enum class Power { own_reading, of_joules, near_joules } power = Power::of_joules;
};
/// The first that matches counts. Those of the program that writes reports: power/meter/domain_kinds.hpp.
inline constexpr DomainKind domain_kinds[] = {
    {.prefix = "rapl:", .part = "psys", .scope = Scope::node},
    {.prefix = "rapl:", .part = "dram", .scope = Scope::dram},
    {.prefix = "rapl:", .scope = Scope::package},
    {.prefix = "rapl-mmio:", .source = "rapl"},
    {.prefix = "perf:", .part = "psys", .scope = Scope::node},
    {.prefix = "perf:", .part = "dram", .scope = Scope::dram},
    {.prefix = "perf:", .scope = Scope::package},
    {.prefix = "nvml:",
     .source = "gpu",
     .scope = Scope::device,
     .is_gpu = true,
     .power = DomainKind::Power::own_reading},
    {.prefix = "nvml-power:", .source = "gpu", .scope = Scope::device, .is_gpu = true},
    {.prefix = "amdgpu:", .source = "gpu", .is_gpu = true, .power = DomainKind::Power::own_reading},
    {.prefix = "amdsmi:", .source = "gpu", .is_gpu = true},
    {.prefix = "cray:", .part = "accel", .is_gpu = true},
    {.prefix = "cray:node", .scope = Scope::node},
    {.prefix = "ipmi:", .scope = Scope::node},
    {.prefix = "external", .scope = Scope::node, .power = DomainKind::Power::near_joules},
    {.prefix = "hwmon:", .part = "module", .is_module = true},
    {.prefix = "hwmon:", .part = "grace", .is_module = true},
};

inline const DomainKind& kind_of(const std::string& domain) {
  static constexpr DomainKind unknown{};
  for (const DomainKind& kind : domain_kinds)
    if ((kind.prefix.ends_with(':') ? domain.starts_with(kind.prefix) : domain == kind.prefix) &&
        domain.find(kind.part) != std::string::npos)
      return kind;
  return unknown;
}

/// What names the same sensors in the same way.
inline std::string source_of(const std::string& domain) {
  const std::string_view source = kind_of(domain).source;
  return source.empty() ? domain.substr(0, domain.find(':')) : std::string(source);
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
