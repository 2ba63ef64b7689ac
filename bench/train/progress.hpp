// Progress on stderr: one line rewritten on a terminal, otherwise a line every ten seconds. Rank 0 only; others get a mute one.
#pragma once

#include <chrono>
#include <string>

namespace tw {

class Progress {
 public:
  /// `expected_seconds`: of the whole run, for the ETA; 0 where unknown.
  Progress(bool enabled, int points, double expected_seconds);
  /// A permanent line.
  void line(const std::string& text);
  void begin_point(int index, const std::string& id);
  /// What is happening now: "warm-up", "trial 2/3", …
  void stage(const std::string& text);
  /// Ends the point with its result in a few words.
  void end_point(const std::string& result);

 private:
  void draw(bool force);
  void clear();
  bool enabled_, terminal_;
  int points_, index_ = 0;
  double expected_seconds_;
  std::string id_, stage_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace tw
