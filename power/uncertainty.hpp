// How wrong one window's joules may be (DESIGN §8.9), but for the sensor's own calibration: no driver states it, and it
// is common to all windows of one machine. Spread between trials is statistics' business and comes on top.
#pragma once

namespace tw {

struct UncertaintyTerms {
  double update_period_seconds = 0;  ///< the counter's, measured
  double clock_skew_seconds = 0;     ///< between the reading and the window's edges, both edges together
};

/// Half width in joules around `joules` used in a window of `window_seconds`.
///
/// Edge quantisation: a counter shows the last update, so that each edge may miss up to one period; with mean power P
/// over the window the bound is 2·P·T (DESIGN §8.9). Power may differ from its mean at an edge, so the two edges are
/// not set off against each other. Clock skew adds P·s. Both are bounds and are added, which covers at least 95 %.
constexpr double energy_uncertainty_joules(double joules, double window_seconds, const UncertaintyTerms& terms) {
  const double power_watts = window_seconds > 0 ? joules / window_seconds : 0;
  return 2 * power_watts * terms.update_period_seconds + power_watts * terms.clock_skew_seconds;
}

}  // namespace tw
