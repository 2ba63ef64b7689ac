#include "power/telemetry/telemetry.hpp"

#include <iterator>

namespace tw::power {

#define TW_TELEMETRY_SOURCE(name) std::vector<TelemetryFinding> name##_find_telemetry();
#include "power/telemetry/telemetry.def"
#undef TW_TELEMETRY_SOURCE

std::vector<TelemetryFinding> find_telemetry() {
  std::vector<TelemetryFinding> all;
#define TW_TELEMETRY_SOURCE(name)                                                                        \
  {                                                                                                      \
    std::vector<TelemetryFinding> found = name##_find_telemetry();                                       \
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end())); \
  }
#include "power/telemetry/telemetry.def"
#undef TW_TELEMETRY_SOURCE
  return all;
}

}  // namespace tw::power
