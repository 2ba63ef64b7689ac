// The axes of settings: which option turns which knob, and how their values are written.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "power/knob/knob.hpp"

namespace tw::bench {

/// Under which --help lists what turns knobs.
inline constexpr const char* settings_group = "Settings (restored at the end)";

/// Of bench/plan/options/axes.hpp, which has the others, too.
struct SettingAxis {
  const char* key;  ///< "gpu_clock"
  power::KnobKind kind;
  const char* help;
};
const std::vector<SettingAxis>& setting_axes();

inline constexpr double largest_set_point = 1e6;

/// Kinds by what a change costs: a memory clock has the driver train the memory anew, a clock or a limit of a GPU
/// passes through the driver and settles over some of its own control steps, the CPU's are single writes.
inline constexpr power::KnobKind settings_by_cost[] = {
    power::KnobKind::gpu_memory_clock, power::KnobKind::gpu_clock,     power::KnobKind::gpu_power_limit,
    power::KnobKind::cpu_governor,     power::KnobKind::cpu_frequency, power::KnobKind::cpu_power_limit};

/// What the help of one axis says holds for all of numbers; shares are resolved before (bench/plan/shares.hpp).
/// "found" (nullopt: leave it as it is), "1305", or "1000:1900:300" (minimum, maximum and step: 1000, 1300, 1600,
/// 1900); of a kind with names one of these. Throws UsageError of `key`.
std::vector<std::optional<double>> parse_set_points(power::KnobKind kind, const std::string& key,
                                                    const std::string& text);

/// "60%", or "40%:100%:20%" (minimum, maximum and step): 0 % is the least value of the range, 100 % the greatest. Empty
/// where the text is none. Throws UsageError of `key` where it is a wrong one.
std::vector<double> parse_shares(const std::string& key, const std::string& text);

}  // namespace tw::bench
