// What a rank computes on: which device, which of the node's GPUs, how many threads.
#pragma once

#include <string>

#include "bench/train/options.hpp"
#include "comm/job.hpp"

namespace tw {

struct DeviceChoice {
  std::string name, note;  ///< a line to say about it; may be empty
  int visible = 1;         ///< devices of that kind which this rank is shown
};
/// `auto` takes CUDA where a GPU is visible and the cuda device has the operators to train, and says which way it went; a
/// visible GPU that cannot be used is an error, never a silent CPU run.
DeviceChoice choose_device(const std::string& wanted);

/// Which of the `visible` devices a rank takes, by its place on the node. A launcher that shows each task a GPU of its own
/// leaves no choice; where ranks outnumber GPUs they go round, and preflight says who shares one.
int gpu_index(int local_rank, int visible);

/// Threads asked for: --threads, else OMP_NUM_THREADS (its first number, where it is a list), else 0. Throws UsageError.
int threads_requested(const Options& options);
/// Threads of this rank: as asked for, else the CPUs of the affinity mask shared out among the ranks on this node that
/// have the same mask (collective).
int choose_threads(int requested, Job& job);

}  // namespace tw
