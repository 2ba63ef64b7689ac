#include <sched.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "bench/inventory/inventory.hpp"
#include "bench/inventory/read.hpp"

namespace tw::bench {
namespace {

using inventory::find_field;
using inventory::read_text;
using inventory::to_number;
namespace fs = std::filesystem;

struct MaskFree {
  void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
};

/// Prefixes of variables that change speed or placement. Open MPI's own run-time parameters (addresses, transport keys,
/// folders) start with OMPI_MCA_orte_, ess_ and the like and are none of a report's business, hence the long list.
constexpr const char* of_libraries[] = {"OMP_",    "KMP_",   "GOMP_",   "ONEDNN_",   "DNNL_",
                                        "CUBLAS_", "CUDNN_", "MALLOC_", "TRAINWATT_"};
constexpr const char* of_gpus[] = {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_", "CUDA_LAUNCH_",
                                   "CUDA_MODULE_LOADING",  "CUDA_MPS_",    "NVIDIA_TF32",
                                   "NVIDIA_VISIBLE"};
constexpr const char* of_networks[] = {"NCCL_",           "UCX_",           "FI_PROVIDER",  "I_MPI_",
                                       "MPICH_",          "OMPI_MCA_btl",   "OMPI_MCA_pml", "OMPI_MCA_mtl",
                                       "OMPI_MCA_coll",   "OMPI_MCA_osc",   "OMPI_MCA_op",  "OMPI_MCA_mpi_",
                                       "OMPI_MCA_hwloc_", "OMPI_MCA_rmaps_"};
constexpr const char* names[] = {"LD_PRELOAD",          "GLIBC_TUNABLES",         "SLURM_JOB_ID",
                                 "SLURM_JOB_PARTITION", "SLURM_JOB_NUM_NODES",    "SLURM_NNODES",
                                 "SLURM_NTASKS",        "SLURM_NTASKS_PER_NODE",  "SLURM_CPUS_PER_TASK",
                                 "SLURM_CPUS_ON_NODE",  "SLURM_THREADS_PER_CORE", "SLURM_CPU_BIND",
                                 "SLURM_MEM_BIND",      "SLURM_DISTRIBUTION",     "SLURM_HINT",
                                 "SLURM_CPU_FREQ_REQ",  "SLURM_GPU_FREQ",         "SLURMD_TRES_FREQ",
                                 "SLURM_GPUS_ON_NODE",  "SLURM_GPUS_PER_TASK",    "SLURM_CLUSTER_NAME",
                                 "SLURM_JOB_NODELIST",  "SLURM_RESTART_COUNT",    "SLURM_MPI_TYPE",
                                 "SLURM_ARRAY_JOB_ID",  "SLURM_ARRAY_TASK_ID"};

bool is_relevant(const std::string& name) {
  for (const char* word : {"TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "_KEY", "APIKEY"}) {
    std::string upper = name;
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
    if (upper.find(word) != std::string::npos) return false;
  }
  const auto begins_with_any = [&](const auto& prefixes) {
    return std::ranges::any_of(prefixes, [&](const char* prefix) { return name.starts_with(prefix); });
  };
  return begins_with_any(of_libraries) || begins_with_any(of_gpus) || begins_with_any(of_networks) ||
         std::ranges::find(names, name) != std::end(names);
}

std::optional<std::uint64_t> meminfo_bytes(const fs::path& root, const char* name) {
  if (const auto text = read_text(root / "proc/meminfo"))
    if (const auto field = find_field(*text, name))
      if (const auto kib = to_number<std::uint64_t>(*field)) return *kib * 1024;
  return std::nullopt;
}

std::optional<std::uint64_t> least_of(std::optional<std::uint64_t> a, std::optional<std::uint64_t> b) {
  return a && b ? std::min(a, b) : a ? a : b;
}

}  // namespace

std::vector<int> affinity_list() {
  // The kernel refuses a mask smaller than its own; grow until it fits (machines beyond 1024 CPUs).
  for (int cpus = 1024; cpus <= (1 << 20); cpus *= 2) {
    const std::unique_ptr<cpu_set_t, MaskFree> mask(CPU_ALLOC(static_cast<std::size_t>(cpus)));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cpus));
    if (!mask || sched_getaffinity(0, bytes, mask.get()) != 0) continue;
    std::vector<int> found;
    for (int cpu = 0; cpu < cpus; ++cpu)
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), bytes, mask.get())) found.push_back(cpu);
    return found;
  }
  return {};
}

