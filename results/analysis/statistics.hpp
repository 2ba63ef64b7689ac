// Statistics over trials, and tests of whether figures belong together.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// From so many replicates on a comparison leaves out the best and the worst (results/compare/ratio.hpp).
inline constexpr std::size_t trimmed_from = 10;
/// How an interval is made. The summary of a report says which rule made it: by its statistic "olympic_mean".
enum class IntervalRule {
  student,            ///< from 3 values on: the mean with Student's t interval
  olympic_bootstrap,  ///< of older programs: likewise up to 9; from 10 on the mean without the best and the worst, with
                      ///< a seeded percentile bootstrap, which covers 92.6 % of normal trials at 10
};
/// < 3 values: the mean, no interval. From 3 on the mean of all with Student's t 95 % interval. It covers the true mean
/// in 95 % of normal series, and in over 91 % of lognormal ones (sigma 0.5) from 5 values on. A mean without the best
/// and the worst would cover the true mean of those in 89 %, since it is of another quantity. Empty input throws
/// std::invalid_argument.
Estimate estimate(std::span<const double> values, IntervalRule rule = IntervalRule::student);
/// The same, and by the older rule without dropping any value. For what must not hide its worst.
Estimate estimate_of_all(std::span<const double> values, IntervalRule rule = IntervalRule::student);
/// A price per unit of a resource, and the rate in each trial: currency/s with samples/s, or currency/J with samples/J.
struct Paid {
  double price = 0;
  std::vector<double> rates;  ///< positive, of as many trials in each
};
/// Σ price ÷ estimate(rates): what a sample costs at exactly the rates shown beside it, which the mean of the
/// trials' own costs does not (it is of a harmonic mean of rates). From 3 trials on a 95 % interval by Student's t of
/// the first-order deviation of the logarithm (delta method: Casella and Berger 2002, 5.5.4), which stays above 0, as
/// costs do. `common`: half width, as a share, that all trials have in common.
Estimate estimate_of_paid(std::span<const Paid> paid, double common);
/// The interval over trials sees their spread only; a half width that is common to all of them (a share of the value)
/// joins in quadrature. Nothing happens where there is no interval.
void widen(Estimate& e, double relative_half_width);
/// Of what cannot be negative, even if Student's t of a few values gives less: the interval ends at 0.
Estimate of_positive(Estimate e);
/// a ÷ b of two independent positive figures. Its interval adds the relative half widths in quadrature, on the
/// logarithm (first order), so that it only contains positive ratios; with few trials it is wider than Welch's. No
/// interval if one of the two has none.
Estimate ratio(const Estimate& a, const Estimate& b);
/// Whether the intervals of two figures do not meet. False if one has none: they are then not distinguishable.
bool told_apart(const Estimate& a, const Estimate& b);
/// Quantile by linear interpolation (type 7), q in [0, 1].
double quantile(std::span<const double> values, double q);
/// Least-squares slope of values against 0, 1, 2, …; needs 2 values.
double slope(std::span<const double> values);
/// Its standard error; needs 3 values.
double slope_error(std::span<const double> values);
/// P(|T| > t) of Student's t, t ≥ 0, of any degrees of freedom above 0, by the incomplete beta function (Abramowitz and
/// Stegun 26.5.27, DLMF 8.17.22). Far tails keep their digits, and large degrees of freedom take no longer.
double student_t_tail(double t, double degrees_of_freedom);
/// The t with P(T <= t) = p, p in [0.5, 1), of any degrees of freedom above 0: as Welch's are.
double student_t_quantile(double p, double degrees_of_freedom);

/// Median of the slopes between all pairs of values against 0, 1, 2, … (Theil 1950, Sen 1968); needs 2 values.
double robust_slope(std::span<const double> values);
/// How likely a series without a trend rises or falls in at least as many pairs as this one: the exact two-sided
/// probability of Kendall's S (Mann 1945, Kendall 1970). Equal values count for neither, which errs to the side of no
/// trend. Needs 2 values; takes their third power of time.
double trend_probability(std::span<const double> values);

/// The accepted error of outliers() and drift(): they report one in this share of normal series that have none.
inline constexpr double false_alarm = 0.01;
/// Outliers and drifts below this share are not reported, however significant.
inline constexpr double noteworthy_share = 0.02;

/// Places of the outliers, ascending: the generalised extreme studentised deviate test (Rosner 1983; for one value
/// Grubbs 1969) for up to a quarter of the values, at least one, each more than noteworthy_share off the mean of the
/// others. Its error is false_alarm from 3 values on, and 1.3 to 1.6 times that from 8 to 16 values, where up to two to
/// four may be outliers. Of 3 values one is an outlier only if it is over 160 times as far from the nearer of the
/// others as these are from each other; fewer than 3 values have none.
std::vector<std::size_t> outliers(std::span<const double> values);
/// Drift of positive values from the first to the last, as a share of their median; nullopt if there is none, or less
/// than noteworthy_share. 10 or more values are reduced to the medians of ten equal parts, so that shorter disturbances
/// are noise. The trend must be less likely than false_alarm (trend_probability), which needs 6 values.
std::optional<double> drift(std::span<const double> values);

/// Whether a warm-up before windows of `window_seconds` may end: true if the latest step times (half a window, at least
/// 5 steps) are flat. Flat means that a least-squares line through them, extended over a whole window, changes by at
/// most 1 %, or that its slope is within its noise (two standard errors). Fewer steps would look flat within 1 % even
/// if the machine changes by many times that during a window. False if there are too few steps; the first one is never
/// used.
bool is_steady(std::span<const double> step_seconds, double window_seconds);

}  // namespace tw::results
