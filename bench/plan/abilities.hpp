// What a node can do, as far as a plan needs it: seen here, or read from what `trainwatt probe --json` wrote there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "power/knob/knob.hpp"
#include "power/meter/energy_meter.hpp"

namespace tw::bench {

struct KnobAbility {
  power::KnobKind kind = power::KnobKind::gpu_clock;
  std::string domain;
  bool writable = false;
  double minimum = 0, maximum = 0;  ///< of numbers
  std::vector<double> values;       ///< ascending; empty if anything between the two is taken
  std::string reason, detail;       ///< why it is not writable
};

struct Abilities {
  std::string host;
  std::optional<std::uint64_t> memory_bytes;
  std::optional<bool> cpu_bf16;   ///< whether the CPU multiplies bf16; nullopt: not known
  int cores = 0;                  ///< that a process may use; 0: not known
  std::vector<std::string> gpus;  ///< names of those that a process may use, as NVML reports them
  std::vector<KnobAbility> knobs;
  /// The most that the counted meters' parts are held able to draw, by scope, in W; empty: no meter.
  std::map<std::string, double> maximum_power_w;
  std::map<std::string, std::string> power_unknown;  ///< by scope: the counted meter that states no greatest power
};

/// This node's; empty if it has none.
std::string host_name();
/// This node's.
Abilities abilities_here(const std::vector<power::MeterFinding>& meters, const std::vector<power::KnobFinding>& knobs);
/// Of what `trainwatt probe --json` writes. Throws UsageError that names `path`.
Abilities abilities_from_json(const std::string& path, const std::string& text);

/// Why the node cannot set the point's settings; empty if it can, and where it has none.
std::string setting_obstacle(const Point& point, const Abilities& node);
/// The memory that a point's ranks have to fit into.
struct MemoryLimit {
  double node_bytes = 0;
  int ranks_per_node = 1;
  std::function<double(const Point&)> rank_bytes{};  ///< what a point takes; none: the least by arithmetic
};
/// What would make the point take less memory: "use --micro-batch N with N up to 12 or --recompute or …". `is_found`:
/// nobody has chosen its micro-batch. With a limit only what makes it fit, without one what reduces the least memory at
/// all. `takes_recompute`: whether the command has this option.
std::string advice_on_memory(const Point& point, bool is_found = false, std::optional<MemoryLimit> limit = std::nullopt,
                             bool takes_recompute = true);
/// Why the node cannot do the point, with what would help; empty if no obstacle is known. Of the memory of
/// `ranks_per_node` ranks the least is counted (models/catalog/memory.hpp). On device cuda it is not looked at: the
/// memory of GPUs is not among the abilities.
std::string obstacle(const Point& point, const std::string& device, const Abilities& node, int ranks_per_node);

}  // namespace tw::bench
