#include "power/watch.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace tw {

using Clock = std::chrono::steady_clock;

namespace {

struct Change {
  Clock::time_point time;
  std::uint64_t value;
};
double seconds_between(const Change& from, const Change& to) {
  return std::chrono::duration<double>(to.time - from.time).count();
}

}  // namespace

std::vector<Watched> watch(const std::vector<std::function<std::uint64_t()>>& counters, double limit_seconds,
                           std::size_t changes_wanted) {
  constexpr auto pause = std::chrono::microseconds(200);
  std::vector<Watched> watched(counters.size());
  std::vector<std::vector<Change>> changes(counters.size());
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  for (bool first = true, done = false; !done; first = false) {
    done = true;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      if (watched[i].error) continue;
      try {
        const std::uint64_t value = counters[i]();
        if (!first && value != watched[i].last) changes[i].push_back({Clock::now(), value});
        watched[i].last = value;
        watched[i].values.push_back(value);
        done = done && changes[i].size() >= changes_wanted;
      } catch (const std::system_error& error) {
        watched[i].error = error;
      }
    }
    if (elapsed() >= limit_seconds) break;
    if (!done) std::this_thread::sleep_for(pause);
  }
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const std::vector<Change>& seen = changes[i];
    watched[i].changes = seen.size();
    watched[i].period_seconds = elapsed();
    if (seen.size() < 2) continue;
    std::vector<double> intervals;
    for (std::size_t j = 1; j < seen.size(); ++j) intervals.push_back(seconds_between(seen[j - 1], seen[j]));
    // The median: a poll that came late lengthens one interval, and shortens the next.
    const auto middle = intervals.begin() + static_cast<std::ptrdiff_t>(intervals.size() / 2);
    std::nth_element(intervals.begin(), middle, intervals.end());
    watched[i].period_seconds = *middle;
    if (seen.back().value > seen.front().value)
      watched[i].rate_per_second =
          static_cast<double>(seen.back().value - seen.front().value) / seconds_between(seen.front(), seen.back());
  }
  return watched;
}

std::string stood_still(const std::string& counter, const Watched& seen) {
  return counter + " stood still at " + std::to_string(seen.last) + " for " + std::to_string(seen.period_seconds) +
         " s";
}

}  // namespace tw
