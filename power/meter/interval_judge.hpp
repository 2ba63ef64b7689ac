// Whether a meter can be believed all along a window, judged on each of its readings while they are made.
//
// A counter's joules at a window's two ends do not show what happened in between: a counter that was set to another
// value looks like one that wrapped, and one that stopped for a while looks like a part that drew less.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power {

/// Power above this multiple of a sensor's maximum is not believed.
inline constexpr double implausible_power_factor = 1.5;
/// Where the hardware states no maximum, power is not believed either unless it is below this multiple of the median
/// of the window's intervals: parts go from idle to full load by a factor of up to 14 (50 to 700 W).
inline constexpr double implausible_median_factor = 20;
/// A counter that does not change for longer than this multiple of the longest time without a change that was seen
/// before the window has stalled.
inline constexpr double stalled_gap_factor = 3;

/// What is known of a window besides its joules.
struct WindowFinding {
  /// Empty if the joules can be believed. "reset": the counter rose by more in an interval than its part can draw,
  /// so that it was set to another value; "stalled": it did not change for too long, and what was used meanwhile may be
  /// missing; "implausible": most intervals are above what the part can draw, so that the meter is wrong as a whole.
  std::string reason;
  std::string detail;              ///< for people; empty if the reason is
  double longest_gap_seconds = 0;  ///< longest time without a change, seen before the window or in it
  /// The highest mean power between two readings, or in an update period where that is longer; 0 if there were none.
  double highest_watts = 0;
  /// Times without a change that are longer than usual, but not long enough to be "stalled": joules may be missing.
  double doubtful_seconds = 0;
  /// How far stretches in which the counter wrapped, or showed a high power that is believed all the same, are from the
  /// powers of the window's other stretches: a counter that was set to another value may look the same.
  double doubtful_joules = 0;
};

/// One for each meter; fed with each reading, in and between windows. Uses the readings' own times alone.
class IntervalJudge {
 public:
  /// `update_period_seconds`: the longest time without a change that was seen when the meter was opened.
  IntervalJudge(EnergyMethod method, double update_period_seconds, double maximum_watts, bool maximum_is_default);

  /// A reading; `taken_seconds`: how long it took. The reading's moment lies in the middle, the sensor's own anywhere.
  /// Between windows the times without a change are learnt, up to longest_learnt_seconds.
  void feed(const EnergySample& sample, double taken_seconds = 0);
  /// The meter broke off: what comes next has nothing to do with what was before.
  void lose();
  /// A window begins with the last reading.
  void begin();
  /// Ends the window with the last reading.
  WindowFinding end();

  /// A counter that does not change for longer between windows has stopped, and is not slow (power/meter/watch.hpp).
  static constexpr double longest_learnt_seconds = 2;
  /// Fewer readings without a change, or a shorter time, show nothing: a controller or a busy node may be late once,
  /// and joules that come late are not lost. Such times are added to the uncertainty.
  static constexpr int least_stalled_readings = 3;
  static constexpr double least_stalled_seconds = 0.5;
  /// Power in a shorter time is judged as if it had taken this long: a counter's steps do not come evenly.
  static constexpr double least_interval_seconds = 0.05;

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Reading {
    EnergySample sample;
    double slack_seconds = 0;  // the sensor's moment lies at most so far from the sample's time
  };
  struct Stretch {
    double joules = 0, seconds = 0;
  };
  struct Window {
    Time start;
    Reading stretch_from;
    bool is_stretch_suspect = false;
    int suspects = 0, clean = 0;         // stretches
    std::map<int, std::int64_t> powers;  // of clean stretches: how many in each quarter of an octave
    double highest_watts = 0;            // of intervals
    double suspect_watts = 0;            // the highest above the floor
    std::string suspect;                 // about it, for people
    double lowest_watts = std::numeric_limits<double>::infinity();  // of the other stretches
    double highest_stretch_watts = 0;
    std::vector<Stretch> doubted;  // with a wrap, or more power than the floor
    double longest_gap_seconds = 0, stalled_seconds = 0, stalled_at_seconds = 0;
    double doubtful_seconds = 0;
  };

  static double seconds(const Reading& from, const Reading& to);
  bool is_counter() const { return method_ == EnergyMethod::counter; }
  bool has_changed(const EnergySample& sample) const;
  void note_gap(Window& window, const Reading& until) const;
  void judge_step(const Reading& now);
  void close_stretch(Window& window, const Reading& now) const;
  double doubtful_joules(const Window& window) const;
  double floor_watts() const { return implausible_power_factor * maximum_watts_; }

  EnergyMethod method_;
  double known_gap_seconds_, maximum_watts_;
  bool maximum_is_default_;
  std::optional<Reading> last_;            // reading
  std::optional<Reading> sight_, before_;  // the first reading of the present value; the one before that
  std::optional<Reading> from_;            // the step that is judged begins here,
  double from_late_seconds_ = 0;           // with a change that may have come so much earlier
  int unchanged_readings_ = 0;             // since sight_
  std::optional<Window> window_;
};

}  // namespace tw::power
