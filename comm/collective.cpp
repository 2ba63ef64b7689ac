#include "comm/collective.hpp"

#include "models/compute/error.hpp"

namespace tw::comm {

#define TW_COLLECTIVE(name, description) std::unique_ptr<Collective> name##_create(Communicator&, models::Device&);
#include "comm/collectives.def"

const std::vector<CollectiveKind>& collectives() {
  static const std::vector<CollectiveKind> kinds = {
#define TW_COLLECTIVE(name, description) {#name, description, name##_create},
#include "comm/collectives.def"
  };
  return kinds;
}

std::unique_ptr<Collective> create_collective(const std::string& name, Communicator& communicator,
                                              models::Device& device) {
  std::string known;
  for (const CollectiveKind& kind : collectives()) {
    if (name.empty() || name == kind.name) return kind.create(communicator, device);
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw models::Error(models::Failure::usage, "the collective algorithm " + name + " is not known; known are " + known);
}

}  // namespace tw::comm
