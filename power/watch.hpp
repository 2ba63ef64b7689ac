// How often counters change, and how fast they grow, seen by polling them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace tw {

struct Watched {
  std::optional<std::system_error> error;  ///< what the counter threw; the rest then says nothing
  std::uint64_t last = 0;
  std::vector<std::uint64_t> values;  ///< one for each round of polling
  std::size_t changes = 0;
  bool moved() const { return changes > 0; }
  /// Median time between two changes; where fewer than two were seen, how long it was watched: at least that.
  double period_seconds = 0;
  /// Growth from the first change to the last, both of which are moments when the counter was up to date; 0 where fewer
  /// than two were seen.
  double rate_per_second = 0;
};

inline constexpr std::size_t enough_changes = 20;  ///< for a period

/// Polls all counters together until each has changed `changes` times, for `limit_seconds` at most.
std::vector<Watched> watch(const std::vector<std::function<std::uint64_t()>>& counters, double limit_seconds = 0.5,
                           std::size_t changes = enough_changes);

/// For people, of a counter that has not moved: read on, it would report 0 J for what certainly uses power.
std::string stood_still(const std::string& counter, const Watched& seen);

}  // namespace tw
