#include "bench/inventory/topology.hpp"

#ifdef TW_HAVE_HWLOC
#include <hwloc.h>

#include <memory>
#include <sstream>

#include "results/record/report_io.hpp"
#endif

namespace tw::bench::inventory {

#ifdef TW_HAVE_HWLOC

namespace {

struct TopologyCloser {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyCloser>;

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

}  // namespace

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

std::string hwloc_version() { return HWLOC_VERSION; }

#else

void read_topology(HostInfo&) {}
std::string hwloc_version() { return "not built in"; }

#endif

}  // namespace tw::bench::inventory