int affinity_threads() { return static_cast<int>(affinity_list().size()); }

int usable_cores(int threads, const fs::path& root) {
  int cores = std::max(1, threads);
  if (const int all = inspect_host(root).cores; all > 0) cores = std::min(cores, all);
  if (const auto quota = read_cgroup_limits(root).cpus) cores = std::min(cores, static_cast<int>(std::ceil(*quota)));
  return std::max(1, cores);
}

bool reset_peak_resident_bytes() {
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << 5 << std::flush);
}

std::uint64_t peak_resident_bytes(const fs::path& root) {
  if (const auto text = read_text(root / "proc/self/status"))
    if (const auto field = find_field(*text, "VmHWM")) return to_number<std::uint64_t>(*field).value_or(0) * 1024;
  return 0;
}

std::optional<std::uint64_t> memory_available_bytes(const fs::path& root) {
  return least_of(meminfo_bytes(root, "MemAvailable"), read_cgroup_limits(root).memory_available_bytes);
}

std::optional<std::uint64_t> memory_total_bytes(const fs::path& root) {
  return least_of(meminfo_bytes(root, "MemTotal"), read_cgroup_limits(root).memory_bytes);
}

std::optional<std::uint64_t> disk_available_bytes(const fs::path& path) {
  std::error_code error;
  fs::path existing = fs::absolute(path, error);
  while (!inventory::file_exists(existing) && existing.has_relative_path()) existing = existing.parent_path();
  struct statvfs state;
  if (statvfs(existing.c_str(), &state) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(state.f_bavail) * state.f_frsize;
}

std::optional<CpuTimes> read_cpu_times(const fs::path& root) {
  const auto text = read_text(root / "proc/stat");
  if (!text || text->rfind("cpu ", 0) != 0) return std::nullopt;
  std::istringstream line(text->substr(4, text->find('\n') - 4));
  // user nice system idle iowait irq softirq steal; guest times after them are contained in user and nice.
  CpuTimes times;
  for (int column = 0; column < 8; ++column) {
    std::uint64_t ticks = 0;
    if (!(line >> ticks)) return std::nullopt;
    times.total += ticks;
    if (column == 7)
      times.steal = ticks;
    else if (column != 3 && column != 4)
      times.busy += ticks;
  }
  return times;
}

std::optional<double> steal_share(const std::optional<CpuTimes>& earlier, const std::optional<CpuTimes>& later) {
  if (!earlier || !later || later->total <= earlier->total || later->steal < earlier->steal) return std::nullopt;
  return static_cast<double>(later->steal - earlier->steal) / static_cast<double>(later->total - earlier->total);
}

std::optional<double> foreign_share(const std::optional<CpuTimes>& earlier, const std::optional<CpuTimes>& later,
                                    double own_seconds) {
  if (!earlier || !later || later->total <= earlier->total || later->busy < earlier->busy) return std::nullopt;
  const double own_ticks = own_seconds * static_cast<double>(sysconf(_SC_CLK_TCK));
  const double foreign_ticks = static_cast<double>(later->busy - earlier->busy) - own_ticks;
  return std::max(0.0, foreign_ticks / static_cast<double>(later->total - earlier->total));
}

double process_cpu_seconds() {
  timespec time{};
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::map<std::string, std::string> environment_of(const char* const* environment) {
  std::map<std::string, std::string> all;
  for (; environment && *environment; ++environment)
    if (const char* equals = std::strchr(*environment, '=')) all.emplace(std::string(*environment, equals), equals + 1);
  return all;
}

std::map<std::string, std::string> relevant_environment(const char* const* environment) {
  std::map<std::string, std::string> kept = environment_of(environment);
  std::erase_if(kept, [](const auto& variable) { return !is_relevant(variable.first); });
  return kept;
}

std::map<std::string, std::string> relevant_environment() { return relevant_environment(environ); }

}  // namespace tw::bench
