#include "results/analysis/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "results/analysis/run_rules.hpp"

namespace tw::results {
namespace {

/// Student's t, two-sided 95 % (quantile 0.975), for 2 … 8 degrees of freedom.
constexpr std::array<double, 7> student_t_975 = {4.302652729696142, 3.182446305284263,  2.7764451051977987,
                                                 2.570581835636314, 2.4469118511449692, 2.3646242515927844,
                                                 2.306004135204166};
constexpr int bootstrap_resamples = 4000;

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double olympic_mean(std::span<const double> values) {
  double sum = 0, smallest = values[0], largest = values[0];
  for (double v : values) {
    sum += v;
    smallest = std::min(smallest, v);
    largest = std::max(largest, v);
  }
  return (sum - smallest - largest) / static_cast<double>(values.size() - 2);
}

/// Sum of squared deviations of 0 … count − 1 from their mean.
double index_spread(std::size_t count) {
  const double n = static_cast<double>(count);
  return n * (n * n - 1) / 12;
}

/// splitmix64 (Steele, Lea, Flood 2014): the same numbers with every standard library, unlike
/// std::uniform_int_distribution.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : state_(seed) {}
  /// Uniform in [0, count) by the high half of a 64 × 32 bit product; the bias is below count / 2^32.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>((next() >> 32) * count >> 32); }

 private:
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

/// Regularised incomplete beta function I_x(a, b) by its continued fraction (DLMF 8.17.22, Lentz's method), which
/// converges fast below the mean of the distribution; above it by symmetry. Our own: Boost.Math's header of Student's t
/// is 94,000 lines, which take 5 s of CPU time to compile, and its package takes 138 MB (CONTRIBUTING.md).
double incomplete_beta(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(1 - x, b, a);
  constexpr double tiny = 1e-300, enough = 1e-15;
  constexpr int most_terms = 10'000;
  const auto away_from_zero = [](double v) { return std::abs(v) < tiny ? tiny : v; };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), fraction = d;
  for (int m = 1; m <= most_terms; ++m) {
    const double k = m;
    const double even = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k));
    const double odd = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1));
    double change = 1;
    for (const double term : {even, odd}) {
      d = 1 / away_from_zero(1 + term * d);
      c = away_from_zero(1 + term / c);
      change = c * d;
      fraction *= change;
    }
    if (std::abs(change - 1) < enough) break;
  }
  const double log_front = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
  return std::exp(log_front) * fraction / a;
}

/// Half of Student's t 95 % interval of a mean of `count` values whose squared deviations add up to `squares`.
double half_width(double squares, std::size_t count) {
  const double n = static_cast<double>(count);
  const double t = count - least_trials < student_t_975.size() ? student_t_975[count - least_trials]
                                                               : student_t_quantile(0.975, n - 1);
  return t * std::sqrt(squares / (n - 1) / n);
}

/// The mean, and from 3 values on Student's t interval.
Estimate student(std::span<const double> values) {
  if (values.empty()) throw std::invalid_argument("estimate: no values");
  Estimate result;
  result.count = static_cast<int>(values.size());
  result.value = mean(values);
  result.statistic = values.size() == 1 ? Statistic::single : Statistic::mean;
  if (values.size() < least_trials) return result;
  double squares = 0;
  for (double v : values) squares += (v - result.value) * (v - result.value);
  const double half = half_width(squares, values.size());
  result.low = result.value - half;
  result.high = result.value + half;
  return result;
}

/// `statistic` of 10 values or more, with the percentile bootstrap of older programs.
Estimate bootstrapped(std::span<const double> values, double (*statistic)(std::span<const double>), Statistic name) {
  Estimate result;
  result.count = static_cast<int>(values.size());
  result.value = statistic(values);
  result.statistic = name;
  Generator generator(1);
  std::vector<double> sample(values.size()), resampled(bootstrap_resamples);
  for (double& one : resampled) {
    for (double& s : sample) s = values[generator.below(values.size())];
    one = statistic(sample);
  }
  result.low = quantile(resampled, 0.025);
  result.high = quantile(resampled, 0.975);
  return result;
}

