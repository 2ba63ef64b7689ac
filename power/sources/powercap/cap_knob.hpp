// A package's power cap: the long_term constraint of a RAPL zone.
//
// A limit binds only if the zone is enabled, so set() enables it. Source: Linux
// Documentation/power/powercap/powercap.rst; drivers/powercap/powercap_sys.c answers ENODATA to any limit that the
// driver refuses, which is a lock by the firmware.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "power/knob/knob.hpp"

namespace tw::power::powercap {

/// What the knob asks of one zone and its long_term constraint; libpowercap answers (knobs.cpp), or a test. All return
/// 0 or a negative errno; writing verifies nothing.
class CapAccess {
 public:
  virtual ~CapAccess() = default;
  virtual std::string path() const = 0;  ///< for messages
  virtual int get_limit_uw(std::uint64_t* value) = 0;
  virtual int set_limit_uw(std::uint64_t value) = 0;
  virtual int get_window_us(std::uint64_t* value) = 0;
  virtual int set_window_us(std::uint64_t value) = 0;
  virtual int get_enabled(bool* value) = 0;
  virtual int set_enabled(bool value) = 0;
  virtual int get_maximum_uw(std::uint64_t* value) = 0;  ///< the constraint's max_power_uw
  virtual int get_minimum_uw(std::uint64_t* value) = 0;  ///< its min_power_uw, which few drivers state
  virtual int get_energy_uj(std::uint64_t* value) = 0;
  virtual int get_energy_range_uj(std::uint64_t* value) = 0;
};

/// Where the hardware states no maximum, `default_maximum_watts` stands. The smallest set point is a tenth of the
/// maximum, since no interface states one; below the package's idle power a cap cannot be kept. A limit of 0 is written
/// only where the constraint says that 0 is its minimum: else nothing tells what a package makes of it, so that a zone
/// that has it is not set, for it could not be put back. observe() takes 0.1 s. Errors: std::system_error with the
/// errno of a read that fails; set() and restore() throw NotApplied (permission, locked, clamped, out_of_range,
/// unsupported).
std::unique_ptr<Knob> make_cap_knob(std::unique_ptr<CapAccess> access, std::string domain,
                                    double default_maximum_watts);

}  // namespace tw::power::powercap
