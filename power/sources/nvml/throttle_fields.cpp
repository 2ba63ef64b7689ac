#include "power/sources/nvml/throttle_fields.hpp"

#include <charconv>
#include <utility>

namespace tw::power::nvml {

ThrottleFields throttle_fields_of(std::string_view driver_version) {
  std::pair<unsigned, unsigned> version;  // "580.82.07": 580, 82
  const char* const last = driver_version.data() + driver_version.size();
  const auto [point, error] = std::from_chars(driver_version.data(), last, version.first);
  if (error != std::errc() || point == last || *point != '.' ||
      std::from_chars(point + 1, last, version.second).ec != std::errc())
    return {};
  if (version < std::pair(575u, 0u)) return {};
  if (version < std::pair(580u, 82u)) return {74, 251, 252, 253};
  return {74, 269, 270, 271};
}

}  // namespace tw::power::nvml
