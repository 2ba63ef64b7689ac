// How often counters change, and how fast they grow, seen by polling them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace tw::power {

struct Watched {
  std::optional<std::system_error> error;  ///< what the counter threw; the rest then says nothing
  std::uint64_t last = 0;
  std::vector<std::uint64_t> values;  ///< one for each round of polling
  std::size_t changes = 0;
  bool moved() const { return changes > 0; }
  /// The longest time between two changes: the median of the times between two sights of a new value, or the longest
  /// time in which polls saw no change, whichever is longer. (A poll that came late lengthens the first kind of one
  /// change, and never the second.) Where fewer than two changes were seen, how long it was watched: at least that; for
  /// a companion that stood still the usual time.
  double period_seconds = 0;
  /// Growth from the first change to the last, both of which are moments when the counter was up to date; 0 if fewer
  /// than two were seen.
  double rate_per_second = 0;
};

/// How long watch() goes on.
struct Patience {
  std::size_t enough_changes = 20;  ///< of a counter; half as many after usual_seconds
  double usual_seconds = 0.5;       ///< companions are not waited for any longer
  /// Long enough for a counter that changes once a second. Time in which the watcher did not run (a suspended virtual
  /// machine) does not count: nothing could be seen.
  double limit_seconds = 2;
  double least_seconds = 0;
};

using Numbers = std::vector<std::function<std::uint64_t()>>;

/// Polls all numbers together until each counter has changed often enough, or the limit. `companions` are polled, too;
/// they may stand still. The answers: the counters', then the companions'.
std::vector<Watched> watch(const Numbers& counters, const Numbers& companions = {}, const Patience& patience = {});

/// For people, of a counter that has not moved: read on, it would report 0 J for what certainly uses power.
std::string stood_still(const std::string& counter, const Watched& seen);

}  // namespace tw::power
