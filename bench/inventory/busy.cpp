#include "bench/inventory/busy.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/inventory/read.hpp"

namespace tw::bench {
namespace {

namespace fs = std::filesystem;

constexpr double quiet_share = 0.05;  // as of the flag busy_host
constexpr std::size_t most_named = 3;

/// A line of /proc/PID/stat: the name is in parentheses, and may contain some itself.
std::optional<ProcessorUse::Program> program_of(const std::string& stat) {
  const std::size_t open = stat.find('('), close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  std::istringstream rest(stat.substr(close + 1));
  std::string word;
  for (int skipped = 0; skipped < 11; ++skipped) rest >> word;  // state … cmajflt
  std::uint64_t user = 0, system = 0;
  if (!(rest >> user >> system)) return std::nullopt;
  return ProcessorUse::Program{stat.substr(open + 1, close - open - 1), user + system};
}

/// The busiest first, processes of one name together.
std::vector<std::pair<std::uint64_t, std::string>> by_time(const ProcessorUse& earlier, const ProcessorUse& later) {
  std::map<std::string, std::uint64_t> ticks;
  for (const auto& [process, program] : later.programs) {
    const auto before = earlier.programs.find(process);
    const std::uint64_t known = before == earlier.programs.end() ? 0 : before->second.ticks;
    if (program.ticks > known) ticks[program.name] += program.ticks - known;
  }
  std::vector<std::pair<std::uint64_t, std::string>> all;
  for (const auto& [name, its] : ticks) all.emplace_back(its, name);
  std::ranges::sort(all, std::greater<>());
  return all;
}

}  // namespace

ProcessorUse read_processor_use(const fs::path& root) {
  ProcessorUse use;
  std::error_code error;
  for (fs::directory_iterator entry(root / "proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto process = inventory::to_number<int>(name);
    if (!process || *process == getpid()) continue;
    if (const auto stat = inventory::read_text(entry->path() / "stat"))
      if (auto program = program_of(*stat)) use.programs.emplace(*process, std::move(*program));
  }
  use.node = read_cpu_times(root);
  use.own_seconds = process_cpu_seconds();
  return use;
}

std::string others_at_work(const ProcessorUse& earlier, const ProcessorUse& later) {
  const auto share = foreign_share(earlier.node, later.node, later.own_seconds - earlier.own_seconds);
  if (!share || *share <= quiet_share) return {};
  std::string names;
  std::size_t named = 0;
  const auto programs = by_time(earlier, later);
  for (const auto& [ticks, name] : programs) {
    if (named == most_named || 10 * ticks < programs.front().first) break;
    names += (named++ == 0 ? ": " : ", ") + name;
  }
  if (names.empty()) names = " (in processes that this one cannot see)";
  return "other programs use " + std::to_string(std::lround(100 * std::min(*share, 1.0))) + " % of the CPU" + names;
}

}  // namespace tw::bench
