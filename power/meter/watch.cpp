#include "power/meter/watch.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <thread>

#include "power/meter/energy_meter.hpp"

namespace tw::power {

using Clock = std::chrono::steady_clock;

namespace {

struct Change {
  Clock::time_point time;
  std::uint64_t value;
};
/// Of the present value.
struct Sight {
  Clock::time_point since;     // the first poll that saw it had ended
  double longest_seconds = 0;  // of this value or one before: until a poll that saw no change began
};

}  // namespace

std::vector<Watched> watch(const Numbers& counters, const Numbers& companions, const Patience& patience) {
  constexpr auto pause = std::chrono::microseconds(200);
  constexpr double longest_gap_seconds = 0.1;  // longer ones, of a machine that stood, count as this
  Numbers numbers = counters;
  numbers.insert(numbers.end(), companions.begin(), companions.end());
  std::vector<Watched> watched(numbers.size());
  std::vector<std::vector<Change>> changes(numbers.size());
  std::vector<Sight> sights(numbers.size());
  const auto start = Clock::now();
  const auto elapsed = [&] { return seconds_between(start, Clock::now()); };
  double attended_seconds = 0;  // what the limit applies to
  auto round = start;
  for (bool first = true, done = false; !done; first = false) {
    done = true;
    const bool is_late = elapsed() >= patience.usual_seconds;
    const std::size_t enough = is_late ? (patience.enough_changes + 1) / 2 : patience.enough_changes;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (watched[i].error) continue;
      try {
        const auto before = Clock::now();
        const std::uint64_t value = numbers[i]();
        const auto after = Clock::now();
        if (first || value != watched[i].last) {
          if (!first) changes[i].push_back({after, value});
          sights[i].since = after;
        } else {
          sights[i].longest_seconds = std::max(sights[i].longest_seconds, seconds_between(sights[i].since, before));
        }
        watched[i].last = value;
        watched[i].values.push_back(value);
        const bool is_companion = i >= counters.size();
        done = done && (changes[i].size() >= enough || (is_companion && is_late));
      } catch (const std::system_error& error) {
        watched[i].error = error;
      }
    }
    const auto now = Clock::now();
    attended_seconds += std::min(seconds_between(round, now), longest_gap_seconds);
    round = now;
    if (attended_seconds >= patience.limit_seconds) break;
    done = done && elapsed() >= patience.least_seconds;
    if (!done) std::this_thread::sleep_for(pause);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::vector<Change>& seen = changes[i];
    watched[i].changes = seen.size();
    const bool is_companion = i >= counters.size();
    watched[i].period_seconds = is_companion && seen.empty() ? std::min(elapsed(), patience.usual_seconds) : elapsed();
    if (seen.size() < 2) continue;
    std::vector<double> intervals;
    for (std::size_t j = 1; j < seen.size(); ++j) intervals.push_back(seconds_between(seen[j - 1].time, seen[j].time));
    // The median: a poll that came late lengthens one interval, and shortens the next.
    const auto middle = intervals.begin() + static_cast<std::ptrdiff_t>(intervals.size() / 2);
    std::nth_element(intervals.begin(), middle, intervals.end());
    watched[i].period_seconds = std::max(*middle, sights[i].longest_seconds);
    if (seen.back().value > seen.front().value)
      watched[i].rate_per_second = static_cast<double>(seen.back().value - seen.front().value) /
                                   seconds_between(seen.front().time, seen.back().time);
  }
  return watched;
}

std::string stood_still(const std::string& counter, const Watched& seen) {
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.3g", seen.period_seconds);
  return counter + " stayed at " + std::to_string(seen.last) + " for " + seconds.data() + " s";
}

}  // namespace tw::power
