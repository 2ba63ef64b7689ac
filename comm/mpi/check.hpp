// What needs mpi.h. Checks of MPI calls: TW_MPI throws ApiError with MPI's own text, TW_MPI_NOTHROW reports on stderr
// (destructors). The communicators involved must carry MPI_ERRORS_RETURN; Job sets it before it makes any other.
#pragma once

#include <mpi.h>

#include "comm/job.hpp"

namespace tw::comm {

/// How the MPI communicator gets at the job's ranks, without mpi.h in comm/job.hpp.
struct JobAccess {
  static MPI_Comm world(const Job& job);  ///< the job's own; duplicate it before use
};

namespace mpi {

[[noreturn]] void throw_error(int code, const char* expression, const char* file, int line);
void report_error(int code, const char* expression, const char* file, int line) noexcept;

}  // namespace mpi
}  // namespace tw::comm

#define TW_MPI(call)                                                                              \
  do {                                                                                            \
    const int tw_code = (call);                                                                   \
    if (tw_code != MPI_SUCCESS) ::tw::comm::mpi::throw_error(tw_code, #call, __FILE__, __LINE__); \
  } while (false)
#define TW_MPI_NOTHROW(call)                                                                       \
  do {                                                                                             \
    const int tw_code = (call);                                                                    \
    if (tw_code != MPI_SUCCESS) ::tw::comm::mpi::report_error(tw_code, #call, __FILE__, __LINE__); \
  } while (false)
