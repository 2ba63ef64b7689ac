#include "bench/plan/options/recompute.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "bench/plan/options/usage_error.hpp"
#include "models/catalog/nearest.hpp"

namespace tw::bench {

Recompute parse_recompute(const std::string& text) {
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
  throw UsageError("bad-value", "recompute",
                   fmt::format("{} {}: must be 'all', 'none', a number of layers, or a share such as 50%",
                               key_ref("recompute"), models::cut_word(text)));
}

int recomputed_layers(const Recompute& recompute, const models::NetworkDescription& network) {
  const int there = models::layer_count(network);
  if (!recompute.layers) return static_cast<int>(std::ceil(recompute.share * there - 1e-9));
  if (*recompute.layers > there)
    throw UsageError("bad-value", "recompute",
                     fmt::format("{} {}: value too large: {} has {} layers", key_ref("recompute"), *recompute.layers,
                                 network.name, there));
  return *recompute.layers;
}

}  // namespace tw::bench
