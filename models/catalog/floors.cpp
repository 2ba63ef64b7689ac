#include "models/catalog/floors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tw::models {
namespace {

double entropy(const std::array<double, 4>& p) {
  double sum = 0;
  for (const double value : p) sum -= value > 0 ? value * std::log(value) : 0;
  return sum;
}

}  // namespace

double markov_entropy_rate() { return entropy(markov_shares); }

double markov_opening_entropy(std::int64_t vocabulary) {
  std::array<double, 4> mixture{};
  for (std::size_t group = 0; group < 4; ++group) {
    const std::int64_t size = (vocabulary + 3 - static_cast<std::int64_t>(group)) / 4;
    for (std::size_t k = 0; k < 4; ++k)
      mixture[(k + group) % 4] += markov_shares[k] * static_cast<double>(size) / static_cast<double>(vocabulary);
  }
  return entropy(mixture);
}

double orthogonal_error(std::int64_t classes, double gamma) {
  if (classes <= 32) {
    double error = 0, binomial = 1;
    for (std::int64_t k = 1; k < classes; ++k) {
      binomial = binomial * static_cast<double>(classes - k) / static_cast<double>(k);  // binom(C−1, k)
      const double kd = static_cast<double>(k);
      error += (k % 2 == 1 ? 1 : -1) * binomial / (kd + 1) * std::exp(-gamma * kd / (kd + 1));
    }
    return error;
  }
  // P = ∫ (1 − (1 − e^{−r²/2})^{C−1}) · r·e^{−(r² + 2γ)/2}·I₀(r·sqrt(2γ)) dr: the wrong envelopes are Rayleigh, the
  // right one is Rician. Simpson on the part of the axis where the Rician density is not negligible; Φ-like, smooth,
  // 2000 panels.
  const double center = std::sqrt(2 * gamma);
  const double low = std::max(0.0, center - 12), high = center + 12;
  const int panels = 2000;
  double sum = 0;
  for (int i = 0; i <= panels; ++i) {
    const double r = low + (high - low) * i / panels, x = r * center;
    // I₀(x)·e^{−x}: the library's below 500, the asymptotic series (Abramowitz & Stegun 9.7.1) above.
    const double bessel = x < 500 ? std::cyl_bessel_i(0.0, x) * std::exp(-x)
                                  : (1 + 1 / (8 * x) + 9 / (128 * x * x)) / std::sqrt(2 * std::numbers::pi * x);
    const double density = r * bessel * std::exp(-0.5 * (r - center) * (r - center));
    const double wrong = -std::expm1(static_cast<double>(classes - 1) * std::log1p(-std::exp(-0.5 * r * r)));
    const double weight = i == 0 || i == panels ? 1 : (i % 2 == 1 ? 4 : 2);
    sum += weight * (r > 0 ? wrong * density : 0);
  }
  return sum * (high - low) / panels / 3;
}

double grating_error(int size, int channels, std::int64_t classes) {
  const double count = static_cast<double>(size) * size * channels;
  const double energy = static_cast<double>(grating_amplitude) * grating_amplitude * count / 4;
  return orthogonal_error(classes, energy / (static_cast<double>(grating_sigma) * grating_sigma));
}

double click_error(std::int64_t votes) {
  const auto n = static_cast<double>(votes);
  const double q = click_vote_error, m = click_signal, lambda = std::log((1 - q) / q);
  double error = 0;
  for (std::int64_t votes_for = 0; votes_for <= votes; ++votes_for) {
    const auto k = static_cast<double>(votes_for);
    const double log_share =
        std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) + k * std::log(1 - q) + (n - k) * std::log(q);
    error += std::exp(log_share) * 0.5 * std::erfc((m + (2 * k - n) * lambda / (2 * m)) / std::numbers::sqrt2);
  }
  return error;
}

Autoregression series_process(std::int64_t variable) {
  constexpr double remains = 0.9;
  const double period = 8 + 4 * static_cast<double>(variable % 8);
  Autoregression process;
  process.first = 2 * remains * std::cos(2 * std::numbers::pi / period);
  process.second = -remains * remains;
  process.correlation = process.first / (1 - process.second);
  const double over_two = process.first * process.correlation + process.second;  // correlation of x(t) and x(t−2)
  process.innovation = 1 - process.first * process.correlation - process.second * over_two;
  return process;
}

double series_error(std::int64_t variables, std::int64_t seq_len) {
  double sum = 0;
  for (std::int64_t v = 0; v < variables; ++v) {
    const Autoregression process = series_process(v);
    sum += static_cast<double>(seq_len - 1) * process.innovation + 1 - process.correlation * process.correlation;
  }
  return sum / static_cast<double>(variables * seq_len);
}

int masked_levels(std::int64_t vocabulary) {
  const std::int64_t of_topic = (vocabulary - masked_special_tokens) / masked_topics;
  int levels = 0;
  while ((std::int64_t{2} << levels) - 1 <= of_topic) ++levels;
  return levels;
}

double masked_entropy(std::int64_t vocabulary) {
  const auto part = [](double p) { return -p * std::log(p); };
  const int levels = masked_levels(vocabulary);
  const auto n = static_cast<double>(vocabulary - masked_special_tokens);
  double of_token = 0, of_seen = 0, others = n;  // others: tokens that the topic does not have
  for (int level = 0; level < levels; ++level) {
    const double count = std::ldexp(1.0, level), p = 1 / (levels * count);
    of_token += count * part(p), of_seen += count * part(0.5 * p + 0.5 / n), others -= count;
  }
  of_seen += others * part(0.5 / n);
  const double given_token = part(0.5 + 0.5 / n) + (n - 1) * part(0.5 / n);
  return of_token - 0.2 * (of_seen - given_token);
}

double exact_floor(const NetworkDescription& network, std::int64_t seq_len) {
  const DataDescription data = network.data();
  switch (data.kind) {
    case DataKind::tokens:
      break;
    case DataKind::masked_tokens:
      return masked_entropy(data.different_tokens());
    case DataKind::segmented_images:
    case DataKind::restored_images:
    case DataKind::measured_images:
      return std::numeric_limits<double>::quiet_NaN();
    case DataKind::images:
      return grating_error(data.image_size, data.image_channels, data.classes);
    case DataKind::series:
      return series_error(data.variables, seq_len);
    case DataKind::clicks:
      return click_error(static_cast<std::int64_t>(data.table_rows.size()) * data.hot);
  }
  const auto positions = static_cast<double>(seq_len);
  return ((positions - 1) * markov_entropy_rate() + markov_opening_entropy(data.different_tokens())) / positions;
}

double guess(const NetworkDescription& network) {
  const DataDescription data = network.data();
  switch (data.kind) {
    case DataKind::tokens:
      return std::log(static_cast<double>(data.different_tokens()));
    case DataKind::masked_tokens:
      return std::log(static_cast<double>(data.different_tokens())) + std::numbers::ln2;
    case DataKind::images:
      return 1 - 1 / static_cast<double>(data.classes);
    case DataKind::clicks:
      return 0.5;
    case DataKind::series:
      return 1;
    case DataKind::segmented_images:
    case DataKind::restored_images:
    case DataKind::measured_images:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace tw::models
