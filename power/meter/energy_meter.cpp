#include "power/meter/energy_meter.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace tw::power {

const char* to_string(EnergyMethod method) {
  static constexpr const char* names[] = {"counter", "integrated_power", "estimate"};
  return names[static_cast<std::size_t>(method)];
}

const char* to_string(EnergyScope scope) {
#define TW_ENERGY_SCOPE(name, watts) #name,
  static constexpr const char* names[] = {
#include "power/meter/scopes.def"
  };
  return names[static_cast<std::size_t>(scope)];
}

double default_maximum_watts(EnergyScope scope) {
#define TW_ENERGY_SCOPE(name, watts) watts,
  static constexpr double all[] = {
#include "power/meter/scopes.def"
  };
  return all[static_cast<std::size_t>(scope)];
}

#define TW_ENERGY_SOURCE(name, kind) std::vector<MeterFinding> name##_find_meters(const MeterOptions& options);
#include "power/meter/sources.def"

std::vector<MeterFinding> find_meters(const MeterOptions& options, const ChooseMeters& choose) {
  std::vector<MeterFinding> all;
#define TW_ENERGY_SOURCE(name, kind) std::ranges::move(name##_find_meters(options), std::back_inserter(all));
#include "power/meter/sources.def"
  if (choose) choose(all);
  arbitrate(all);
  return all;
}

}  // namespace tw::power
