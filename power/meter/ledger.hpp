// What was used between two snapshots: which sensors are added, which are left out, and why.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "power/meter/reader.hpp"

namespace tw::power {

/// How wrong one window's joules may be, but for the sensor's own calibration: no driver states it, and it is common to
/// all windows of one machine. Spread between trials is statistics' business and comes on top.
struct UncertaintyTerms {
  double update_period_seconds = 0;  ///< the counter's, measured
  double clock_skew_seconds = 0;     ///< between the reading and the window's edges, both edges together
  // Of readings along the window (power/meter/interval_judge.hpp); 0 where there were none.
  double highest_watts = 0;     ///< of its intervals
  double doubtful_seconds = 0;  ///< in which joules may be missing
  double doubtful_joules = 0;   ///< that may be too many
};

/// Half width in joules around `joules` used in a window of `window_seconds`.
///
/// Edge quantisation: a counter shows the last update, so that each edge may miss up to one period; with mean power P
/// over the window the bound is 2·P·T: one edge's joules are too few where the other's are too many, so
/// that power at an edge may be twice the mean. Where an interval of the window had more than that, its power H bounds
/// one edge: max(2·P, H)·T. Clock skew adds P·s. Times in which joules may be missing add max(P, H) each second. All
/// are bounds and are added, which covers at least 95 %.
constexpr double energy_uncertainty_joules(double joules, double window_seconds, const UncertaintyTerms& terms) {
  const double power_watts = window_seconds > 0 ? joules / window_seconds : 0;
  const double highest_watts = terms.highest_watts > power_watts ? terms.highest_watts : power_watts;
  const double edge_watts = highest_watts > 2 * power_watts ? highest_watts : 2 * power_watts;
  return edge_watts * terms.update_period_seconds + power_watts * terms.clock_skew_seconds +
         highest_watts * terms.doubtful_seconds + terms.doubtful_joules;
}

/// One sensor over one window. Without joules it has a reason; never 0 for "unknown".
struct LedgerRow {
  std::string domain;
  std::string scope;   ///< to_string(EnergyScope); empty for a source that has no sensor
  std::string method;  ///< to_string(EnergyMethod); empty likewise
  std::optional<double> energy_joules;
  std::optional<double> uncertainty_joules;  ///< half width, at least 95 %
  int wraps = 0;              ///< how often the counter started again at zero in between; the joules go on
  double window_seconds = 0;  ///< between the two readings of this sensor
  double update_period_seconds = 0;
  bool counted = false;  ///< added to its scope
  /// Why absent or left out: a finding's or a reading's reason; or "too_short": than the sensor's update period, in
  /// which what it shows may be of the time before; "not_updated": it has not moved, and nothing that is switched on
  /// draws 0 W; "implausible": more than 1.5 × the sensor's maximum power, which invalidates the window;
  /// the joules stay in the row but are not counted; "reset", "stalled": as WindowFinding says of a counter, whose
  /// joules are then not known. What was not to be counted anyway (a cross-check) keeps the
  /// finding's reason: nothing is missing from its scope's total; the detail says what else is wrong.
  std::string reason;
  std::string detail;  ///< for people: what is wrong with this window; empty if the finding says all
};

/// One row for each finding, in their order. `clock_skew_seconds`: how far the window's edges may lie from the
/// readings.
std::vector<LedgerRow> make_ledger(const std::vector<MeterFinding>& findings, const EnergySnapshot& begin,
                                   const EnergySnapshot& end, double clock_skew_seconds = 0);

}  // namespace tw::power
