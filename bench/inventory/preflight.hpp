// Warnings before a run, as pure functions over gathered facts: what is wrong, why, and what to do, in one line each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::bench {

struct Warning {
  results::Flag flag;
  std::string text;  ///< one line
};

/// "narrow_affinity": a rank asked for more threads than its mask has CPUs, or (with `threads_requested` 0: as many as
/// the mask allows) its mask is narrower than its share of the node's usable cores. One warning for each host.
std::vector<Warning> warn_narrow_affinity(std::span<const results::DeviceEntry> devices,
                                          std::span<const results::HostInfo> hosts, int threads_requested);
/// "oversubscribed": the CPU ranks of a node run more threads than all their masks, or the cgroup quota, have CPUs.
std::vector<Warning> warn_oversubscription(std::span<const results::DeviceEntry> devices,
                                           std::span<const results::HostInfo> hosts);
/// "shared_gpu": several ranks compute on one GPU. One warning for each GPU.
std::vector<Warning> warn_shared_gpus(std::span<const results::DeviceEntry> devices);
/// "unequal_hosts": CPU model, core count, memory (by more than 5 %) or governor differ between nodes.
std::vector<Warning> warn_unequal_hosts(std::span<const results::HostInfo> hosts);
/// "steal": the hypervisor gave more than 1 % of the node's CPU time to others, since boot.
std::vector<Warning> warn_steal(std::span<const results::HostInfo> hosts);
/// "governor": a CPU governor that does not run at full clock under load.
std::vector<Warning> warn_governor(std::span<const results::HostInfo> hosts);
/// "low_disk": less than `needed_bytes` free where results go.
std::vector<Warning> warn_disk_space(std::optional<std::uint64_t> available_bytes, std::uint64_t needed_bytes,
                                     const std::string& folder);
/// "debug_build": this program was built without optimisation.
std::vector<Warning> warn_debug_build();

/// All of the above but disk space, in this order.
std::vector<Warning> preflight(std::span<const results::DeviceEntry> devices, std::span<const results::HostInfo> hosts,
                               int threads_requested);

}  // namespace tw::bench
