// Which ways of moving gradients this build has (communicators.def), and how to get one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/job.hpp"

namespace tw {

/// One line of communicators.def.
struct CommunicatorKind {
  const char* name;    ///< the value of --comm
  const char* serves;  ///< one line for help and errors
  /// Why it cannot serve memory of this kind over this many ranks; empty where it can.
  std::string (*why_not)(DeviceKind memory, int ranks);
  std::unique_ptr<Communicator> (*create)(Job& job);  ///< collective over the job
};

/// All communicators compiled into this program, best first.
const std::vector<CommunicatorKind>& communicators();

/// The named one, or for "" the first that serves. Collective. Throws Error{usage} that lists the names known,
/// Error{unsupported} with the reason where it cannot serve. The communicator must end before the job does.
std::unique_ptr<Communicator> create_communicator(const std::string& name, Job& job, DeviceKind memory);

}  // namespace tw
