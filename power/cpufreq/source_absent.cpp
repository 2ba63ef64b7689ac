// Stands in for the CPU frequency knob where libcpupower was not there at build time.
#include "power/knob.hpp"

namespace tw {

std::vector<KnobFinding> cpufreq_find_knobs() {
  std::vector<KnobFinding> findings(1);
  findings[0].kind = KnobKind::cpu_frequency;
  findings[0].domain = "cpu";
  findings[0].reason = "not_compiled";
  findings[0].detail = "built without libcpupower: install libcpupower-dev, configure and build again";
  return findings;
}

}  // namespace tw
