// What machine this is: one process inspects itself and its node. No MPI here; the caller gathers
// (results::to_json_line). Everything reads through `root` ("/" but in tests), needs no rights and never throws for
// something unreadable: the field then stays absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::models {
class Device;
}

namespace tw::bench {

// ---- the node ----
/// Topology as the kernel lists it, of the CPUs that are online; 0 if it does not.
results::HostInfo inspect_host(const std::filesystem::path& root = "/");
/// The running machine's, with its topology from hwloc where that is built in. Of tw_inventory; what else is of the
/// node is in tw_host too, which `trainwatt` links.
results::HostInfo inspect_node();

/// "kvm (Amazon EC2)"; nullopt on bare metal. `cpuid_signature`: leaf 0x40000000's 12 letters, empty if the CPU does
/// not say that it runs under a hypervisor, nullopt on CPUs without CPUID (DMI and the device tree then decide alone).
std::optional<std::string> find_hypervisor(const std::optional<std::string>& cpuid_signature,
                                           const std::filesystem::path& root);
std::optional<std::string> read_cpuid_signature();
/// "docker", "podman", "apptainer", "kubernetes", "lxc", …; `environment` is this process's own.
std::optional<std::string> find_container(const std::map<std::string, std::string>& environment,
                                          const std::filesystem::path& root);
/// One line for each interface with hardware behind it (all but loopback where none has), then one for each RDMA port.
std::vector<std::string> find_nics(const std::filesystem::path& root);

/// What the control groups of this process allow, v1 and v2: the smallest along the chain up to the mount point.
struct CgroupLimits {
  std::optional<double> cpus;  ///< quota ÷ period
  std::optional<std::uint64_t> memory_bytes;
  std::optional<std::uint64_t> memory_available_bytes;  ///< the least left at any level; page cache counts as free
  std::vector<int> allowed_cpus;                        ///< empty if no set is stated
};
CgroupLimits read_cgroup_limits(const std::filesystem::path& root = "/");

// ---- this process ----
results::DeviceEntry inspect_device(const models::Device& device, int rank);
/// The logical CPUs this thread may run on, ascending.
std::vector<int> affinity_list();
int affinity_threads();
/// The cores that so many threads of this node can use: at least 1, at most those of the machine or of what a control
/// group allows.
int usable_cores(int threads, const std::filesystem::path& root = "/");
/// Forgets the peak so far, so that a later point of a sweep is not charged with an earlier one's (Linux: 5 into
/// clear_refs). False if the kernel does not allow it: the peak then covers the process's whole life.
bool reset_peak_resident_bytes();
/// VmHWM: the most that was resident since the start or the last reset; 0 if unreadable.
std::uint64_t peak_resident_bytes(const std::filesystem::path& root = "/");
/// MemAvailable, or less where a control group allows less; nullopt if unreadable.
std::optional<std::uint64_t> memory_available_bytes(const std::filesystem::path& root = "/");
/// All that this process could take if nothing else took any: of the node, or of its control group; nullopt if unknown.
std::optional<std::uint64_t> memory_total_bytes(const std::filesystem::path& root = "/");
/// Free for an ordinary user on the file system that holds `path` or its nearest existing parent.
std::optional<std::uint64_t> disk_available_bytes(const std::filesystem::path& path);

/// CPU time of the whole node since boot, in ticks.
struct CpuTimes {
  std::uint64_t total = 0, busy = 0, steal = 0;  ///< busy: neither idle, nor waiting for input and output, nor stolen
};
std::optional<CpuTimes> read_cpu_times(const std::filesystem::path& root = "/");
/// Share of the node's CPU time that the hypervisor gave to others; nullopt without both readings, or time between.
std::optional<double> steal_share(const std::optional<CpuTimes>& earlier, const std::optional<CpuTimes>& later);

/// Share of the node's CPU time that programs other than this job used between two readings; `own_seconds` is what the
/// job's processes on this machine used. nullopt if either reading is missing, or no time has passed.
std::optional<double> foreign_share(const std::optional<CpuTimes>& earlier, const std::optional<CpuTimes>& later,
                                    double own_seconds);
/// CPU seconds of all threads of this process so far.
double process_cpu_seconds();

/// The variables that change speed or placement, from a list of prefixes; nothing whose name smells of a secret.
std::map<std::string, std::string> relevant_environment();
std::map<std::string, std::string> relevant_environment(const char* const* environment);
/// All variables.
std::map<std::string, std::string> environment_of(const char* const* environment);
/// Compiler, C library, hwloc, kernel, NVIDIA driver, build type. Other libraries' versions come from who links them.
std::map<std::string, std::string> library_versions(const std::filesystem::path& root = "/");

}  // namespace tw::bench
