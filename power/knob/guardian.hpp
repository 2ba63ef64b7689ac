// A process that outlives a killed run and puts the settings back.
//
//   int main(int argc, char** argv) {
//     Guardian guardian;      // before MPI_Init and before any thread, on every rank
//     …
//     {
//       Settings settings(…); // on one rank of a node
//     }                       // put back
//   }                         // the guardian is told that there is nothing to do
//
// It lives in its own session, so that no signal to the job's process group or terminal reaches it, ignores SIGINT,
// SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2, and holds nothing of the run's but the end of a close-on-exec socket:
// a guardian that kept stdout open would keep mpirun waiting. When the run's end closes, however that came about, it
// looks for a journal of exactly that process and puts back what it names. While another process has the folder's lock
// it tries again, after pauses that grow to five minutes. A kill of the whole cgroup takes it along: then only
// `trainwatt restore` in the job's epilog, or the next run, puts back.
#pragma once

#include <sys/types.h>

#include "power/knob/restore.hpp"
#include "power/meter/descriptor.hpp"

namespace tw::power {

class Guardian {
 public:
  /// Forks; returns when it is on guard. `patience`: how long it waits for a lock at a time. Throws std::system_error.
  explicit Guardian(KnobFinder find = find_knobs, std::chrono::milliseconds patience = std::chrono::minutes(1));
  ~Guardian();  ///< dismiss()

  pid_t pid() const { return pid_; }
  /// Whether it is still on guard.
  bool alive();
  /// The run ends cleanly, or this rank will hold no settings: the guardian ends, too, and puts nothing back.
  void dismiss();

 private:
  pid_t pid_ = -1;
  Descriptor socket_;
};

}  // namespace tw::power
