// How often counters change, seen by polling them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <system_error>
#include <vector>

namespace tw {

struct Watched {
  std::optional<std::system_error> error;  ///< what the counter threw; the rest then says nothing
  std::uint64_t last = 0;
  bool moved = false;
  /// Median time between two changes; where fewer than two were seen, how long it was watched: at least that.
  double period_seconds = 0;
};

/// Polls all counters together until each has changed 20 times, for `limit_seconds` at most.
std::vector<Watched> watch(const std::vector<std::function<std::uint64_t()>>& counters, double limit_seconds = 0.5);

}  // namespace tw
