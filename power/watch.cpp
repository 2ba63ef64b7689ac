#include "power/watch.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tw {

using Clock = std::chrono::steady_clock;

std::vector<Watched> watch(const std::vector<std::function<std::uint64_t()>>& counters, double limit_seconds) {
  constexpr std::size_t enough_changes = 20;
  constexpr auto pause = std::chrono::microseconds(200);
  std::vector<Watched> watched(counters.size());
  std::vector<std::vector<Clock::time_point>> changes(counters.size());
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  for (bool first = true, done = false; !done; first = false) {
    done = true;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      if (watched[i].error) continue;
      try {
        const std::uint64_t value = counters[i]();
        if (!first && value != watched[i].last) changes[i].push_back(Clock::now());
        watched[i].last = value;
        done = done && changes[i].size() >= enough_changes;
      } catch (const std::system_error& error) {
        watched[i].error = error;
      }
    }
    if (elapsed() >= limit_seconds) break;
    if (!done) std::this_thread::sleep_for(pause);
  }
  for (std::size_t i = 0; i < counters.size(); ++i) {
    watched[i].moved = !changes[i].empty();
    watched[i].period_seconds = elapsed();
    if (changes[i].size() < 2) continue;
    std::vector<double> intervals;
    for (std::size_t j = 1; j < changes[i].size(); ++j)
      intervals.push_back(std::chrono::duration<double>(changes[i][j] - changes[i][j - 1]).count());
    // The median: a poll that came late lengthens one interval, and shortens the next.
    const auto middle = intervals.begin() + static_cast<std::ptrdiff_t>(intervals.size() / 2);
    std::nth_element(intervals.begin(), middle, intervals.end());
    watched[i].period_seconds = *middle;
  }
  return watched;
}

}  // namespace tw
