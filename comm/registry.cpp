#include "comm/registry.hpp"

#include "models/compute/error.hpp"

namespace tw {

#define TW_COMMUNICATOR(name, serves)          \
  std::string name##_why_not(DeviceKind, int); \
  std::unique_ptr<Communicator> name##_create(Job&);
#include "comm/communicators.def"
#undef TW_COMMUNICATOR

const std::vector<CommunicatorKind>& communicators() {
  static const std::vector<CommunicatorKind> kinds = {
#define TW_COMMUNICATOR(name, serves) {#name, serves, name##_why_not, name##_create},
#include "comm/communicators.def"
#undef TW_COMMUNICATOR
  };
  return kinds;
}

std::unique_ptr<Communicator> create_communicator(const std::string& name, Job& job, DeviceKind memory) {
  std::string known, reasons;
  for (const CommunicatorKind& kind : communicators()) {
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
    if (!name.empty() && name != kind.name) continue;
    const std::string reason = kind.why_not(memory, job.size());
    if (reason.empty()) return kind.create(job);
    reasons += (reasons.empty() ? "" : "; ") + std::string(kind.name) + ": " + reason;
  }
  if (reasons.empty()) throw Error(Failure::usage, "--comm " + name + " is not known; known are " + known);
  throw Error(Failure::unsupported,
              "no communicator serves " + std::to_string(job.size()) + " ranks here (" + reasons + ")");
}

}  // namespace tw
