// Power of the whole node from its management controller, by `ipmitool dcmi power reading`: watts, about once a second.
//
// Source: DCMI specification 1.5, Get Power Reading; ipmitool's output of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power::ipmi {

/// Watts of what the tool printed. Throws std::system_error if no reading is in it, or the controller says that it
/// does not measure.
double parse_reading(const std::string& output);

struct Options {
  std::vector<std::filesystem::path> devices = {"/dev/ipmi0", "/dev/ipmi/0", "/dev/ipmidev/0"};
  std::filesystem::path hwmon =
      "/sys/class/hwmon";  ///< where the kernel shows the node's power, the tool is not started
  double period_seconds = 1;
  double timeout_seconds = 5;  ///< for one start of the tool, which is then killed
};
std::vector<MeterFinding> find_meters_in(const Options& options);

}  // namespace tw::power::ipmi
