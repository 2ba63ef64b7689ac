// RAPL zones as /sys/class/powercap shows them, read and written with libpowercap's sysfs calls.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "power/sources/powercap/zones.hpp"

namespace tw::power::powercap {

inline constexpr const char* class_folder = "/sys/class/powercap";

struct Zone {
  ZoneName name;
  std::array<std::uint32_t, 2> ids{};
  std::uint32_t depth = 1;

  std::string path() const;
  /// 0 or a negative errno.
  int energy_uj(std::uint64_t* value) const;
  int range_uj(std::uint64_t* value) const;
  /// The largest power that the zone's limits let through, or 0 where they let through anything: where the zone is
  /// disabled, states no limit, or one that no board could deliver (how firmware writes "unlimited"). The maximum that
  /// a constraint states is the nominal power (TDP): it may raise the answer, it bounds nothing. peak_power limits the
  /// moment, the others the mean over time, which is what joules see.
  double maximum_watts(double ceiling_watts) const;
};

std::vector<Zone> enumerate();

struct Absence {
  std::string reason, detail, grant;  ///< as a finding's: "no_driver", "permission"
};
/// Why there is no zone at all.
Absence why_no_zones();

}  // namespace tw::power::powercap
