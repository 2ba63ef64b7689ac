// Limits of control groups (kernel: admin-guide/cgroup-v1/memory.rst, scheduler/sched-bwc.rst, cgroup-v2.rst).
#include <algorithm>

#include "bench/inventory/inventory.hpp"
#include "bench/inventory/read.hpp"

namespace tw::bench {
namespace {

using inventory::find_field;
using inventory::read_number;
using inventory::read_text;
using inventory::read_word;
using inventory::to_number;
namespace fs = std::filesystem;

/// Where one hierarchy is mounted and which group of it this process is in.
struct Hierarchy {
  fs::path top, leaf;
  bool v2 = false;
};

/// "9:cpu,cpuacct:/a" has `controller` in its comma list; "0::/a" is v2.
bool names_controller(const std::string& list, const std::string& controller) {
  return ("," + list + ",").find("," + controller + ",") != std::string::npos;
}

std::optional<std::string> own_group(const std::string& table, const std::string& controller) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? names.empty() : names_controller(names, controller)) return line.substr(second + 1);
  }
  return std::nullopt;
}

/// The mount of `controller`'s v1 hierarchy, or with an empty name that of v2, from mountinfo:
/// "id parent major:minor root mount-point options … - type source super-options".
std::optional<Hierarchy> find_hierarchy(const fs::path& root, const std::string& controller) {
  const auto mounts = read_text(root / "proc/self/mountinfo"), groups = read_text(root / "proc/self/cgroup");
  if (!mounts || !groups) return std::nullopt;
  const auto group = own_group(*groups, controller);
  if (!group) return std::nullopt;
  std::istringstream lines(*mounts);
  for (std::string line; std::getline(lines, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream left(line.substr(0, dash)), right(line.substr(dash + 3));
    std::string skip, inside, point, type, source, options;
    left >> skip >> skip >> skip >> inside >> point;
    right >> type >> source >> options;
    const bool wanted =
        controller.empty() ? type == "cgroup2" : type == "cgroup" && names_controller(options, controller);
    if (!wanted) continue;
    Hierarchy found;
    found.v2 = controller.empty();
    found.top = root / fs::path(point).relative_path();
    // Inside a container the group is named from the host's root, but only the part below `inside` is mounted.
    std::string below = *group;
    if (inside != "/") below = below.starts_with(inside) ? below.substr(inside.size()) : "";
    found.leaf = found.top / fs::path(below).relative_path();
    if (!inventory::file_exists(found.leaf)) found.leaf = found.top;
    return found;
  }
  return std::nullopt;
}

void walk_up(const Hierarchy& hierarchy, auto visit) {
  for (fs::path group = hierarchy.leaf;; group = group.parent_path()) {
    visit(group);
    if (group == hierarchy.top || !group.has_relative_path()) return;
  }
}

template <class Number>
void lower(std::optional<Number>& bound, Number value) {
  bound = bound ? std::min(*bound, value) : value;
}

void read_cpu(const Hierarchy& hierarchy, CgroupLimits& limits) {
  walk_up(hierarchy, [&](const fs::path& group) {
    std::optional<double> quota, period;
    if (hierarchy.v2) {
      const auto text = read_word(group / "cpu.max");  // "200000 100000" or "max 100000"
      if (!text || text->rfind("max", 0) == 0) return;
      const auto space = text->find(' ');
      if (space == std::string::npos) return;
      quota = to_number<double>(*text);
      period = to_number<double>(std::string_view(*text).substr(space + 1));
    } else {
      quota = read_number<double>(group / "cpu.cfs_quota_us");  // −1: none
      period = read_number<double>(group / "cpu.cfs_period_us");
    }
    if (quota && period && *quota > 0 && *period > 0) lower(limits.cpus, *quota / *period);
  });
}

void read_memory(const Hierarchy& hierarchy, CgroupLimits& limits) {
  constexpr std::uint64_t unlimited = 1ull << 60;  // v1 writes 2^63 rounded down to a page for "none"
  const char* prefix = hierarchy.v2 ? "" : "total_";
  walk_up(hierarchy, [&](const fs::path& group) {
    const auto limit = read_number<std::uint64_t>(group / (hierarchy.v2 ? "memory.max" : "memory.limit_in_bytes"));
    if (!limit || *limit >= unlimited) return;
    lower(limits.memory_bytes, *limit);
    const auto used = read_number<std::uint64_t>(group / (hierarchy.v2 ? "memory.current" : "memory.usage_in_bytes"));
    if (!used) return;
    std::uint64_t reclaimable = 0;
    if (const auto statistics = read_text(group / "memory.stat"))
      for (const char* list : {"inactive_file", "active_file"})
        if (const auto field = find_field(*statistics, prefix + std::string(list)))
          reclaimable += to_number<std::uint64_t>(*field).value_or(0);
    const std::uint64_t held = *used - std::min(*used, reclaimable);
    lower(limits.memory_available_bytes, *limit - std::min(*limit, held));
  });
}

void read_cpuset(const Hierarchy& hierarchy, CgroupLimits& limits) {
  walk_up(hierarchy, [&](const fs::path& group) {
    if (!limits.allowed_cpus.empty()) return;  // the nearest group that has one: it holds what those above it leave
    for (const char* file : {"cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"})
      if (const auto text = read_word(group / file); text && limits.allowed_cpus.empty())
        limits.allowed_cpus = inventory::number_list(*text);
  });
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  const auto unified = find_hierarchy(root, "");
  constexpr std::pair<const char*, void (*)(const Hierarchy&, CgroupLimits&)> readers[] = {
      {"cpu", read_cpu}, {"memory", read_memory}, {"cpuset", read_cpuset}};
  for (const auto& [controller, read] : readers) {
    const auto own = find_hierarchy(root, controller);  // hybrid systems have both; a controller lives in one of them
    if (const auto& hierarchy = own ? own : unified) read(*hierarchy, limits);
  }
  return limits;
}

}  // namespace tw::bench