/// Values from which the one that is farthest from the mean is taken away, again and again. That one is always the
/// least or the greatest that is left, so that all of it takes the time of sorting.
class Remainder {
 public:
  explicit Remainder(std::span<const double> values)
      : values_(values), rising_(values.size()), gone_(values.size(), false) {
    std::iota(rising_.begin(), rising_.end(), std::size_t{0});
    falling_ = rising_;
    std::ranges::stable_sort(rising_, {}, [&](std::size_t i) { return values_[i]; });
    std::ranges::stable_sort(falling_, std::ranges::greater(), [&](std::size_t i) { return values_[i]; });
    count_ = values.size();
    add_up();
  }
  std::size_t count() const { return count_; }
  double center() const { return static_cast<double>(origin_ + sum_ / static_cast<long double>(count_)); }
  /// Of their squared deviations from the center.
  double squares() const {
    return static_cast<double>(std::max(0.0L, squares_ - sum_ * sum_ / static_cast<long double>(count_)));
  }
  /// Of several equally far the first.
  std::size_t farthest() {
    while (gone_[rising_[least_]]) ++least_;
    while (gone_[falling_[greatest_]]) ++greatest_;
    const std::size_t low = rising_[least_], high = falling_[greatest_];
    const double below = std::abs(values_[low] - center()), above = std::abs(values_[high] - center());
    return below == above ? std::min(low, high) : below > above ? low : high;
  }
  void remove(std::size_t i) {
    constexpr long double digits_kept = 1e-6L;
    const long double d = values_[i] - origin_;
    gone_[i] = true, --count_, sum_ -= d, squares_ -= d * d;
    if (squares_ < digits_kept * added_up_) add_up();  // what is left was rounded away beside what was removed
  }

 private:
  void add_up() {
    origin_ = 0;
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (!gone_[i]) origin_ += values_[i] / static_cast<long double>(count_);
    sum_ = squares_ = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (gone_[i]) continue;
      const long double d = values_[i] - origin_;
      sum_ += d, squares_ += d * d;
    }
    added_up_ = squares_;
  }

  std::span<const double> values_;
  std::vector<std::size_t> rising_, falling_;
  std::vector<bool> gone_;
  std::size_t count_ = 0, least_ = 0, greatest_ = 0;
  long double origin_ = 0, sum_ = 0, squares_ = 0, added_up_ = 0;  // of deviations from `origin_`
};

}  // namespace

Estimate estimate(std::span<const double> values, IntervalRule rule) {
  const bool is_older = rule == IntervalRule::olympic_bootstrap && values.size() >= trimmed_from;
  return is_older ? bootstrapped(values, olympic_mean, Statistic::olympic_mean) : student(values);
}

Estimate estimate_of_all(std::span<const double> values, IntervalRule rule) {
  const bool is_older = rule == IntervalRule::olympic_bootstrap && values.size() >= trimmed_from;
  return is_older ? bootstrapped(values, mean, Statistic::mean) : student(values);
}

Estimate estimate_of_paid(std::span<const Paid> paid, double common) {
  const std::size_t count = paid.empty() ? 0 : paid[0].rates.size();
  if (count == 0 || std::ranges::any_of(paid, [&](const Paid& one) { return one.rates.size() != count; }))
    throw std::invalid_argument("estimate_of_paid: needs rates of as many trials in each");
  Estimate result;
  result.count = static_cast<int>(count);
  result.statistic = count == 1 ? Statistic::single : Statistic::mean;
  std::vector<double> off(count, 0);  // of the logarithm, first order
  for (const Paid& one : paid) result.value += one.price / mean(one.rates);
  if (count < least_trials) return result;
  double half = 0;
  if (result.value > 0) {  // what costs nothing does so in each trial
    for (const Paid& one : paid) {
      const double middle = mean(one.rates);
      for (std::size_t trial = 0; trial < count; ++trial)
        off[trial] += one.price / middle / result.value * (one.rates[trial] / middle - 1);
    }
    double squares = 0;
    for (const double one : off) squares += one * one;
    half = half_width(squares, count);
  }
  result.low = result.value * std::exp(-std::hypot(half, common));
  result.high = result.value * std::exp(std::hypot(half, common));
  return result;
}

