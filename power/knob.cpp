#include "power/knob.hpp"

#include <iterator>

namespace tw {
namespace {

constexpr KnobKind kinds[] = {KnobKind::gpu_clock, KnobKind::gpu_memory_clock, KnobKind::gpu_power_limit,
                              KnobKind::cpu_frequency, KnobKind::cpu_power_limit};

}  // namespace

const char* to_string(KnobKind kind) {
  switch (kind) {
    case KnobKind::gpu_clock:
      return "gpu_clock_mhz";
    case KnobKind::gpu_memory_clock:
      return "gpu_memory_clock_mhz";
    case KnobKind::gpu_power_limit:
      return "gpu_power_limit_w";
    case KnobKind::cpu_frequency:
      return "cpu_frequency_mhz";
    case KnobKind::cpu_power_limit:
      return "cpu_power_limit_w";
  }
  return "?";
}

std::optional<KnobKind> knob_kind_from_string(const std::string& name) {
  for (const KnobKind kind : kinds)
    if (name == to_string(kind)) return kind;
  return std::nullopt;
}

#define TW_KNOB_SOURCE(name) std::vector<KnobFinding> name##_find_knobs();
#include "power/knobs.def"
#undef TW_KNOB_SOURCE

std::vector<KnobFinding> find_knobs() {
  std::vector<KnobFinding> all;
#define TW_KNOB_SOURCE(name)                                                                             \
  {                                                                                                      \
    std::vector<KnobFinding> found = name##_find_knobs();                                                \
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end())); \
  }
#include "power/knobs.def"
#undef TW_KNOB_SOURCE
  return all;
}

}  // namespace tw
