#include "comm/registry.hpp"

#include "models/compute/error.hpp"

namespace tw::comm {

#define TW_COMMUNICATOR(name, serves)                \
  std::string name##_why_not(Job&, models::Device&); \
  std::unique_ptr<Communicator> name##_create(Job&, models::Device&);
#include "comm/communicators.def"

const std::vector<CommunicatorKind>& communicators() {
  static const std::vector<CommunicatorKind> kinds = {
#define TW_COMMUNICATOR(name, serves) {#name, serves, name##_why_not, name##_create},
#include "comm/communicators.def"
  };
  return kinds;
}

std::string why_no_communicator(const std::string& name, Job& job, models::Device& device) {
  for (const CommunicatorKind& kind : communicators())
    if (name == kind.name) return job.agree(kind.why_not(job, device));
  return {};
}

std::unique_ptr<Communicator> create_communicator(const std::string& name, Job& job, models::Device& device) {
  std::string known, reasons;
  for (const CommunicatorKind& kind : communicators()) {
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
    if (!name.empty() && name != kind.name) continue;
    const std::string reason = job.agree(kind.why_not(job, device));
    if (reason.empty()) {
      std::unique_ptr<Communicator> made;
      std::string failure;
      try {
        made = kind.create(job, device);
      } catch (const std::exception& error) {
        failure = error.what();
      }
      failure = job.agree(failure);
      if (failure.empty()) return made;
      throw models::Error(models::Failure::environment,
                          "--comm " + std::string(kind.name) + ": cannot be made: " + failure);
    }
    reasons += (reasons.empty() ? "" : "; ") + std::string(kind.name) + ": " + reason;
  }
  if (reasons.empty())
    throw models::Error(models::Failure::usage, "--comm " + name + " is not known; known are " + known);
  throw models::Error(models::Failure::unsupported,
                      "no communicator serves " + std::to_string(job.size()) + " ranks here (" + reasons + ")");
}

}  // namespace tw::comm
