// What the job's nodes have to do beside it, before its first point.
#pragma once

#include <string>
#include <vector>

#include "comm/job.hpp"

namespace tw {

/// A warning for each node whose CPUs are busy while the job sleeps for half a second, with the programs (collective).
std::vector<std::string> busy_nodes(Job& job);

}  // namespace tw
