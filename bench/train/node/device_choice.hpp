// What a rank computes on: which of the node's GPUs, how many threads.
#pragma once

#include <string>
#include <vector>

#include "bench/train/job/options.hpp"
#include "comm/job.hpp"

namespace tw::bench {

/// Which of its `visible` devices a rank takes: by its place among the ranks that see the same devices in the same
/// order. `shown`: the node and devices of each rank. If a launcher shows each task its own GPU there is no choice; if
/// there are more ranks than GPUs, they share GPUs in turn, and a warning says so.
int gpu_index(const std::vector<std::string>& shown, int rank, int visible);
/// The same for this rank (collective).
int gpu_index(comm::Job& job, int visible);

/// Threads asked for: --threads, else OMP_NUM_THREADS (its first number, where it is a list), else 0. Throws UsageError
/// where that is not a number from 1 to most_threads().
int threads_requested(const Options& options);
/// Threads of this rank: as asked for, else the CPUs of the affinity mask shared out among the ranks on this node that
/// have the same mask (collective).
int choose_threads(int requested, comm::Job& job);

}  // namespace tw::bench
