#include "power/sources/powercap/zones.hpp"

#include <algorithm>
#include <utility>

namespace tw::power::powercap {
namespace {

bool is_mmio(const ZoneName& zone) { return zone.control_type == "intel-rapl-mmio"; }

std::string label(const ZoneName& zone) {
  return std::string(is_mmio(zone) ? "rapl-mmio:" : "rapl:") + (zone.parent.empty() ? "" : zone.parent + "/") +
         zone.name;
}

}  // namespace

std::vector<ZoneUse> classify(const std::vector<ZoneName>& zones) {
  std::vector<ZoneUse> uses;
  for (const ZoneName& zone : zones) {
    ZoneUse use;
    const auto refuse = [&use](const char* why, std::string what) { use.reason = why, use.detail = std::move(what); };
    use.domain = label(zone);
    const auto namesakes =
        std::ranges::count_if(zones, [&](const ZoneName& other) { return label(other) == use.domain; });
    if (namesakes > 1) use.domain += "@" + zone.id;
    const auto mirrored = std::ranges::find_if(zones, [&](const ZoneName& other) {
      return !is_mmio(other) && other.name == zone.name && other.parent == zone.parent;
    });
    const bool psys_before =
        std::ranges::any_of(uses, [](const ZoneUse& other) { return other.scope == EnergyScope::node; });

    if (is_mmio(zone) && mirrored != zones.end()) {
      refuse("duplicate", "mirrors " + label(*mirrored));
    } else if (zone.name == "core" || zone.name == "uncore") {
      refuse("contained", "is part of " + zone.parent);
    } else if (zone.name == "dram") {
      use.scope = EnergyScope::dram;
    } else if (zone.name.starts_with("package-")) {
      use.scope = EnergyScope::package;
    } else if (zone.name.starts_with("psys") && psys_before) {
      refuse("duplicate", "the platform has been counted by another psys zone");
    } else if (zone.name.starts_with("psys")) {
      use.scope = EnergyScope::node;
    } else {
      refuse("unsupported", "zone " + zone.id + " has the unknown name \"" + zone.name + "\"");
    }
    uses.push_back(std::move(use));
  }
  return uses;
}

}  // namespace tw::power::powercap
