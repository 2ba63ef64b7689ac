#include "results/analysis/context_warnings.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "results/record/text.hpp"

namespace tw::results {
namespace {

using text::count;

std::string amount(std::uint64_t bytes) {
  char text[32];
  if (bytes < (1ull << 29))
    std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1ull << 20));
  else
    std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1ull << 30));
  return text;
}

const HostInfo* find_host(std::span<const HostInfo> hosts, const std::string& name) {
  const auto found = std::ranges::find(hosts, name, &HostInfo::name);
  return found == hosts.end() ? nullptr : &*found;
}

/// The ranks of each host that compute on CPUs.
std::map<std::string, std::vector<const DeviceEntry*>> cpu_ranks(std::span<const DeviceEntry> devices) {
  std::map<std::string, std::vector<const DeviceEntry*>> by_host;
  for (const DeviceEntry& device : devices)
    if (device.known_kind() == DeviceKind::cpu) by_host[device.host].push_back(&device);
  return by_host;
}

/// Cores that this job may use: all, less what the cgroup hides.
int usable_cores(const HostInfo& host) {
  if (host.hardware_threads <= 0) return 0;
  const int threads = host.usable_threads > 0 ? host.usable_threads : host.hardware_threads;
  return static_cast<int>(static_cast<long>(threads) * host.cores / host.hardware_threads);
}

/// The number before " CPUs" of HostInfo::cgroup_cpu_limit.
std::optional<double> quota(const HostInfo& host) {
  if (!host.cgroup_cpu_limit) return std::nullopt;
  const double cpus = std::atof(host.cgroup_cpu_limit->c_str());
  return cpus > 0 ? std::optional<double>(cpus) : std::nullopt;
}

/// How ranks get `cores` each: Open MPI binds on its own, Intel MPI pins, Hydra (MPICH) binds where it was told to.
std::string binding_advice(std::string_view mpi, const std::string& cores) {
  const std::string srun = " (srun: --cpus-per-task=" + cores + ")";
  if (mpi.starts_with("Intel")) return "set I_MPI_PIN_DOMAIN=" + cores + ", or I_MPI_PIN=0" + srun;
  if (mpi.starts_with("MPICH") || mpi.starts_with("MVAPICH"))
    return "pass -bind-to core:" + cores + " to mpirun, or -bind-to none" + srun;
  return "mpirun binds each of one or two ranks to one core by default; pass --bind-to none, or --map-by slot:PE=" +
         cores + srun;
}

}  // namespace

std::vector<Warning> warn_narrow_affinity(std::span<const DeviceEntry> devices, std::span<const HostInfo> hosts,
                                          int threads_requested, std::string_view mpi) {
  std::vector<Warning> warnings;
  for (const auto& [name, ranks] : cpu_ranks(devices)) {
    const HostInfo* host = find_host(hosts, name);
    const int share = host ? usable_cores(*host) / static_cast<int>(ranks.size()) : 0;
    const int wanted = threads_requested > 0 ? threads_requested : share;
    for (const DeviceEntry* rank : ranks) {
      const int allowed = static_cast<int>(rank->affinity.size());
      if (allowed == 0 || allowed >= wanted) continue;  // an empty list: unknown
      const std::string why = threads_requested > 0 ? std::to_string(wanted) + " threads were asked for"
                                                    : "its share of the node's cores is " + std::to_string(wanted);
      warnings.push_back({Flag::narrow_affinity, "rank " + std::to_string(rank->rank) + " on " + name + " may use " +
                                                     count(rank->affinity.size(), "CPU") + ", but " + why + ": " +
                                                     binding_advice(mpi, std::to_string(wanted))});
      break;
    }
  }
  return warnings;
}

std::vector<Warning> warn_oversubscription(std::span<const DeviceEntry> devices, std::span<const HostInfo> hosts) {
  std::vector<Warning> warnings;
  for (const auto& [name, ranks] : cpu_ranks(devices)) {
    std::set<int> cpus;
    std::size_t threads = 0;
    bool known = true;
    for (const DeviceEntry* rank : ranks) {
      threads += static_cast<std::size_t>(std::max(1, rank->threads));
      cpus.insert(rank->affinity.begin(), rank->affinity.end());
      known = known && !rank->affinity.empty();
    }
    const std::string running = count(ranks.size(), "rank") + " on " + name + " run " + count(threads, "thread");
    if (known && threads > cpus.size()) {
      const std::size_t fewer = cpus.size() / ranks.size();  // 0: a thread of each is too many
      warnings.push_back({Flag::oversubscribed, running + " on " + count(cpus.size(), "CPU") +
                                                    ": they wait for each other; use fewer ranks" +
                                                    (fewer >= 1 ? ", or --threads " + std::to_string(fewer) : "")});
      continue;
    }
    const HostInfo* host = find_host(hosts, name);
    const auto limit = host ? quota(*host) : std::nullopt;
    if (limit && static_cast<double>(threads) > *limit)
      warnings.push_back(
          {Flag::oversubscribed, running + ", but the control group allows " + *host->cgroup_cpu_limit +
                                     ": the kernel will stop them for part of each period; ask for more CPUs or pass "
                                     "--threads"});
  }
  return warnings;
}

