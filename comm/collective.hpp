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
  /// Leaves the sum over all ranks in `values` (count), in place, with the same bits on each rank: weights would drift
  /// apart otherwise. Called with float32, or with bf16 under in_bf16(); with any count, also 0 and such as the ranks
  /// do not divide; also on one rank, where the values stay. The order of additions is the algorithm's; bf16 is rounded
  /// as the communicator's operations do (communicator.hpp), once more for each operation that adds to a partial sum.
  /// Enqueued on the stream; calls follow one another on one stream, with the same counts on all ranks. Memory of its
  /// own grows on first use and then stays, so that later steps allocate nothing. Errors: those of the communicator.
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

/// Sums float32 values by `inner` in bf16, which halves the bytes that ranks exchange: rounds them to bf16, sums these,
/// and widens the sums in place. Values are summed in pieces of at most `piece_bytes` of float32, for which it holds
/// half as many bytes of device memory from its first use on.
std::unique_ptr<Collective> in_bf16(std::unique_ptr<Collective> inner, models::Device& device,
                                    std::int64_t piece_bytes);

}  // namespace tw::comm
