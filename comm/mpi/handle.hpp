// How the MPI communicator gets at the job's ranks, without mpi.h in comm/job.hpp.
#pragma once

#include <mpi.h>

#include "comm/job.hpp"

namespace tw::comm {

struct JobAccess {
  static MPI_Comm world(const Job& job);  ///< the job's own; duplicate it before use
};

}  // namespace tw::comm
