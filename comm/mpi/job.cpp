#include "comm/job.hpp"

#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "comm/launch.hpp"
#include "comm/mpi/check.hpp"
#include "comm/mpi/output.hpp"
#include "comm/registry.hpp"
#include "models/compute/error.hpp"

namespace tw::comm {

namespace mpi {

static std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "unknown error";
  return std::string(text, static_cast<std::size_t>(length));
}

void throw_error(int code, const char* expression, const char* file, int line) {
  throw models::ApiError("MPI", code, error_text(code), expression, file, line);
}

void report_error(int code, const char* expression, const char* file, int line) noexcept {
  try {
    std::fprintf(stderr, "MPI: %s (code %d) in %s at %s:%d\n", error_text(code).c_str(), code, expression, file, line);
  } catch (...) {  // out of memory while the program ends: nothing left to do
  }
}

}  // namespace mpi

struct Job::Impl {
  MPI_Comm world = MPI_COMM_NULL;
  int rank = 0, size = 1;
  NodePlace place;
  std::string host, launcher;
  int exceptions_at_start = 0;
  bool owns_mpi = false;

  std::vector<double> reduce(std::vector<double> values, MPI_Op operation) const {
    if (values.size() > INT_MAX)
      throw models::Error(models::Failure::usage, "more than 2^31-1 values in one host-side exchange");
    TW_MPI(MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, operation, world));
    return values;
  }
  /// Everything that follows from `world`.
  void look() {
    TW_MPI(MPI_Comm_rank(world, &rank));
    TW_MPI(MPI_Comm_size(world, &size));
    MPI_Comm node = MPI_COMM_NULL;
    TW_MPI(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
    int leader = rank;
    TW_MPI(MPI_Bcast(&leader, 1, MPI_INT, 0, node));
    TW_MPI(MPI_Comm_free(&node));
    std::vector<int> leader_of(static_cast<std::size_t>(size));
    TW_MPI(MPI_Allgather(&leader, 1, MPI_INT, leader_of.data(), 1, MPI_INT, world));
    place = place_on_node(leader_of, rank);
  }
};

MPI_Comm JobAccess::world(const Job& job) { return job.impl_->world; }

Job::Job(int* argc, char*** argv) : impl_(std::make_unique<Impl>()) {
  int initialised = 0;
  TW_MPI(MPI_Initialized(&initialised));
  if (initialised)
    throw models::Error(models::Failure::internal, "one process has one Job: MPI has been initialised before");
  impl_->exceptions_at_start = std::uncaught_exceptions();
  impl_->owns_mpi = true;
  const Launch launch = read_launch();  // MPI_Init adds to the environment
  impl_->launcher = launch.launcher;
  int provided = MPI_THREAD_SINGLE;
  TW_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
  TW_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  if (provided < MPI_THREAD_SERIALIZED)
    throw models::Error(models::Failure::environment,
                        "this MPI lets only its main thread communicate (MPI_THREAD_SERIALIZED is needed): use an "
                        "MPI built with thread support");
  TW_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &impl_->world));

  char name[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  TW_MPI(MPI_Get_processor_name(name, &length));
  impl_->host.assign(name, static_cast<std::size_t>(length));
  impl_->look();
  if (const std::string mismatch = launcher_mismatch(launch, size(), local_size()); !mismatch.empty())
    throw LauncherMismatch(mismatch + ": the launcher belongs to another MPI than this program, " + library() +
                           "; use the mpirun of that MPI, or srun with an --mpi type that it supports, mostly pmix for "
                           "Open MPI and pmi2 for MPICH and Intel MPI (one rank alone: mpirun -np 1)");
}

Job::Job() : impl_(std::make_unique<Impl>()) {}

std::unique_ptr<Job> Job::first(int ranks) {
  if (ranks < 1 || ranks > size())
    throw models::Error(models::Failure::usage,
                        "a job of " + std::to_string(ranks) + " ranks out of " + std::to_string(size()));
  std::unique_ptr<Job> part(new Job());
  part->impl_->exceptions_at_start = std::uncaught_exceptions();
  part->impl_->launcher = impl_->launcher;
  part->impl_->host = impl_->host;
  TW_MPI(MPI_Comm_split(impl_->world, rank() < ranks ? 0 : MPI_UNDEFINED, rank(), &part->impl_->world));
  if (part->impl_->world == MPI_COMM_NULL) return nullptr;
  part->impl_->look();
  return part;
}

Job::~Job() {
  if (std::uncaught_exceptions() > impl_->exceptions_at_start) return;
  int finalised = 0;
  TW_MPI_NOTHROW(MPI_Finalized(&finalised));
  if (finalised) return;
  if (impl_->world != MPI_COMM_NULL) TW_MPI_NOTHROW(MPI_Comm_free(&impl_->world));
  if (impl_->owns_mpi) TW_MPI_NOTHROW(MPI_Finalize());
}

