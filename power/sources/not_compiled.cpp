// Stands in for the source and the knob of libpowercap where it was not there at build time.
#ifdef TW_NO_POWERCAP
#include "power/knob/knob.hpp"
#include "power/meter/energy_meter.hpp"

namespace tw::power {
namespace {

constexpr const char* advice = "built without libpowercap: install libpowercap-dev, configure and build again";
constexpr const char* package = "the package libpowercap-dev at build time";

}  // namespace

std::vector<MeterFinding> powercap_find_meters(const MeterOptions&) {
  return MeterFinding::only({.domain = "rapl", .reason = "not_compiled", .detail = advice, .grant = package});
}
std::vector<KnobFinding> powercap_find_knobs() {
  std::vector<KnobFinding> findings;
  findings.push_back({.kind = KnobKind::cpu_power_limit,
                      .domain = "rapl",
                      .reason = "not_compiled",
                      .detail = advice,
                      .grant = package});
  return findings;
}

}  // namespace tw::power
#endif
