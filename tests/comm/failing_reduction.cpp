// Preloaded into one rank: its third reduction of gradients fails. Through the profiling interface of MPI, so that the
// program under test is the one that is shipped.
#include <mpi.h>

int MPI_Allreduce(const void* input, void* output, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm) {
  static int reductions = 0;
  if (type == MPI_FLOAT && ++reductions >= 3) return MPI_ERR_OTHER;
  return PMPI_Allreduce(input, output, count, type, operation, comm);
}
