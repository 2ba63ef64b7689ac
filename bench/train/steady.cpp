#include "bench/train/steady.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "results/statistics.hpp"

namespace tw {

bool is_steady(std::span<const double> step_seconds) {
  constexpr std::size_t least = 5;
  constexpr double flat_share = 0.01, standard_errors = 2;
  if (step_seconds.size() <= least) return false;
  const std::span<const double> later = step_seconds.last(std::max(least, step_seconds.size() / 2));
  const auto n = static_cast<double>(later.size());
  double mean = 0;
  for (const double value : later) mean += value / n;
  const double b = slope(later), middle = (n - 1) / 2;
  double residual = 0, spread = 0;
  for (std::size_t i = 0; i < later.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    residual += std::pow(later[i] - mean - b * x, 2);
    spread += x * x;
  }
  const double noise = std::sqrt(residual / (n - 2) / spread);
  return std::abs(b) <= standard_errors * noise || std::abs(b) * (n - 1) <= flat_share * mean;
}

}  // namespace tw
