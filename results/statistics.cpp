#include "results/statistics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace tw {
namespace {

/// Student's t, two-sided 95 % (quantile 0.975), for 2 … 8 degrees of freedom.
constexpr std::array<double, 7> student_t_975 = {4.302652729749464,  3.182446305284263,  2.7764451051977934,
                                                 2.5705818366147395, 2.4469118511449692, 2.3646242515927849,
                                                 2.3060041352041662};
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

}  // namespace

Estimate estimate(std::span<const double> values, std::uint64_t bootstrap_seed) {
  if (values.empty()) throw std::invalid_argument("estimate: no values");
  Estimate result;
  result.count = static_cast<int>(values.size());
  if (values.size() < 3) {
    result.value = mean(values);
    result.statistic = values.size() == 1 ? "single" : "mean";
    return result;
  }
  if (values.size() < 10) {
    result.value = mean(values);
    result.statistic = "mean";
    double squares = 0;
    for (double v : values) squares += (v - result.value) * (v - result.value);
    const double n = static_cast<double>(values.size());
    const double half = student_t_975[values.size() - 3] * std::sqrt(squares / (n - 1) / n);
    result.low = result.value - half;
    result.high = result.value + half;
    return result;
  }
  result.value = olympic_mean(values);
  result.statistic = "olympic_mean";
  Generator generator(bootstrap_seed);
  std::vector<double> sample(values.size()), means(bootstrap_resamples);
  for (double& m : means) {
    for (double& s : sample) s = values[generator.below(values.size())];
    m = olympic_mean(sample);
  }
  result.low = quantile(means, 0.025);
  result.high = quantile(means, 0.975);
  return result;
}

Estimate ratio(const Estimate& a, const Estimate& b) {
  Estimate result;
  result.value = a.value / b.value;
  result.statistic = "derived";
  result.count = std::min(a.count, b.count);
  if (!a.low || !a.high || !b.low || !b.high) return result;
  const double half = std::abs(result.value) *
                      std::hypot((*a.high - *a.low) / 2 / a.value, (*b.high - *b.low) / 2 / b.value);
  result.low = result.value - half;
  result.high = result.value + half;
  return result;
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
  const double n = static_cast<double>(values.size());
  const double mean_index = (n - 1) / 2, mean_value = mean(values);
  double product = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    product += (static_cast<double>(i) - mean_index) * (values[i] - mean_value);
  return product / (n * (n * n - 1) / 12);  // sum of squared index deviations
}

}  // namespace tw
