// What the job's nodes have to do beside it, before its first point.
#pragma once

#include <string>
#include <vector>

#include "comm/job.hpp"

namespace tw::bench {

/// A warning for each node whose CPUs are busy while the job sleeps for half a second, with the programs and what to do
/// (collective). `threads` are those of this rank.
std::vector<std::string> busy_nodes(comm::Job& job, int threads);

/// What keeps a run of so many ranks and threads each fast beside other programs, with its command; empty if there
/// is nothing to do. By default OpenMP's threads spin while they wait for each other: where the kernel gives the CPU of
/// one to another program, the others spin until it is back. `wait_policy`: the value of OMP_WAIT_POLICY.
std::string remedy_beside_others(const std::string& launcher, int ranks, int threads, const std::string& wait_policy);

}  // namespace tw::bench
