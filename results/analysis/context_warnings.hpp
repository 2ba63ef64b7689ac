// What a run's context alone says against it, before any step: pure functions over recorded facts. The program warns of
// it before its first point, and `trainwatt validate` finds flags that are left out. One line each: what is wrong, why,
// what to do.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

struct Warning {
  Flag flag;
  std::string text;  ///< one line
};

/// "narrow_affinity": a rank asked for more threads than its mask has CPUs, or (with `threads_requested` 0: as many as
/// the mask allows) its mask is narrower than its share of the node's usable cores. One warning for each host, with
/// the options of the launcher of `mpi` (Context::versions; empty: Open MPI).
std::vector<Warning> warn_narrow_affinity(std::span<const DeviceEntry> devices, std::span<const HostInfo> hosts,
                                          int threads_requested, std::string_view mpi = {});
/// "oversubscribed": the CPU ranks of a node run more threads than all their masks, or the cgroup quota, have CPUs.
std::vector<Warning> warn_oversubscription(std::span<const DeviceEntry> devices,
                                           std::span<const HostInfo> hosts);
/// "shared_gpu": several ranks compute on one GPU. One warning for each GPU.
std::vector<Warning> warn_shared_gpus(std::span<const DeviceEntry> devices);
/// "unequal_hosts": CPU model, core count, memory (by more than 5 %) or governor differ between nodes.
std::vector<Warning> warn_unequal_hosts(std::span<const HostInfo> hosts);
/// "steal": the hypervisor gave more than 1 % of the node's CPU time to others, since boot.
std::vector<Warning> warn_steal(std::span<const HostInfo> hosts);
/// "governor": a CPU governor that does not run at full clock under load.
std::vector<Warning> warn_governor(std::span<const HostInfo> hosts);
/// "low_disk": less than `needed_bytes` free where results go, which no report says.
std::vector<Warning> warn_disk_space(std::optional<std::uint64_t> available_bytes, std::uint64_t needed_bytes,
                                     const std::string& folder);
/// What a `build_type` ends with if the compiler did not optimise.
inline constexpr std::string_view not_optimised = ", not optimised";
/// "debug_build": the program was built without optimisation, by `build_type` of Context::versions.
std::vector<Warning> warn_debug_build(const std::map<std::string, std::string>& versions);

/// All of the above but disk space, in this order. `threads_requested`: of each rank; 0: no number was requested.
std::vector<Warning> context_warnings(const Context& context, int threads_requested);

}  // namespace tw::results
