// A made-up libnccl.so.2 for tests without a GPU: the "device memory" is host memory, and MPI moves it. What NCCL asks
// of its callers is checked: one identity on all ranks, a stream, sends and receives of a group that match.
// TW_STANDIN_NCCL_LOSES_PEER: a peer has gone. "watched": a communicator has the asynchronous error; "returned": a
// reduction returns it, and from then on ncclCommDestroy waits for ever; "watched_in_a_step", "returned_in_a_step":
// only after some reductions; "at_start": rank 1 gets no communicator; "never_starts": none ever does; "never_returns":
// a reduction does not come back to the host.
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

enum Result : int { success = 0, invalid_argument = 4, invalid_usage = 5, remote_error = 6 };

struct UniqueId {
  char internal[128];
};
struct Message {
  void* data;
  int bytes, peer;
  bool sends;
};

bool loses_peer(const char* how) {
  const char* said = std::getenv("TW_STANDIN_NCCL_LOSES_PEER");
  return said && std::string(said) == how;
}

bool in_group = false;
std::vector<Message> group;
void wait_for_ever() { std::this_thread::sleep_for(std::chrono::hours(1)); }

std::atomic<int> reductions = 0;
constexpr int reductions_before_loss = 3;  // of the ways "…_in_a_step"

}  // namespace

struct Comm {
  MPI_Comm ranks;
  int size;
};

namespace {

Comm* group_comm = nullptr;

MPI_Datatype type_of(int type) { return type == 7 ? MPI_FLOAT : type == 9 ? MPI_UINT16_T : MPI_DATATYPE_NULL; }
int size_of(int type) { return type == 9 ? 2 : 4; }
bool is_bad(int type, const void* stream) { return type_of(type) == MPI_DATATYPE_NULL || !stream; }

float widened(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
std::uint16_t narrowed(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// The reduction of all ranks' `count` values, as floats.
std::vector<float> reduced(const void* input, std::size_t count, int type, int operation, Comm* comm) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = type == 9 ? widened(static_cast<const std::uint16_t*>(input)[i]) : static_cast<const float*>(input)[i];
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(count), MPI_FLOAT, operation == 0 ? MPI_SUM : MPI_MAX,
                comm->ranks);
  return values;
}
void store(const float* values, std::size_t count, int type, void* output) {
  for (std::size_t i = 0; i < count; ++i) {
    if (type == 9)
      static_cast<std::uint16_t*>(output)[i] = narrowed(values[i]);
    else
      static_cast<float*>(output)[i] = values[i];
  }
}

int end_group() {
  std::vector<MPI_Request> requests;
  for (const Message& message : group) {
    MPI_Request& request = requests.emplace_back();
    if (message.sends)
      MPI_Isend(message.data, message.bytes, MPI_BYTE, message.peer, 0, group_comm->ranks, &request);
    else
      MPI_Irecv(message.data, message.bytes, MPI_BYTE, message.peer, 0, group_comm->ranks, &request);
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  group.clear();
  return success;
}

int pass(void* data, std::size_t count, int type, int peer, bool sends, Comm* comm, void* stream) {
  if (is_bad(type, stream) || peer < 0 || peer >= comm->size) return invalid_argument;
  group_comm = comm;
  group.push_back({data, static_cast<int>(count) * size_of(type), peer, sends});
  return in_group ? success : end_group();
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  const char* said = std::getenv("TW_STANDIN_NCCL_VERSION");
  *version = said ? std::atoi(said) : 22809;
  return success;
}
const char* ncclGetErrorString(int result) { return result == remote_error ? "remote process exited" : "invalid"; }
const char* ncclGetLastError(Comm*) { return "stand-in"; }
int ncclGetUniqueId(UniqueId* id) {
  std::random_device random;
  for (char& byte : id->internal) byte = static_cast<char>(random());
  return success;
}
int ncclCommInitRank(Comm** comm, int ranks, UniqueId id, int rank) {
  if (loses_peer("never_starts")) wait_for_ever();
  *comm = new Comm{};
  MPI_Comm_dup(MPI_COMM_WORLD, &(*comm)->ranks);
  int here = 0;
  MPI_Comm_rank((*comm)->ranks, &here);
  MPI_Comm_size((*comm)->ranks, &(*comm)->size);
  UniqueId first = id;
  MPI_Bcast(first.internal, sizeof first.internal, MPI_BYTE, 0, (*comm)->ranks);
  int differs = here != rank || (*comm)->size != ranks || std::memcmp(&first, &id, sizeof id) != 0;
  MPI_Allreduce(MPI_IN_PLACE, &differs, 1, MPI_INT, MPI_MAX, (*comm)->ranks);
  if (loses_peer("at_start") && rank == 1) return remote_error;
  return differs ? invalid_usage : success;
}
int ncclCommDestroy(Comm* comm) {
  if (loses_peer("returned") || loses_peer("returned_in_a_step")) wait_for_ever();
  MPI_Comm_free(&comm->ranks);
  delete comm;
  return success;
}
/// Of this rank alone: MPI's communicator stays, as freeing it would wait for the others.
int ncclCommAbort(Comm* comm) {
  delete comm;
  return success;
}
int ncclCommGetAsyncError(Comm*, int* result) {
  const bool is_lost = loses_peer("watched_in_a_step") && reductions > reductions_before_loss;
  *result = is_lost || loses_peer("watched") ? remote_error : success;
  return success;
}
int ncclGroupStart() {
  if (in_group) return invalid_usage;
  in_group = true;
  return success;
}
int ncclGroupEnd() {
  if (!in_group) return invalid_usage;
  in_group = false;
  return end_group();
}
int ncclAllReduce(const void* input, void* output, std::size_t count, int type, int operation, Comm* comm,
                  void* stream) {
  if (is_bad(type, stream)) return invalid_argument;
  if (loses_peer("never_returns")) wait_for_ever();
  if (loses_peer("returned")) return remote_error;
  if (++reductions > reductions_before_loss && loses_peer("returned_in_a_step")) return remote_error;
  store(reduced(input, count, type, operation, comm).data(), count, type, output);
  return success;
}
int ncclReduceScatter(const void* input, void* output, std::size_t count, int type, int operation, Comm* comm,
                      void* stream) {
  if (is_bad(type, stream)) return invalid_argument;
  const auto all = reduced(input, count * static_cast<std::size_t>(comm->size), type, operation, comm);
  int rank = 0;
  MPI_Comm_rank(comm->ranks, &rank);
  store(all.data() + static_cast<std::size_t>(rank) * count, count, type, output);
  return success;
}
int ncclAllGather(const void* input, void* output, std::size_t count, int type, Comm* comm, void* stream) {
  if (is_bad(type, stream)) return invalid_argument;
  MPI_Allgather(input, static_cast<int>(count), type_of(type), output, static_cast<int>(count), type_of(type),
                comm->ranks);
  return success;
}
int ncclBroadcast(const void* input, void* output, std::size_t count, int type, int root, Comm* comm, void* stream) {
  if (is_bad(type, stream)) return invalid_argument;
  if (input != output) std::memcpy(output, input, count * static_cast<std::size_t>(size_of(type)));
  MPI_Bcast(output, static_cast<int>(count), type_of(type), root, comm->ranks);
  return success;
}
int ncclSend(const void* input, std::size_t count, int type, int peer, Comm* comm, void* stream) {
  return pass(const_cast<void*>(input), count, type, peer, true, comm, stream);
}
int ncclRecv(void* output, std::size_t count, int type, int peer, Comm* comm, void* stream) {
  return pass(output, count, type, peer, false, comm, stream);
}

}  // extern "C"
