// The NVML source alone: what other sources find on this machine plays no part.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "power/knob/knob.hpp"
#include "power/meter/energy_meter.hpp"
#include "power/telemetry/telemetry.hpp"

namespace tw {

namespace power {
std::vector<MeterFinding> nvml_find_meters(const MeterOptions& options);
std::vector<TelemetryFinding> nvml_find_telemetry();
std::vector<KnobFinding> nvml_find_knobs();
}  // namespace power

/// The finding of a domain (and kind); throws std::runtime_error where there is none.
template <typename Finding>
Finding& of_domain(std::vector<Finding>& findings, const std::string& domain) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](auto& one) { return one.domain == domain; });
  if (found == findings.end()) throw std::runtime_error("no finding of " + domain);
  return *found;
}
inline power::KnobFinding& of_kind(std::vector<power::KnobFinding>& findings, power::KnobKind kind,
                                   const std::string& domain) {
  const auto found = std::find_if(findings.begin(), findings.end(),
                                  [&](auto& one) { return one.kind == kind && one.domain == domain; });
  if (found == findings.end()) throw std::runtime_error("no knob of " + domain);
  return *found;
}

}  // namespace tw
