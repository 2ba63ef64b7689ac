// Progress on stderr: one line rewritten on a terminal, otherwise a line every ten seconds, and one for each step that
// takes more than a second. Only rank 0 prints. A point's result in a few words, for its line.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "comm/job.hpp"
#include "results/record/record.hpp"
#include "results/terminal/tables.hpp"

namespace tw::bench {

/// How long the points still to be run will take: as the plan says, until one was measured; from then on as those were.
class Pace {
 public:
  /// `expected_seconds`: of a point; 0 if unknown. `left`: points.
  Pace(double expected_seconds, int left) : expected_seconds_(expected_seconds), left_(left) {}
  /// A point is over; one that could not run took no time that says anything.
  void finish(double seconds, bool was_measured);
  /// `seconds` into the point in progress; nullopt if nothing is known.
  std::optional<double> left_seconds(double seconds) const;

 private:
  double expected_seconds_, measured_seconds_ = 0;
  int left_, measured_ = 0;
};

/// How tables are printed at the end of a run: in colour on a terminal of ours, as wide as it, in the order of axes.
results::TableStyle style_of(const comm::Job& job);

class Progress {
 public:
  /// `expected_point_seconds`: for the ETA; 0 if unknown. `finished`: of the points, those that are not run any
  /// more.
  Progress(bool enabled, int points, double expected_point_seconds, int finished = 0);
  /// A permanent line.
  void line(const std::string& words);
  /// A permanent line that begins as bench/terminal/error_line.hpp says.
  void warn(std::string_view code, const std::string& text);
  void begin_point(const std::string& id);
  /// What is happening now: "warm-up", "trial 2/3", …
  void stage(const std::string& text);
  /// Ends the point with its result in a few words.
  void end_point(const std::string& result, bool was_measured);

 private:
  void draw(bool force);
  void clear();
  bool enabled_, terminal_;
  int points_, number_;  // of the point in progress, from 1
  Pace pace_;
  std::string id_, stage_;
  bool drawn_ = false, shown_ = false;  // a line is on the terminal; the stage was named
  std::chrono::steady_clock::time_point start_, point_start_, last_;
};

/// "valid · 4.51 ktokens/s · 0.71 of ceiling · loss 5.100 → 4.900", or why there is none.
std::string short_result(const results::Record& record);

}  // namespace tw::bench
