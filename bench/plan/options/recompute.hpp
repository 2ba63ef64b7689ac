// Which layers' activations are computed again in backward: the first so many, since the last ones' are wanted first.
#pragma once

#include <optional>
#include <string>

#include "models/catalog/description.hpp"

namespace tw::bench {

/// A number of layers, or a share of each network's. Layers are those that --layers counts.
struct Recompute {
  std::optional<int> layers;  ///< above 0
  double share = 0;           ///< from 0 (none) to 1 (all), where there is no number
  bool operator==(const Recompute&) const = default;
};

/// "all", "none", "12" or "50%". Throws UsageError.
Recompute parse_recompute(const std::string& text);
/// Of this network: shares are rounded up. Throws UsageError if it has fewer.
int recomputed_layers(const Recompute& recompute, const models::NetworkDescription& network);

}  // namespace tw::bench
