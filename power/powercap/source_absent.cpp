// Stands in for the powercap meters and knobs where libpowercap was not there at build time.
#include "power/energy_meter.hpp"
#include "power/knob.hpp"

namespace tw {

std::vector<MeterFinding> powercap_find_meters(const MeterOptions&) {
  std::vector<MeterFinding> findings(1);
  findings[0].domain = "rapl";
  findings[0].reason = "not_compiled";
  findings[0].detail = "built without libpowercap: install libpowercap-dev, configure and build again";
  findings[0].grant = "the package libpowercap-dev at build time";
  return findings;
}

std::vector<KnobFinding> powercap_find_knobs() {
  std::vector<KnobFinding> findings(1);
  findings[0].kind = KnobKind::cpu_power_limit;
  findings[0].domain = "rapl";
  findings[0].reason = "not_compiled";
  findings[0].detail = "built without libpowercap: install libpowercap-dev, configure and build again";
  return findings;
}

}  // namespace tw
