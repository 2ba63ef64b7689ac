// The machine's sockets, cores and NUMA nodes, inside this folder.
#pragma once

#include <string>

#include "results/record/record.hpp"

namespace tw::bench::inventory {

/// Fills the topology fields; leaves them as they are where hwloc is not built in.
void read_topology(results::HostInfo& host);
/// "2.9.0", or "not built in".
std::string hwloc_version();

}  // namespace tw::bench::inventory
