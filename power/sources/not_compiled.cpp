// Stands in for the sources and knobs whose library was not there at build time.
#include <initializer_list>

#include "power/knob/knob.hpp"
#include "power/meter/energy_meter.hpp"

namespace tw::power {
namespace {

[[maybe_unused]] std::string advice(const std::string& library) {
  return "built without " + library + ": install " + library + "-dev, configure and build again";
}

[[maybe_unused]] std::string package(const std::string& library) {
  return "the package " + library + "-dev at build time";
}

[[maybe_unused]] std::vector<KnobFinding> no_knobs(std::initializer_list<KnobKind> kinds, const std::string& domain,
                                                   const std::string& library) {
  std::vector<KnobFinding> findings;
  for (const KnobKind kind : kinds)
    findings.push_back({.kind = kind,
                        .domain = domain,
                        .reason = "not_compiled",
                        .detail = advice(library),
                        .grant = package(library)});
  return findings;
}

}  // namespace

#ifdef TW_NO_POWERCAP
std::vector<MeterFinding> powercap_find_meters(const MeterOptions&) {
  return MeterFinding::only(
      {.domain = "rapl", .reason = "not_compiled", .detail = advice("libpowercap"), .grant = package("libpowercap")});
}
std::vector<KnobFinding> powercap_find_knobs() { return no_knobs({KnobKind::cpu_power_limit}, "rapl", "libpowercap"); }
#endif
#ifdef TW_NO_CPUPOWER
std::vector<KnobFinding> cpufreq_find_knobs() {
  return no_knobs({KnobKind::cpu_frequency, KnobKind::cpu_governor}, "cpu", "libcpupower");
}
#endif

}  // namespace tw::power
