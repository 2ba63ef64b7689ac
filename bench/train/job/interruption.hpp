// Signals that end a run: SIGINT, SIGTERM, SIGUSR1 and SIGHUP (unless the program was started with it ignored, as nohup
// does) are looked at between steps.
#pragma once

#include <cstdint>
#include <optional>

#include "comm/job.hpp"

namespace tw::bench {

inline constexpr const char* interrupted_by_signal = "interrupted by a signal";

void install_signal_handlers();
/// The first of them writes `line` there, which has to outlive it, from within its handler: a launcher may kill before
/// the next step is over. Not so SIGTERM, which launchers also send where a rank has been lost. Below 0: nowhere.
void note_signals_in(int fd, const char* line);
/// Whether this rank got one.
bool interruption_requested();
/// As a signal does; a test takes it back.
void set_interruption(bool requested);
/// Throws Stop{exit_interrupted} on all ranks where a signal asked for the end on any of them (collective).
void stop_if_interrupted(comm::Job& job);

/// When the ranks of a job look up together along a window: after its first step, then about as often as `seconds` say,
/// all of them after the same steps.
class Lookout {
 public:
  /// `step_seconds`: a step takes so long at least; for hosts that are ahead of their steps, by whose clock the first
  /// ones take no time.
  Lookout(comm::Job& job, double seconds, double step_seconds = 0)
      : job_(job), seconds_(seconds), step_seconds_(step_seconds) {}
  /// After `steps` steps, `elapsed` seconds of this rank into the window. Nullopt if it is not time to look;
  /// otherwise the slowest rank's seconds (collective). Throws Stop{exit_interrupted} on all ranks where a signal asked
  /// for the end on any of them.
  std::optional<double> look(std::int64_t steps, double elapsed);

 private:
  comm::Job& job_;
  double seconds_, step_seconds_;
  std::int64_t next_ = 1;
};

}  // namespace tw::bench