void widen(Estimate& e, double relative_half_width) {
  if (!e.low || !e.high) return;
  const double common = std::abs(e.value) * relative_half_width;
  e.low = e.value - std::hypot(e.value - *e.low, common);
  e.high = e.value + std::hypot(*e.high - e.value, common);
}

Estimate of_positive(Estimate e) {
  if (e.low) e.low = std::max(0.0, *e.low);
  return e;
}

Estimate ratio(const Estimate& a, const Estimate& b) {
  Estimate result;
  result.value = a.value / b.value;
  result.statistic = Statistic::derived;
  result.count = std::min(a.count, b.count);
  if (!a.low || !a.high || !b.low || !b.high) return result;
  const double half = std::hypot((*a.high - *a.low) / 2 / a.value, (*b.high - *b.low) / 2 / b.value);
  result.low = result.value * std::exp(-half);
  result.high = result.value * std::exp(half);
  return result;
}

bool told_apart(const Estimate& a, const Estimate& b) {
  return a.low && a.high && b.low && b.high && (*a.low > *b.high || *a.high < *b.low);
}

double quantile(std::span<const double> values, double q) {
  if (values.empty()) throw std::invalid_argument("quantile: no values");
  if (!(q >= 0 && q <= 1)) throw std::invalid_argument("quantile: q must lie in [0, 1]");
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

double slope(std::span<const double> values) {
  if (values.size() < 2) throw std::invalid_argument("slope: needs 2 values");
  const double middle = (static_cast<double>(values.size()) - 1) / 2, mean_value = mean(values);
  double product = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    product += (static_cast<double>(i) - middle) * (values[i] - mean_value);
  return product / index_spread(values.size());
}

double slope_error(std::span<const double> values) {
  if (values.size() < 3) throw std::invalid_argument("slope_error: needs 3 values");
  const double n = static_cast<double>(values.size());
  const double middle = (n - 1) / 2, mean_value = mean(values), b = slope(values);
  double residual = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    residual += std::pow(values[i] - mean_value - b * (static_cast<double>(i) - middle), 2);
  return std::sqrt(residual / (n - 2) / index_spread(values.size()));
}

double student_t_tail(double t, double degrees_of_freedom) {
  if (!(t >= 0) || !(degrees_of_freedom > 0))
    throw std::invalid_argument("student_t_tail: needs t >= 0 and degrees of freedom above 0");
  return incomplete_beta(degrees_of_freedom / (degrees_of_freedom + t * t), degrees_of_freedom / 2, 0.5);
}

double student_t_quantile(double p, double degrees_of_freedom) {
  if (!(p >= 0.5 && p < 1) || !(degrees_of_freedom > 0))
    throw std::invalid_argument("student_t_quantile: needs p in [0.5, 1) and degrees of freedom above 0");
  const double freedom = std::min(degrees_of_freedom, 1e7);  // a normal distribution to all digits
  const auto tail = [&](double t) { return 0.5 * student_t_tail(t, freedom); };
  double low = 0, high = 1;
  while (tail(high) > 1 - p && high < 1e300) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-14 * high; ++i) {
    const double middle = (low + high) / 2;
    (tail(middle) > 1 - p ? low : high) = middle;
  }
  return (low + high) / 2;
}

double robust_slope(std::span<const double> values) {
  if (values.size() < 2) throw std::invalid_argument("robust_slope: needs 2 values");
  std::vector<double> slopes;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = i + 1; j < values.size(); ++j)
      slopes.push_back((values[j] - values[i]) / static_cast<double>(j - i));
  return quantile(slopes, 0.5);
}

