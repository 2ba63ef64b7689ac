#include <gnu/libc-version.h>

#include "bench/inventory/inventory.hpp"
#include "bench/inventory/read.hpp"
#include "bench/inventory/topology.hpp"
#include "models/compute/device.hpp"
#include "power/visible_gpus.hpp"
#include "results/analysis/context_warnings.hpp"

namespace tw::bench {

using inventory::find_field;
using inventory::read_text;
namespace fs = std::filesystem;

results::HostInfo inspect_node() {
  results::HostInfo host = inspect_host();
  inventory::read_topology(host);
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
  versions["hwloc"] = inventory::hwloc_version();
  if (const auto release = inventory::read_word(root / "proc/sys/kernel/osrelease")) versions["kernel"] = *release;
  if (const auto driver = read_text(root / "proc/driver/nvidia/version"))
    if (const auto line = find_field(*driver, "NVRM version")) versions["nvidia_driver"] = *line;
  return versions;
}

}  // namespace tw::bench
