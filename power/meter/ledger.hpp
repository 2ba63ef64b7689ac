// What was used between two snapshots: which sensors are added, which are left out, and why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "power/meter/reader.hpp"

namespace tw::power {

/// One sensor over one window. Without joules it has a reason; never 0 for "unknown".
struct LedgerRow {
  std::string domain;
  std::string scope;   ///< to_string(EnergyScope); empty for a source that has no sensor
  std::string method;  ///< to_string(EnergyMethod); empty likewise
  std::optional<double> energy_joules;
  std::optional<double> uncertainty_joules;  ///< half width, at least 95 % (power/meter/uncertainty.hpp)
  int wraps = 0;  ///< how often the counter started again at zero in between; the joules go on
  double window_seconds = 0;                 ///< between the two readings of this sensor
  double update_period_seconds = 0;
  bool counted = false;  ///< added to its scope
  /// Why absent or left out: a finding's or a reading's reason; or "too_short": than the sensor's update period, in
  /// which what it shows may be of the time before; "not_updated": it has not moved, and nothing that is switched on
  /// draws 0 W; "implausible": more than 1.5 × the sensor's maximum power, which invalidates the window;
  /// the joules stay in the row but are not counted; "reset", "stalled": as WindowFinding says of a counter, whose
  /// joules are then not known. What was not to be counted anyway (a cross-check) keeps the
  /// finding's reason: nothing is missing from its scope's total; the detail says what else is wrong.
  std::string reason;
  std::string detail;  ///< for people: what is wrong with this window; empty where the finding says all
};

/// One row for each finding, in their order. `clock_skew_seconds`: how far the window's edges may lie from the
/// readings.
std::vector<LedgerRow> make_ledger(const std::vector<MeterFinding>& findings, const EnergySnapshot& begin,
                                   const EnergySnapshot& end, double clock_skew_seconds = 0);

}  // namespace tw::power
