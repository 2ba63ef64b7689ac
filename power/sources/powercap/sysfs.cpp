#include "power/sources/powercap/sysfs.hpp"

#include <powercap-sysfs.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <filesystem>

#include "power/meter/number_text.hpp"

namespace tw::power::powercap {
namespace {

constexpr std::uint32_t top_zones = 128, sub_zones = 16;  // instances asked for; numbers may have gaps

std::string zone_name(const char* control_type, const std::uint32_t* ids, std::uint32_t depth) {
  char text[128] = {};
  return powercap_sysfs_zone_get_name(control_type, ids, depth, text, sizeof text - 1) < 0 ? std::string()
                                                                                           : std::string(text);
}

}  // namespace

std::string Zone::path() const {
  std::string text = std::string(class_folder) + "/" + name.control_type, id = name.control_type;
  for (std::uint32_t level = 0; level < depth; ++level) {
    id += formatted(":%" PRIx32, ids[level]);
    text += "/" + id;
  }
  return text;
}

int Zone::energy_uj(std::uint64_t* value) const {
  return powercap_sysfs_zone_get_energy_uj(name.control_type.c_str(), ids.data(), depth, value);
}

int Zone::range_uj(std::uint64_t* value) const {
  return powercap_sysfs_zone_get_max_energy_range_uj(name.control_type.c_str(), ids.data(), depth, value);
}

double Zone::maximum_watts(double ceiling_watts) const {
  const char* type = name.control_type.c_str();
  std::uint32_t enabled = 0;
  if (powercap_sysfs_zone_get_enabled(type, ids.data(), depth, &enabled) != 0 || enabled == 0) return 0;
  std::uint64_t largest_limit_uw = 0, largest_nominal_uw = 0;
  for (std::uint32_t constraint = 0; constraint < 8; ++constraint) {
    char label[32] = {};
    if (powercap_sysfs_constraint_get_name(type, ids.data(), depth, constraint, label, sizeof label - 1) > 0 &&
        std::strcmp(label, "peak_power") == 0)
      continue;
    std::uint64_t value = 0;
    if (powercap_sysfs_constraint_get_power_limit_uw(type, ids.data(), depth, constraint, &value) == 0)
      largest_limit_uw = std::max(largest_limit_uw, value);
    if (powercap_sysfs_constraint_get_max_power_uw(type, ids.data(), depth, constraint, &value) == 0 &&
        static_cast<double>(value) <= ceiling_watts * 1e6)
      largest_nominal_uw = std::max(largest_nominal_uw, value);
  }
  // A limit says what is allowed now; where it was lowered, and no nominal power tells, more may be allowed later.
  if (largest_limit_uw == 0 || largest_nominal_uw == 0) return 0;
  if (static_cast<double>(largest_limit_uw) > ceiling_watts * 1e6) return 0;
  return static_cast<double>(std::max(largest_limit_uw, largest_nominal_uw)) * 1e-6;
}

std::vector<Zone> enumerate() {
  std::vector<Zone> zones;
  for (const char* type : {"intel-rapl", "intel-rapl-mmio"}) {
    if (powercap_sysfs_control_type_exists(type) != 0) continue;
    const auto add = [&](std::array<std::uint32_t, 2> ids, std::uint32_t depth, const std::string& parent) {
      if (powercap_sysfs_zone_exists(type, ids.data(), depth) != 0) return false;
      Zone zone{{type, zone_name(type, ids.data(), depth), parent, {}}, ids, depth};
      zone.name.id = std::filesystem::path(zone.path()).filename().string();
      zones.push_back(std::move(zone));
      return true;
    };
    for (std::uint32_t top = 0; top < top_zones; ++top)
      if (add({top, 0}, 1, "")) {
        const std::string parent = zones.back().name.name;
        for (std::uint32_t sub = 0; sub < sub_zones; ++sub) add({top, sub}, 2, parent);
      }
  }
  return zones;
}

Absence why_no_zones() {
  const std::filesystem::path type = std::filesystem::path(class_folder) / "intel-rapl";
  std::error_code ignored;
  if (std::filesystem::is_symlink(type, ignored) && !std::filesystem::exists(type, ignored))
    return {"permission",
            type.string() +
                " is a broken link: the container hides /sys/devices/virtual/powercap; run outside "
                "it, or have it unmasked",
            ""};
  if (std::filesystem::exists(type, ignored))
    return {"no_driver", type.string() + " has no zones: this CPU or virtual machine shows no energy counter", ""};
  return {"no_driver",
          type.string() +
              " does not exist: load the module intel_rapl_msr; most virtual machines and non-x86 "
              "CPUs have none",
          "modprobe intel_rapl_msr"};
}

}  // namespace tw::power::powercap
