// The ranks of this launch as one job: start and end of MPI, who sits where, and small host-side exchanges.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "models/compute/error.hpp"

namespace tw::comm {

/// More processes were started than MPI connects: the launcher belongs to another MPI (launcher_mismatch of
/// comm/launch.hpp).
class LauncherMismatch : public models::Error {
 public:
  explicit LauncherMismatch(const std::string& what) : models::Error(models::Failure::environment, what) {}
};

/// Owns MPI_Init_thread … MPI_Finalize. One per process, and those that first() makes. Runs alone (size 1) when not
/// started by a launcher; throws LauncherMismatch if it was started by one that MPI does not know. `barrier` and all
/// functions after it are collective over all ranks of the job, but for `abort`. MPI errors throw ApiError. Destroyed
/// by an exception passing through, it leaves MPI_Finalize out, since the other ranks would be waited for: the process
/// then has to end non-zero (or through `abort`) and the launcher ends the others.
class Job {
 public:
  Job(int* argc, char*** argv);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int rank() const;
  int size() const;
  int local_rank() const;  ///< on this node, by MPI_Comm_split_type(SHARED)
  int local_size() const;
  int node() const;  ///< 0 … nodes() − 1
  int nodes() const;
  bool is_root() const { return rank() == 0; }
  bool is_node_leader() const { return local_rank() == 0; }
  const std::string& host() const;
  std::string library() const;   ///< "Open MPI 4.1.4"
  std::string launcher() const;  ///< "mpirun", "srun", "none"

  /// The first `ranks` ranks as a job of their own, with places on its nodes as these ranks have them; null on the
  /// others. Ends before this one.
  std::unique_ptr<Job> first(int ranks);

  void barrier();
  /// Likewise, but those that wait sleep, up to 10 ms too long, instead of spinning: their power would count.
  void meet();
  std::vector<std::string> gather(const std::string& mine);  ///< everybody gets everybody's, by rank
  std::string broadcast(const std::string& text, int root = 0);
  /// Element-wise over ranks, with the same bits on all of them (the standard requires it of MPI_Allreduce), so that
  /// each may decide by the result.
  std::vector<double> sum(std::vector<double> values);
  std::vector<double> maximum(std::vector<double> values);
  /// All ranks say how they fared ("" = well); everybody gets the first failing rank's text prefixed by "rank R (host):
  /// ", or "".
  std::string agree(const std::string& failure);

  /// The gradient communicator over all ranks: the first of communicators.def that serves.
  std::unique_ptr<Communicator> communicator(models::Device& device);

  /// Ends all ranks with this exit code, after the launcher has read what this rank wrote or 1 s for each of stdout
  /// and stderr; never returns, never throws. From any thread.
  [[noreturn]] void abort(int exit_code) noexcept;

 private:
  friend struct JobAccess;
  Job();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::comm