std::vector<Warning> warn_shared_gpus(std::span<const DeviceEntry> devices) {
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> ranks_of;
  for (const DeviceEntry& device : devices)
    if (!device.uuid.empty()) ranks_of[{device.host, device.uuid}].push_back(std::to_string(device.rank));
  std::vector<Warning> warnings;
  for (const auto& [gpu, ranks] : ranks_of)
    if (ranks.size() > 1)
      warnings.push_back(
          {Flag::shared_gpu, count(ranks.size(), "rank") + " (" + text::join(ranks, ", ") + ") share " + gpu.second +
                                 " on " + gpu.first +
                                 ": they wait for each other, and gradients pass through the host; do not "
                                 "publish these figures; start one rank per GPU"});
  return warnings;
}

std::vector<Warning> warn_unequal_hosts(std::span<const HostInfo> hosts) {
  std::vector<Warning> warnings;
  if (hosts.empty()) return warnings;
  const HostInfo& first = hosts.front();
  for (const HostInfo& host : hosts.subspan(1)) {
    std::string difference;
    const auto differs = [&](const std::string& what, const std::string& a, const std::string& b) {
      if (a != b) difference += (difference.empty() ? "" : ", ") + what + " " + a + " and " + b;
    };
    differs("CPU", first.cpu, host.cpu);
    differs("cores", std::to_string(first.cores), std::to_string(host.cores));
    differs("governor", first.cpu_governor.value_or("unknown"), host.cpu_governor.value_or("unknown"));
    const double a = static_cast<double>(first.memory_bytes), b = static_cast<double>(host.memory_bytes);
    if (std::abs(a - b) > 0.05 * std::max(a, b))
      differs("memory", amount(first.memory_bytes), amount(host.memory_bytes));
    if (!difference.empty())
      warnings.push_back({Flag::unequal_hosts, first.name + " and " + host.name + " differ (" + difference +
                                                   "): the slowest node sets the pace; run on equal nodes"});
  }
  return warnings;
}

std::vector<Warning> warn_steal(std::span<const HostInfo> hosts) {
  std::vector<Warning> warnings;
  for (const HostInfo& host : hosts) {
    if (!(host.steal_share_since_boot > 0.01)) continue;
    char percent[32];
    std::snprintf(percent, sizeof percent, "%.1f %%", 100 * *host.steal_share_since_boot);
    warnings.push_back(
        {Flag::steal, "the hypervisor of " + host.name + " has given " + percent +
                          " of its CPU time to others since boot: timings will vary; use a dedicated host"});
  }
  return warnings;
}

std::vector<Warning> warn_governor(std::span<const HostInfo> hosts) {
  std::vector<Warning> warnings;
  for (const HostInfo& host : hosts) {
    if (!host.cpu_governor) continue;
    // intel_pstate's powersave does scale up under load, but later and not always to the top.
    if (host.cpu_governor->find("powersave") == std::string::npos &&
        host.cpu_governor->find("conservative") == std::string::npos)
      continue;
    warnings.push_back(
        {Flag::governor,
         host.name + " runs the CPU governor " + *host.cpu_governor +
             ": clocks may stay low; cpupower frequency-set -g performance (root) makes runs comparable"});
  }
  return warnings;
}

std::vector<Warning> warn_disk_space(std::optional<std::uint64_t> available_bytes, std::uint64_t needed_bytes,
                                     const std::string& folder) {
  if (!available_bytes || *available_bytes >= needed_bytes) return {};
  return {{Flag::low_disk, "little disk space for " + folder + ": " +
                               (*available_bytes < (1u << 20) ? "less than 1 MiB" : amount(*available_bytes)) +
                               " free, " + amount(needed_bytes) +
                               " recommended: free some, or choose another folder with --out"}};
}

std::vector<Warning> warn_debug_build(const std::map<std::string, std::string>& versions) {
  const auto type = versions.find("build_type");
  if (type == versions.end() || (type->second != "Debug" && !type->second.ends_with(not_optimised))) return {};
  return {{Flag::debug_build,
           "this program was built without optimisation: do not use its timings; configure with "
           "-DCMAKE_BUILD_TYPE=Release"}};
}

std::vector<Warning> context_warnings(const Context& context, int threads_requested) {
  const std::vector<DeviceEntry>& devices = context.devices;
  const std::vector<HostInfo>& hosts = context.hosts;
  std::vector<Warning> all;
  const auto mpi = context.versions.find("mpi");
  for (auto&& some : {warn_narrow_affinity(devices, hosts, threads_requested,
                                           mpi == context.versions.end() ? std::string_view() : mpi->second),
                      warn_oversubscription(devices, hosts), warn_shared_gpus(devices), warn_unequal_hosts(hosts),
                      warn_steal(hosts), warn_governor(hosts), warn_debug_build(context.versions)})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace tw::results
