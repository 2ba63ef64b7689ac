// What else this node's CPUs are at.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "bench/inventory/inventory.hpp"

namespace tw::bench {

/// CPU time until now, of the node and of each process that can be seen, this one left out.
struct ProcessorUse {
  struct Program {
    std::string name;
    std::uint64_t ticks = 0;
  };
  std::optional<CpuTimes> node;
  std::map<int, Program> programs;  ///< by process id
  double own_seconds = 0;
};
ProcessorUse read_processor_use(const std::filesystem::path& root = "/");

/// "other programs use 78 % of the CPU: cc1plus, xz", the busiest three by name; empty if it is 5 % at most, or
/// unknown. The job's other processes have to sleep meanwhile: they count as others.
std::string others_at_work(const ProcessorUse& earlier, const ProcessorUse& later);

}  // namespace tw::bench
