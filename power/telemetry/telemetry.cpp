#include "power/telemetry/telemetry.hpp"

#include <iterator>

namespace tw::power {

#define TW_TELEMETRY_SOURCE(name) std::vector<TelemetryFinding> name##_find_telemetry();
#include "power/telemetry/telemetry.def"

std::vector<TelemetryFinding> find_telemetry() {
  std::vector<TelemetryFinding> all;
#define TW_TELEMETRY_SOURCE(name) std::ranges::move(name##_find_telemetry(), std::back_inserter(all));
#include "power/telemetry/telemetry.def"
  return all;
}

}  // namespace tw::power
