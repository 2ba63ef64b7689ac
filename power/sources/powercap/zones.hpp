// What a RAPL zone is, told by its name (instance numbers are in arbitrary order), and which zones count.
//
// psys contains package; core and uncore lie inside package; package excludes dram; intel-rapl-mmio mirrors package.
// Source: Linux Documentation/power/powercap/powercap.rst and drivers/powercap/intel_rapl_common.c (zone names).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power::powercap {

struct ZoneName {
  std::string control_type;  ///< "intel-rapl" (AMD's too), "intel-rapl-mmio"
  std::string name;          ///< "package-0", "package-0-die-1", "psys", "dram", "core", "uncore"
  std::string parent;        ///< name of the zone around it; empty at the top
  std::string id;            ///< "intel-rapl:0:2"
};

struct ZoneUse {
  std::string domain;  ///< unique: "rapl:package-0", "rapl:package-0/dram", "rapl:psys", "rapl-mmio:package-0"
  std::optional<EnergyScope> scope;  ///< absent if it is not to be opened
  std::string reason, detail;        ///< then why: "contained", "duplicate", "unsupported"
};

/// One answer for each zone, in their order.
std::vector<ZoneUse> classify(const std::vector<ZoneName>& zones);

}  // namespace tw::power::powercap
