// Stands in for the sources and knobs whose library was not there at build time.
#include <utility>

#include "power/knob/knob.hpp"
#include "power/meter/energy_meter.hpp"

namespace tw::power {
namespace {

std::string advice(const std::string& library) {
  return "built without " + library + ": install " + library + "-dev, configure and build again";
}

[[maybe_unused]] std::vector<MeterFinding> no_meters(const std::string& domain, const std::string& library) {
  std::vector<MeterFinding> findings(1);
  findings[0].domain = domain;
  findings[0].reason = "not_compiled";
  findings[0].detail = advice(library);
  findings[0].grant = "the package " + library + "-dev at build time";
  return findings;
}

[[maybe_unused]] std::vector<KnobFinding> no_knobs(KnobKind kind, const std::string& domain,
                                                   const std::string& library) {
  std::vector<KnobFinding> findings(1);
  findings[0].kind = kind;
  findings[0].domain = domain;
  findings[0].reason = "not_compiled";
  findings[0].detail = advice(library);
  findings[0].grant = "the package " + library + "-dev at build time";
  return findings;
}

}  // namespace

#ifdef TW_NO_POWERCAP
std::vector<MeterFinding> powercap_find_meters(const MeterOptions&) { return no_meters("rapl", "libpowercap"); }
std::vector<KnobFinding> powercap_find_knobs() { return no_knobs(KnobKind::cpu_power_limit, "rapl", "libpowercap"); }
#endif
#ifdef TW_NO_CPUPOWER
std::vector<KnobFinding> cpufreq_find_knobs() {
  std::vector<KnobFinding> findings = no_knobs(KnobKind::cpu_frequency, "cpu", "libcpupower");
  for (KnobFinding& governor : no_knobs(KnobKind::cpu_governor, "cpu", "libcpupower"))
    findings.push_back(std::move(governor));
  return findings;
}
#endif

}  // namespace tw::power
