#include "bench/plan/options/recompute.hpp"

#include <fmt/format.h>

#include <cmath>

#include "bench/plan/options/usage_error.hpp"
#include "results/record/text.hpp"

namespace tw::bench {

Recompute parse_recompute(const std::string& text) {
  if (text == "all" || text == "none") return {std::nullopt, text == "all" ? 1.0 : 0.0};
  if (text.ends_with('%')) {
    const auto percent = number_in<double>(std::string_view(text).substr(0, text.size() - 1));
    if (percent >= 0.0 && percent <= 100.0) return {std::nullopt, *percent / 100};
  } else if (const auto layers = number_in<int>(text); layers >= 0) {
    return *layers == 0 ? Recompute{} : Recompute{layers, 0};
  }
  throw bad_value("recompute", text, "must be 'all', 'none', a number of layers, or a share such as 50%");
}

int recomputed_layers(const Recompute& recompute, const models::NetworkDescription& network) {
  const int there = models::layer_count(network);
  if (!recompute.layers) return static_cast<int>(std::ceil(recompute.share * there - 1e-9));
  if (*recompute.layers > there)
    throw bad_value("recompute", std::to_string(*recompute.layers),
                    fmt::format("value too large: {} has {}", network.name, results::text::count(there, "layer")));
  return *recompute.layers;
}

}  // namespace tw::bench
