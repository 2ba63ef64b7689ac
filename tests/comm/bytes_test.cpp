// How many bytes the ranks exchange to sum gradients, counted through the profiling interface of MPI.
#include <gtest/gtest.h>
#include <mpi.h>

#include "comm/bucketer.hpp"
#include "comm/registry.hpp"
#include "tests/comm/support.hpp"

namespace {

/// That a rank has to send at least, by whatever algorithm, in its calls since the last reset.
double sent_bytes = 0;

double bytes_of(int count, MPI_Datatype type) {
  int bytes = 0;
  PMPI_Type_size(type, &bytes);
  return static_cast<double>(count) * bytes;
}
double size_of(MPI_Comm comm) {
  int size = 1;
  PMPI_Comm_size(comm, &size);
  return size;
}

}  // namespace

// Each rank sends its share of the values to the others, and then the sum of its own share.
int MPI_Allreduce(const void* input, void* output, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm) {
  const double ranks = size_of(comm);
  sent_bytes += 2 * (ranks - 1) / ranks * bytes_of(count, type);
  return PMPI_Allreduce(input, output, count, type, operation, comm);
}
int MPI_Alltoall(const void* input, int send_count, MPI_Datatype send_type, void* output, int receive_count,
                 MPI_Datatype receive_type, MPI_Comm comm) {
  sent_bytes += (size_of(comm) - 1) * bytes_of(send_count, send_type);
  return PMPI_Alltoall(input, send_count, send_type, output, receive_count, receive_type, comm);
}
int MPI_Allgather(const void* input, int send_count, MPI_Datatype send_type, void* output, int receive_count,
                  MPI_Datatype receive_type, MPI_Comm comm) {
  sent_bytes += (size_of(comm) - 1) * bytes_of(send_count, send_type);
  return PMPI_Allgather(input, send_count, send_type, output, receive_count, receive_type, comm);
}

namespace tw {
namespace {

using namespace comm;
using namespace models;

TEST(BucketerOverRanks, ExchangesHalfTheBytesInBf16) {
  const auto comm = create_communicator("mpi", test_job(), host_device());
  HostStream stream;
  const std::int64_t count = 12 << 18;  // a multiple of each number of ranks, in several pieces
  Guarded<float> values(count, 1);
  const auto bytes = [&](DType reduce) {
    Bucketer bucketer(*comm, host_device(), 3 << 20, Bucketer::Start::by_communicator, {}, reduce);
    sent_bytes = 0;
    bucketer.finish(stream, values.tensor());
    return sent_bytes;
  };
  const double ranks = comm->size();
  EXPECT_DOUBLE_EQ(bytes(DType::float32), 2 * (ranks - 1) / ranks * 4 * static_cast<double>(count));
  EXPECT_DOUBLE_EQ(bytes(DType::bf16), 2 * (ranks - 1) / ranks * 2 * static_cast<double>(count));
}

}  // namespace
}  // namespace tw
