// The kinds of domains, and what follows from each. A domain names a sensor as "KIND:ID", or as "KIND" where a source
// has one sensor: "rapl:package-0", "nvml:GPU-…", "external".
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

namespace tw::power {

struct DomainKind {
  std::string_view name;
  std::string_view source;    ///< kinds of one source name the same sensors by the same ids
  std::string_view gpu = {};  ///< the kind by which ranks name the GPU that such a sensor is of; empty: of no GPU
};

/// Sources by trust where completeness and method are equal. Counters: Cray's cover the whole node at its supply; psys
/// what the board's maker wired to it. Powers: a site's own meter was chosen on purpose and sees the supply's losses;
/// the management controller sees them too, at a second's pace; a module's sensor sees neither fans nor network cards.
/// results/validation/sensors.hpp has what a report's reader knows of the same kinds.
inline constexpr DomainKind domain_kinds[] = {
    {"cray", "cray"},
    {"rapl", "rapl"},
    {"rapl-mmio", "rapl"},
    {"nvml", "gpu", "nvml"},
    {"nvml-power", "gpu", "nvml"},
    {"amdgpu", "gpu", "amdgpu"},
    {"amdsmi", "gpu", "amdgpu"},
    {"perf", "perf"},
    {"external", "external"},
    {"ipmi", "ipmi"},
    {"hwmon", "hwmon"},
    {"estimate", "estimate"},
};

/// Of a domain; of a kind that the list lacks, one with its name as source.
inline DomainKind kind_of(std::string_view domain) {
  const std::string_view name = domain.substr(0, domain.find(':'));
  const auto* const known = std::ranges::find(domain_kinds, name, &DomainKind::name);
  return known == std::end(domain_kinds) ? DomainKind{name, name} : *known;
}
/// "package-0" of "rapl:package-0"; empty without a colon.
inline std::string id_of(std::string_view domain) {
  const std::size_t colon = domain.find(':');
  return colon == std::string_view::npos ? std::string() : std::string(domain.substr(colon + 1));
}
/// By which name ranks know the GPU that the sensor is of: "nvml:GPU-…" also of "nvml-power:GPU-…"; empty if of none.
inline std::string gpu_of(std::string_view domain) {
  const std::string_view gpu = kind_of(domain).gpu;
  return gpu.empty() || domain.find(':') == std::string_view::npos ? std::string()
                                                                   : std::string(gpu) + ":" + id_of(domain);
}
/// The place of a source in the order of trust; behind all others if the list lacks it.
inline std::ptrdiff_t rank_of_source(std::string_view source) {
  return std::ranges::find(domain_kinds, source, &DomainKind::source) - std::begin(domain_kinds);
}

}  // namespace tw::power
