// What a rank has written before it ends the job: the launcher reads it from a pipe.
#pragma once

#include <chrono>

namespace tw::comm::mpi {

/// Waits until the reader of a pipe has taken what was written into it. True: it has, or nobody reads any more, or
/// `descriptor` is not a pipe. False: bytes are left after `at_most`.
bool wait_until_read(int descriptor, std::chrono::milliseconds at_most) noexcept;

}  // namespace tw::comm::mpi
