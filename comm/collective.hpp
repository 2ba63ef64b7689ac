// The algorithms by which ranks sum gradients (collectives.def), and how to get one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"

namespace tw::comm {

/// Sums gradients over the ranks of one communicator, by that communicator's operations.
class Collective {
 public:
  virtual ~Collective() = default;
  /// Leaves the sum over all ranks in `values` (float32, any count), in place. Enqueued on the stream; calls follow one
  /// another on one stream, with the same counts on all ranks.
  virtual void sum(models::Stream& stream, const models::Tensor& values) = 0;
};

/// One line of collectives.def.
struct CollectiveKind {
  const char* name;
  const char* description;  ///< one line for people
  std::unique_ptr<Collective> (*create)(Communicator& communicator, models::Device& device);
};

/// All algorithms compiled into this program, the default first.
const std::vector<CollectiveKind>& collectives();

/// The named one, or for "" the default. Throws Error{usage} that lists the names known. The device is the one whose
/// memory is summed; it and the communicator must outlive the result.
std::unique_ptr<Collective> create_collective(const std::string& name, Communicator& communicator,
                                              models::Device& device);

}  // namespace tw::comm
