#include <gnu/libc-version.h>
#ifdef TW_HAVE_HWLOC
#include <hwloc.h>
#endif

#include <memory>
#include <sstream>

#include "bench/inventory/inventory.hpp"
#include "bench/inventory/read.hpp"
#include "models/compute/device.hpp"
#include "power/visible_gpus.hpp"
#include "results/analysis/context_warnings.hpp"
#include "results/record/report_io.hpp"

namespace tw::bench {

using inventory::find_field;
using inventory::read_text;
namespace fs = std::filesystem;

namespace {

#ifdef TW_HAVE_HWLOC
struct TopologyCloser {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyCloser>;

/// That of the library that runs, which may be newer than the header of the build. Each topology names it.
std::string hwloc_version() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return "unknown";
  const Topology topology(raw);
  if (hwloc_topology_set_synthetic(raw, "pu:1") != 0 || hwloc_topology_load(raw) != 0) return "unknown";
  const char* version = hwloc_obj_get_info_by_name(hwloc_get_root_obj(raw), "hwlocVersion");
  return version == nullptr ? "unknown" : version;
}

/// Hash of the export less what differs between equal machines or between two runs on one (host name, process, cgroup).
std::string hash_xml(hwloc_topology_t topology) {
  char* text = nullptr;
  int length = 0;
  if (hwloc_topology_export_xmlbuffer(topology, &text, &length, 0) != 0) return {};
  std::istringstream lines(std::string(text, static_cast<std::size_t>(length > 0 ? length - 1 : 0)));
  hwloc_free_xmlbuffer(topology, text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    bool skip = false;
    for (const char* name : {"\"HostName\"", "\"ProcessName\"", "\"LinuxCgroup\""})
      skip = skip || line.find(name) != std::string::npos;
    if (!skip) kept += line + '\n';
  }
  return results::sha256_hex(kept);
}

/// Fills the topology fields.
void read_topology(results::HostInfo& host) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return;
  const Topology topology(raw);
  // The whole machine, whatever the cgroup hides; what it leaves is usable_threads.
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(raw) != 0) return;
  const auto count = [&](hwloc_obj_type_t type) {
    const int found = hwloc_get_nbobjs_by_type(raw, type);
    return found > 0 ? found : 0;
  };
  host.sockets = count(HWLOC_OBJ_PACKAGE);
  host.cores = count(HWLOC_OBJ_CORE);
  host.hardware_threads = count(HWLOC_OBJ_PU);
  host.numa_nodes = count(HWLOC_OBJ_NUMANODE);
  const int usable = hwloc_bitmap_weight(hwloc_topology_get_allowed_cpuset(raw));
  host.usable_threads = usable > 0 ? usable : host.hardware_threads;
  host.topology_xml_sha256 = hash_xml(raw);
}
#else
std::string hwloc_version() { return "not built in"; }
void read_topology(results::HostInfo&) {}
#endif

}  // namespace

results::HostInfo inspect_node() {
  results::HostInfo host = inspect_host();
  read_topology(host);
  return host;
}

results::DeviceEntry inspect_device(const models::Device& device, int rank) {
  const models::DeviceInfo info = device.info();
  results::DeviceEntry entry;
  entry.rank = rank;
  entry.host = inventory::read_word("/proc/sys/kernel/hostname").value_or("");
  entry.kind = models::to_string(info.kind);
  entry.name = info.name;
  entry.uuid = power::name_of_gpu(info.uuid).uuid;
  entry.instruction_set = info.instruction_set;
  entry.threads = info.threads;
  entry.affinity = affinity_list();
  entry.libraries = info.libraries;
  if (info.kind == models::DeviceKind::cuda && info.memory_bytes > 0) entry.memory_bytes = info.memory_bytes;
  return entry;
}

std::map<std::string, std::string> library_versions(const fs::path& root) {
  std::map<std::string, std::string> versions;
#if defined(__clang__)
  versions["compiler"] = "clang " __clang_version__;
#else
  versions["compiler"] = "gcc " __VERSION__;
#endif
  versions["build_type"] = TW_BUILD_TYPE;
#if !defined(__OPTIMIZE__)
  versions["build_type"] += results::not_optimised;
#endif
  versions["glibc"] = gnu_get_libc_version();
  versions["hwloc"] = hwloc_version();
  if (const auto release = inventory::read_word(root / "proc/sys/kernel/osrelease")) versions["kernel"] = *release;
  if (const auto driver = read_text(root / "proc/driver/nvidia/version"))
    if (const auto line = find_field(*driver, "NVRM version")) versions["nvidia_driver"] = *line;
  return versions;
}

}  // namespace tw::bench
