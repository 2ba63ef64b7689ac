// How long CPUs were busy, from /proc/stat.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>

namespace tw::power::cpu {

/// In clock ticks since boot. Stolen time is another machine's: it is neither busy nor idle here, and left out.
struct Ticks {
  std::uint64_t busy = 0, total = 0;
};
struct AllTicks {
  Ticks sum;                    ///< of all CPUs
  std::map<int, Ticks> of_cpu;  ///< of those that are online
};
/// Throws std::system_error naming the file, also where it is no such file (EINVAL).
AllTicks read_ticks(const std::filesystem::path& stat);

}  // namespace tw::power::cpu
