// Whether set points stay as they are along a window: what another program writes in its middle must not pass unseen.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "power/knob/knob.hpp"

namespace tw::power {

/// A knob that read otherwise than expected, once for each window.
struct KnobChange {
  KnobKind kind = KnobKind::gpu_clock;
  std::string domain;
  bool is_set = false;               ///< by the run; else it was to stay as found
  double time_seconds = 0;           ///< since begin(), when it was seen first
  std::string expected;              ///< the values that differ, for people: "limit_uw = 80000000"
  std::optional<std::string> found;  ///< likewise; absent: could not be read back after the window
};

/// Reads knobs back and compares. What has no getter (GPU clock locks) never differs.
class KnobWatch {
 public:
  struct Watched {
    Knob* knob = nullptr;                    ///< outlives the watch, or the next call of watch()
    std::optional<KnobState> expected = {};  ///< as the set point left it; absent: as the first begin() finds it
    bool is_set = false;
  };
  /// From now on these. Not between begin() and end().
  void watch(std::vector<Watched> knobs);
  /// Whether there is a knob that can be read back.
  bool empty() const { return knobs_.empty(); }

  void begin();
  /// Reads those whose turn it is: each as often as takes a 2000th of a core at most. From any one thread, between
  /// begin() and end(). What runs a program to be read (a site's command) is left to end(). Whether anything has been
  /// seen to differ in this window so far.
  bool look();
  /// Reads all that are set, and those as found that cost no program; what differed at any look.
  std::vector<KnobChange> end();

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Watched watched;
    bool runs_program = false;
    Clock::time_point next_look = {};
    std::optional<KnobChange> change = {};
  };
  /// False if it could not be read.
  bool read(Entry& entry);

  std::vector<Entry> knobs_;
  Clock::time_point start_;
  std::mutex mutex_;
};

}  // namespace tw::power
