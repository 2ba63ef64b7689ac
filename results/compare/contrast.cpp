#include "results/compare/contrast.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "results/analysis/statistics.hpp"

namespace tw::results {
namespace {

constexpr double confidence = 0.975, power = 0.8;  // two-sided 95 %; seen in 8 of 10
constexpr double normal_975 = 1.959963984540054;

struct Center {
  double mean = 0, variance = 0, freedom = 0;  // of the mean
};

/// Of the whole sample, or without its ends: then the variance is of the sample with the ends moved in (winsorised),
/// and the degrees of freedom are those of what is left.
Center center_of(std::vector<double> values, bool drop_extremes) {
  std::ranges::sort(values);
  const std::size_t trim = drop_extremes && values.size() >= trimmed_from ? 1 : 0;
  const auto n = static_cast<double>(values.size()), left = static_cast<double>(values.size() - 2 * trim);
  Center center;
  center.mean = std::accumulate(values.begin() + trim, values.end() - trim, 0.0) / left;
  if (values.size() < 2) return center;
  if (trim == 1) values.front() = values[1], values.back() = values[values.size() - 2];
  const double middle = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - middle) * (v - middle);
  center.variance = squares / (left * (left - 1));
  center.freedom = left - 1;
  return center;
}

/// Sum of squared deviations from the mean of a group of runs, and its degrees of freedom.
std::pair<double, double> spread_of(std::span<const double> logs) {
  if (logs.size() < 2) return {0, 0};
  const double n = static_cast<double>(logs.size()), middle = std::accumulate(logs.begin(), logs.end(), 0.0) / n;
  double squares = 0;
  for (const double log : logs) squares += (log - middle) * (log - middle);
  return {squares, n - 1};
}

/// Of a side of a comparison of runs: its spread, and where it has earlier runs theirs too.
Center run_center(const LogSample& sample) {
  Center center = center_of(sample.logs, sample.drop_extremes);
  if (sample.earlier.empty() || sample.logs.size() >= trimmed_from) return center;
  auto [squares, freedom] = spread_of(sample.logs);
  for (const std::vector<double>& group : sample.earlier) {
    const auto [more, degrees] = spread_of(group);
    squares += more, freedom += degrees;
  }
  if (!(freedom > 0)) return center;
  center.variance = squares / freedom / static_cast<double>(sample.logs.size());
  if (sample.logs.size() == 1) center.variance = std::max(center.variance, sample.within);
  center.freedom = freedom;
  return center;
}

/// Degrees of freedom of a sum of variances.
double satterthwaite(std::span<const double> variances, std::span<const double> freedoms) {
  double sum = 0, parts = 0, least = freedoms[0];
  for (std::size_t i = 0; i < variances.size(); ++i) {
    if (!(freedoms[i] > 0)) return 0;
    sum += variances[i];
    parts += variances[i] * variances[i] / freedoms[i];
    least = std::min(least, freedoms[i]);
  }
  return parts > 0 ? sum * sum / parts : least;
}

double error_with_common(double variance, double common) {
  return std::hypot(std::sqrt(variance), common / normal_975);
}

}  // namespace

Contrast independent(const LogSample& a, const LogSample& b) {
  const Center of_a = center_of(a.logs, a.drop_extremes), of_b = center_of(b.logs, b.drop_extremes);
  Contrast result;
  result.value = of_b.mean - of_a.mean;
  result.variance = of_a.variance + of_b.variance;
  const double variances[] = {of_a.variance, of_b.variance}, freedoms[] = {of_a.freedom, of_b.freedom};
  result.freedom = satterthwaite(variances, freedoms);
  result.common = std::hypot(a.common, b.common);
  result.replicates = static_cast<int>(std::min(a.logs.size(), b.logs.size()));
  result.least = std::ranges::min(b.logs) - std::ranges::max(a.logs);
  result.most = std::ranges::max(b.logs) - std::ranges::min(a.logs);
  return result;
}

Contrast paired(const LogSample& a, const LogSample& b) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.logs.size(); ++i) differences.push_back(b.logs[i] - a.logs[i]);
  const Center center = center_of(differences, a.drop_extremes && b.drop_extremes);
  return {center.mean,
          center.variance,
          center.freedom,
          std::hypot(a.common, b.common),
          static_cast<int>(differences.size()),
          std::ranges::min(differences),
          std::ranges::max(differences)};
}

Contrast of_runs(const LogSample& a, const LogSample& b) {
  Contrast result = independent({a.logs, a.common, a.drop_extremes}, {b.logs, b.common, b.drop_extremes});
  const Center of_a = run_center(a), of_b = run_center(b);
  result.variance = of_a.variance + of_b.variance;
  result.freedom = std::min(of_a.freedom, of_b.freedom);
  return result;
}

Contrast weighted(std::span<const Contrast> contrasts, std::span<const double> weights) {
  Contrast result;
  std::vector<double> variances, freedoms;
  result.replicates = contrasts[0].replicates;
  result.single_run = std::ranges::any_of(contrasts, &Contrast::single_run);
  for (std::size_t i = 0; i < contrasts.size(); ++i) {
    const Contrast& one = contrasts[i];
    result.value += weights[i] * one.value;
    result.variance += weights[i] * weights[i] * one.variance;
    result.common += weights[i] * one.common;
    result.least += weights[i] * one.least;
    result.most += weights[i] * one.most;
    result.replicates = std::min(result.replicates, one.replicates);
    variances.push_back(weights[i] * weights[i] * one.variance);
    freedoms.push_back(one.freedom);
  }
  result.freedom = satterthwaite(variances, freedoms);
  return result;
}

double half_width(const Contrast& contrast) {
  return std::hypot(student_t_quantile(confidence, contrast.freedom) * std::sqrt(contrast.variance), contrast.common);
}

double detectable_share(const Contrast& contrast) {
  const double t = student_t_quantile(confidence, contrast.freedom) + student_t_quantile(power, contrast.freedom);
  return std::expm1(t * error_with_common(contrast.variance, contrast.common));
}

std::optional<int> replicates_needed(const Contrast& contrast, int most) {
  const auto shows = [&](int count) {  // with as many, of the same spread
    const double n = count, now = contrast.replicates;
    const double freedom = now > 1 ? contrast.freedom * (n - 1) / (now - 1) : contrast.freedom;  // of earlier runs
    const double t = student_t_quantile(confidence, freedom) + student_t_quantile(power, freedom);
    return t * error_with_common(contrast.variance * now / n, contrast.common) <= std::abs(contrast.value);
  };
  constexpr double normal_sum = normal_975 + 0.8416212335729143;  // of infinitely many
  if (normal_sum * contrast.common / normal_975 >= std::abs(contrast.value)) return std::nullopt;
  if (!shows(most)) return most;
  int low = 1, high = most;  // of one replicate nothing is known
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (shows(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace tw::results
