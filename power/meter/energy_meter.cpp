#include "power/meter/energy_meter.hpp"

#include <iterator>

#include "power/meter/arbitration.hpp"

namespace tw::power {

const char* to_string(EnergyMethod method) {
  switch (method) {
    case EnergyMethod::counter:
      return "counter";
    case EnergyMethod::integrated_power:
      return "integrated_power";
    case EnergyMethod::estimate:
      return "estimate";
  }
  return "?";
}

const char* to_string(EnergyScope scope) {
  switch (scope) {
    case EnergyScope::device:
      return "device";
    case EnergyScope::package:
      return "package";
    case EnergyScope::dram:
      return "dram";
    case EnergyScope::node:
      return "node";
  }
  return "?";
}

double default_maximum_watts(EnergyScope scope) {
  switch (scope) {
    case EnergyScope::package:
      return 1000;
    case EnergyScope::dram:
      return 500;
    case EnergyScope::node:
      return 20'000;
    case EnergyScope::device:
      return 2000;
  }
  return 20'000;
}

#define TW_ENERGY_SOURCE(name) std::vector<MeterFinding> name##_find_meters(const MeterOptions& options);
#include "power/meter/sources.def"
#undef TW_ENERGY_SOURCE

std::vector<MeterFinding> find_meters(const MeterOptions& options, const ChooseMeters& choose) {
  std::vector<MeterFinding> all;
#define TW_ENERGY_SOURCE(name)                                                                           \
  {                                                                                                      \
    std::vector<MeterFinding> found = name##_find_meters(options);                                       \
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end())); \
  }
#include "power/meter/sources.def"
#undef TW_ENERGY_SOURCE
  if (choose) choose(all);
  arbitrate(all);
  return all;
}

}  // namespace tw::power
