// Which ways of moving gradients this build has (communicators.def), and how to get one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/job.hpp"

namespace tw::comm {

/// One line of communicators.def.
struct CommunicatorKind {
  const char* name;    ///< the value of --comm
  const char* serves;  ///< one line for help and errors
  /// Why it cannot serve this device's memory over the job's ranks; empty if it can. Collective; ranks may differ.
  std::string (*why_not)(Job& job, models::Device& device);
  std::unique_ptr<Communicator> (*create)(Job& job, models::Device& device);  ///< collective over the job
};

/// All communicators compiled into this program, best first.
const std::vector<CommunicatorKind>& communicators();

/// Why the named one cannot serve the job, the first failing rank's reason; empty if it can, and for "". Collective.
std::string why_no_communicator(const std::string& name, Job& job, models::Device& device);

/// The named one, or for "" the first that serves all ranks. Collective. Throws Error{usage} that lists the names
/// known, Error{unsupported} with the reason where it cannot serve, Error{environment} where a rank could not make it;
/// on all ranks alike. The communicator must end before the job and the device do.
std::unique_ptr<Communicator> create_communicator(const std::string& name, Job& job, models::Device& device);

}  // namespace tw::comm
