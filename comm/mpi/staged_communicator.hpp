// Collectives over device memory by way of the host: copied down, exchanged there, copied up again.
#pragma once

#include "comm/communicator.hpp"

namespace tw::comm {

/// What MPI can be given as it is, where it reads device memory by itself (CUDA-aware).
enum class DirectMemory : std::uint8_t { none, copies_and_float_reductions };

/// `host` exchanges host memory, and what `direct` says of the device's. Every call returns when all is done.
std::unique_ptr<Communicator> make_staged_communicator(models::Device& device, std::unique_ptr<Communicator> host,
                                                       DirectMemory direct);

}  // namespace tw::comm