int Job::rank() const { return impl_->rank; }
int Job::size() const { return impl_->size; }
int Job::local_rank() const { return impl_->place.local_rank; }
int Job::local_size() const { return impl_->place.local_size; }
int Job::node() const { return impl_->place.node; }
int Job::nodes() const { return impl_->place.nodes; }
const std::string& Job::host() const { return impl_->host; }
std::string Job::launcher() const { return impl_->launcher; }

std::string Job::library() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  TW_MPI(MPI_Get_library_version(text, &length));
  std::string version(text, static_cast<std::size_t>(length));
  version = version.substr(0, version.find_first_of(",\n"));  // "Open MPI v4.1.4, package: …"
  const std::size_t v = version.find(" v");
  if (v != std::string::npos && v + 2 < version.size() && version[v + 2] >= '0' && version[v + 2] <= '9')
    version.erase(v + 1, 1);
  if (const std::size_t word = version.find(" Version"); word != std::string::npos)  // "MPICH Version:\t4.0.2"
    if (const std::size_t number = version.find_first_of("0123456789", word); number != std::string::npos)
      version.erase(word + 1, number - word - 1);
  return version;
}

void Job::barrier() { TW_MPI(MPI_Barrier(impl_->world)); }

void Job::meet() {
  MPI_Request request = MPI_REQUEST_NULL;
  TW_MPI(MPI_Ibarrier(impl_->world, &request));
  for (int all_here = 0;;) {
    TW_MPI(MPI_Test(&request, &all_here, MPI_STATUS_IGNORE));
    if (all_here) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

std::vector<std::string> Job::gather(const std::string& mine) {
  const auto ranks = static_cast<std::size_t>(size());
  std::vector<long long> lengths(ranks);
  const auto length = static_cast<long long>(mine.size());
  TW_MPI(MPI_Allgather(&length, 1, MPI_LONG_LONG, lengths.data(), 1, MPI_LONG_LONG, impl_->world));
  std::vector<int> counts(ranks), offsets(ranks);
  long long total = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (lengths[r] > INT_MAX - total)
      throw models::Error(models::Failure::usage, "more than 2 GiB of text in one host-side exchange");
    counts[r] = static_cast<int>(lengths[r]);
    offsets[r] = static_cast<int>(total);
    total += lengths[r];
  }
  std::string all(static_cast<std::size_t>(total), '\0');
  TW_MPI(MPI_Allgatherv(mine.data(), static_cast<int>(length), MPI_CHAR, all.data(), counts.data(), offsets.data(),
                        MPI_CHAR, impl_->world));
  std::vector<std::string> texts(ranks);
  for (std::size_t r = 0; r < ranks; ++r)
    texts[r] = all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(counts[r]));
  return texts;
}

std::string Job::broadcast(const std::string& text, int root) {
  long long length = static_cast<long long>(text.size());
  TW_MPI(MPI_Bcast(&length, 1, MPI_LONG_LONG, root, impl_->world));
  if (length > INT_MAX)
    throw models::Error(models::Failure::usage, "more than 2 GiB of text in one host-side exchange");
  std::string result = rank() == root ? text : std::string(static_cast<std::size_t>(length), '\0');
  TW_MPI(MPI_Bcast(result.data(), static_cast<int>(length), MPI_CHAR, root, impl_->world));
  return result;
}

std::vector<double> Job::sum(std::vector<double> values) { return impl_->reduce(std::move(values), MPI_SUM); }
std::vector<double> Job::maximum(std::vector<double> values) { return impl_->reduce(std::move(values), MPI_MAX); }

std::string Job::agree(const std::string& failure) {
  int first = failure.empty() ? size() : rank();
  TW_MPI(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, impl_->world));
  if (first == size()) return {};
  return broadcast("rank " + std::to_string(first) + " (" + host() + "): " + failure, first);
}

std::unique_ptr<Communicator> Job::communicator(models::Device& device) {
  return create_communicator("", *this, device);
}

void Job::abort(int exit_code) noexcept {
  std::fflush(nullptr);
  int all = 1;
  if (MPI_Comm_size(MPI_COMM_WORLD, &all) != MPI_SUCCESS) all = size();
  if (all > 1) {
    // A launcher that kills the ranks may not read their pipes to the end: seen with MPICH's mpiexec.
    for (const int descriptor : {STDERR_FILENO, STDOUT_FILENO})
      mpi::wait_until_read(descriptor, std::chrono::seconds(1));
    MPI_Abort(MPI_COMM_WORLD, exit_code);  // also where a peer is in the middle of a collective
  }
  // Alone nobody waits, and MPI_Abort would add a banner to an error that has been told already.
  int finalised = 0;
  if (MPI_Finalized(&finalised) == MPI_SUCCESS && !finalised) MPI_Finalize();
  std::_Exit(exit_code);
}

}  // namespace tw::comm
