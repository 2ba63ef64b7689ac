// How wrong one window's joules may be, but for the sensor's own calibration: no driver states it, and it
// is common to all windows of one machine. Spread between trials is statistics' business and comes on top.
#pragma once

namespace tw::power {

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

}  // namespace tw::power
