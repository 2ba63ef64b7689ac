#include "power/meter/interval_judge.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "power/meter/number_text.hpp"

namespace tw::power {
namespace {

/// A stretch is long against the update period, so that the steps at its ends do not show as peaks.
constexpr double periods_per_stretch = 10;
/// Up to here a time without a change is one as before: update periods are not exact.
constexpr double usual_gap_factor = 1.5;
constexpr int bins_per_octave = 4;

int bin_of(double watts) { return static_cast<int>(std::ceil(bins_per_octave * std::log2(std::max(watts, 1e-6)))); }

/// The upper edge of the bin that holds the median; 0 if there is none.
double median_watts(const std::map<int, std::int64_t>& bins) {
  std::int64_t all = 0, seen = 0;
  for (const auto& [bin, count] : bins) all += count;
  for (const auto& [bin, count] : bins)
    if (seen += count; 2 * seen >= all) return std::exp2(static_cast<double>(bin) / bins_per_octave);
  return 0;
}

}  // namespace

IntervalJudge::IntervalJudge(EnergyMethod method, double update_period_seconds, double maximum_watts,
                             bool maximum_is_default)
    : method_(method),
      known_gap_seconds_(update_period_seconds),
      maximum_watts_(maximum_watts),
      maximum_is_default_(maximum_is_default) {}

double IntervalJudge::seconds(const Reading& from, const Reading& to) {
  return seconds_between(from.sample.time, to.sample.time);
}

/// Of a counter its value tells, or what else shows that it was updated; of power that is integrated the joules do.
bool IntervalJudge::has_changed(const EnergySample& sample) const {
  return sample.mark != last_->sample.mark || sample.joules != last_->sample.joules;
}

void IntervalJudge::lose() {
  last_.reset(), sight_.reset(), before_.reset(), from_.reset();
  unchanged_readings_ = 0;
  window_.reset();
}

void IntervalJudge::feed(const EnergySample& sample, double taken_seconds) {
  const Reading now{sample, taken_seconds / 2};
  if (!last_) {
    last_ = sight_ = from_ = now;
    from_late_seconds_ = known_gap_seconds_;
    return;
  }
  if (!has_changed(sample)) {
    ++unchanged_readings_;
  } else {
    if (window_) note_gap(*window_, now);
    judge_step(now);
    before_ = last_;
    sight_ = now;
    unchanged_readings_ = 0;
  }
  last_ = now;
  if (window_ || !is_counter()) return;
  const double unchanged = seconds(*sight_, now) - sight_->slack_seconds - now.slack_seconds;
  known_gap_seconds_ = std::max(known_gap_seconds_, std::min(unchanged, longest_learnt_seconds));
}

/// The value that was first seen at sight_ was last seen at last_; at `until` another one, or the window's end.
void IntervalJudge::note_gap(Window& window, const Reading& until) const {
  if (!is_counter()) return;
  // Sure is only the time between two readings that show the same value, whenever this thread came to make them.
  const double sure = seconds(*sight_, *last_) - sight_->slack_seconds - last_->slack_seconds;
  if (unchanged_readings_ == 0 || sure <= 0) return;
  const Reading& earliest = before_ ? *before_ : *sight_;
  const double at_most = seconds(earliest, until) + earliest.slack_seconds + until.slack_seconds;
  window.longest_gap_seconds = std::max(window.longest_gap_seconds, sure);
  const double stalled = std::max(stalled_gap_factor * known_gap_seconds_, least_stalled_seconds);
  if (sure > stalled && unchanged_readings_ >= least_stalled_readings) {
    if (sure <= window.stalled_seconds) return;
    window.stalled_seconds = sure;
    window.stalled_at_seconds = std::max(0.0, seconds_between(window.start, sight_->sample.time));
  } else if (sure > usual_gap_factor * known_gap_seconds_) {
    window.doubtful_seconds += at_most;
  }
}

void IntervalJudge::judge_step(const Reading& now) {
  const double elapsed = seconds(*from_, now), joules = now.sample.joules - from_->sample.joules;
  // What the counter shows at from_ may be older than the reading, by one update at most.
  const double span =
      std::max(elapsed, least_interval_seconds) + from_late_seconds_ + from_->slack_seconds + now.slack_seconds;
  const double watts = joules / span;
  if (window_ && watts > floor_watts()) {
    window_->is_stretch_suspect = true;
    if (watts > window_->suspect_watts) {
      window_->suspect_watts = watts;
      window_->suspect = formatted("%.6g J within %.3g s, %.3g s into the window", joules, elapsed,
                                   std::max(0.0, seconds_between(window_->start, from_->sample.time)));
    }
  }
  if (elapsed >= least_interval_seconds) {
    if (window_ && watts <= floor_watts())
      window_->highest_watts = std::max(window_->highest_watts, joules / std::max(elapsed, known_gap_seconds_));
    from_late_seconds_ = std::min(known_gap_seconds_, seconds(*last_, now));
    from_ = now;
  }
  if (!window_) return;
  const double stretch = seconds(window_->stretch_from, now);
  const double update_seconds = is_counter() ? known_gap_seconds_ : 0;
  if (stretch < std::max(least_interval_seconds, periods_per_stretch * update_seconds)) return;
  close_stretch(*window_, now);
}

void IntervalJudge::close_stretch(Window& window, const Reading& now) const {
  const Reading from = std::exchange(window.stretch_from, now);
  const bool is_suspect = std::exchange(window.is_stretch_suspect, false);
  const double stretch = seconds(from, now), joules = now.sample.joules - from.sample.joules, watts = joules / stretch;
  if (is_suspect)
    ++window.suspects;
  else
    ++window.clean, ++window.powers[bin_of(watts)];
  if (is_suspect || now.sample.wraps != from.sample.wraps) {
    window.doubted.push_back({joules, stretch});
  } else {
    window.lowest_watts = std::min(window.lowest_watts, watts);
    window.highest_stretch_watts = std::max(window.highest_stretch_watts, watts);
  }
}

/// Other stretches show what the part draws: how far from these powers the doubted ones are.
double IntervalJudge::doubtful_joules(const Window& window) const {
  double joules = 0;
  if (window.highest_stretch_watts == 0) return 0;
  for (const Stretch& one : window.doubted) {
    const double least = window.lowest_watts * one.seconds;
    const double most = window.highest_stretch_watts * (one.seconds + known_gap_seconds_);
    joules += std::max(std::abs(one.joules - least), std::abs(one.joules - most));
  }
  return joules;
}

void IntervalJudge::begin() {
  window_.reset();
  if (!last_) return;
  window_ = Window{};
  window_->start = last_->sample.time;
  window_->stretch_from = *last_;
  from_ = last_;
  from_late_seconds_ = known_gap_seconds_;
}

WindowFinding IntervalJudge::end() {
  WindowFinding found;
  found.longest_gap_seconds = known_gap_seconds_;
  if (!window_ || !last_) return found;
  Window window = std::move(*window_);
  window_.reset();
  note_gap(window, *last_);
  if (seconds(window.stretch_from, *last_) > 0 &&
      (window.is_stretch_suspect || last_->sample.wraps != window.stretch_from.sample.wraps))
    close_stretch(window, *last_);
  found.longest_gap_seconds = std::max(found.longest_gap_seconds, window.longest_gap_seconds);
  found.highest_watts = std::max(window.highest_watts, window.suspect_watts);
  found.doubtful_seconds = window.doubtful_seconds;
  found.doubtful_joules = doubtful_joules(window);

  const double median = median_watts(window.powers);
  double limit = floor_watts();
  std::string bound =
      formatted("1.5 x the %s maximum of %.6g W", maximum_is_default_ ? "assumed" : "sensor's", maximum_watts_);
  if (maximum_is_default_ && implausible_median_factor * median > limit) {
    limit = implausible_median_factor * median;
    bound = formatted("%g x the median of the window's intervals, about %.3g W", implausible_median_factor, median);
  }
  if (window.suspect_watts > limit) {
    const bool is_most = window.suspects > 1 && window.suspects > window.clean;
    found.reason = is_counter() && !is_most ? "reset" : "implausible";
    found.detail = window.suspect + formatted(": %.4g W is above ", window.suspect_watts) + bound;
    if (found.reason == "reset") found.detail += ": the counter was set to another value, so the joules are unknown";
  } else if (window.stalled_seconds > 0) {
    found.reason = "stalled";
    found.detail = formatted(
        "the counter did not change for %.3g s, %.3g s into the window; the longest time without a change before was "
        "%.3g s: joules may be missing",
        window.stalled_seconds, window.stalled_at_seconds, known_gap_seconds_);
  }
  return found;
}

}  // namespace tw::power
