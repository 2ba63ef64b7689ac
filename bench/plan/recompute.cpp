#include "bench/plan/recompute.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "bench/plan/plan.hpp"

namespace tw {

Recompute parse_recompute(const std::string& name, const std::string& text) {
  if (text == "all" || text == "none") return {std::nullopt, text == "all" ? 1.0 : 0.0};
  const char *begin = text.data(), *end = begin + text.size();
  if (text.ends_with('%')) {
    double percent = 0;
    const auto [rest, error] = std::from_chars(begin, end - 1, percent);
    if (error == std::errc() && rest == end - 1 && percent >= 0 && percent <= 100) return {std::nullopt, percent / 100};
  } else {
    int layers = 0;
    const auto [rest, error] = std::from_chars(begin, end, layers);
    if (error == std::errc() && rest == end && layers >= 0) return layers == 0 ? Recompute{} : Recompute{layers, 0};
  }
  throw UsageError(
      fmt::format("{} {}: must be 'all', 'none', a number of layers, or a share of them up to 100%", name, text));
}

std::string config_value(const Recompute& recompute) {
  if (recompute.layers) return std::to_string(*recompute.layers);
  if (recompute.share == 0 || recompute.share == 1) return recompute.share == 1 ? "true" : "false";
  return fmt::format("\"{}%\"", recompute.share * 100);
}

int recomputed_layers(const Recompute& recompute, const NetworkDescription& network) {
  const int there = layer_count(network);
  if (!recompute.layers) return static_cast<int>(std::ceil(recompute.share * there - 1e-9));
  if (*recompute.layers > there)
    throw UsageError(fmt::format("--recompute {}: {} has {} layers: choose fewer, a share of them as 50%, or 'all'",
                                 *recompute.layers, network.name, there));
  return *recompute.layers;
}

}  // namespace tw