double trend_probability(std::span<const double> values) {
  if (values.size() < 2) throw std::invalid_argument("trend_probability: needs 2 values");
  std::ptrdiff_t rising = 0, falling = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = i + 1; j < values.size(); ++j) {
      rising += values[j] > values[i];
      falling += values[j] < values[i];
    }
  // Of random orders: the share that has i falling pairs. A next value falls below 0 … k of the k before it, all alike.
  std::vector<double> share = {1};
  for (std::size_t k = 1; k < values.size(); ++k) {
    std::vector<double> longer(share.size() + k, 0);
    for (std::size_t i = 0; i < share.size(); ++i)
      for (std::size_t below = 0; below <= k; ++below) longer[i + below] += share[i] / static_cast<double>(k + 1);
    share = std::move(longer);
  }
  const auto pairs = static_cast<std::ptrdiff_t>(share.size()) - 1, strength = std::abs(rising - falling);
  double probability = 0;
  for (std::ptrdiff_t i = 0; i <= pairs; ++i)
    if (std::abs(pairs - 2 * i) >= strength) probability += share[static_cast<std::size_t>(i)];
  return std::min(1.0, probability);
}

std::vector<std::size_t> outliers(std::span<const double> values) {
  std::vector<std::size_t> removed;
  if (values.size() < 3) return removed;
  Remainder left(values);
  const std::size_t most = std::max<std::size_t>(1, values.size() / 4);
  std::size_t found = 0;
  double mean_left = 0;  // of those that stay where the first `found` are removed
  while (left.count() >= 3 && removed.size() < most) {
    const double n = static_cast<double>(left.count());
    const double center = left.center();
    const std::size_t far = left.farthest();
    const double off = std::abs(values[far] - center), deviation = std::sqrt(left.squares() / (n - 1));
    if (!(off > 0)) break;
    // The deviate R as a Student's t: R = (n − 1) t / √((n − 2 + t²) n); as far as one value alone can be off:
    // infinite.
    const double r = off / deviation, room = (n - 1) * (n - 1) - n * r * r;
    const double t = room > 0 ? r * std::sqrt(n * (n - 2) / room) : std::numeric_limits<double>::infinity();
    const double others = center - (values[far] - center) / (n - 1);  // their mean
    removed.push_back(far);
    left.remove(far);
    if (n * student_t_tail(t, static_cast<double>(left.count()) - 1) < false_alarm) {
      found = removed.size();
      mean_left = others;
    }
  }
  removed.resize(found);
  std::erase_if(removed, [&](std::size_t i) {
    return !(std::abs(values[i] - mean_left) > noteworthy_share * std::abs(mean_left));
  });
  std::ranges::sort(removed);
  return removed;
}

std::optional<double> drift(std::span<const double> values) {
  constexpr std::size_t most_stretches = 10;
  const std::size_t count = std::min(values.size(), most_stretches);
  if (count < 2) return std::nullopt;
  std::vector<double> stretches;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * values.size() / count, end = (i + 1) * values.size() / count;
    stretches.push_back(quantile(values.subspan(begin, end - begin), 0.5));
  }
  const double change = robust_slope(stretches) * static_cast<double>(count - 1) / quantile(stretches, 0.5);
  if (!(std::abs(change) > noteworthy_share) || trend_probability(stretches) >= false_alarm) return std::nullopt;
  return change;
}

bool is_steady(std::span<const double> step_seconds, double window_seconds) {
  constexpr std::size_t least = 5;
  constexpr double flat_share = 0.01, standard_errors = 2;
  std::size_t count = 0;
  double seconds = 0;
  while (count + 1 < step_seconds.size() && (count < least || seconds < window_seconds / 2))
    seconds += step_seconds[step_seconds.size() - ++count];
  if (count < least || seconds < window_seconds / 2) return false;
  const std::span<const double> latest = step_seconds.last(count);
  const double b = std::abs(slope(latest)), mean_step = mean(latest);
  const double steps_a_window = std::max(static_cast<double>(count - 1), window_seconds / mean_step);
  return b <= standard_errors * slope_error(latest) || b * steps_a_window <= flat_share * mean_step;
}

}  // namespace tw::results
