// Statistics of DESIGN §8.2.
#pragma once

#include <cstdint>
#include <span>

#include "results/record.hpp"

namespace tw {

/// < 3 values: the mean, no interval. 3–9: mean with Student's t 95 % interval. ≥ 10: olympic mean (best and worst dropped)
/// with a seeded bootstrap interval. Empty input throws std::invalid_argument.
Estimate estimate(std::span<const double> values, std::uint64_t bootstrap_seed = 1);
/// a ÷ b of two independent figures; its interval by the relative half widths in quadrature (first order), which is wider
/// than Welch's where the two have few trials. No interval where one has none.
Estimate ratio(const Estimate& a, const Estimate& b);
/// Quantile by linear interpolation (type 7), q in [0, 1].
double quantile(std::span<const double> values, double q);
/// Least-squares slope of values against 0, 1, 2, …; needs 2 values.
double slope(std::span<const double> values);

}  // namespace tw
