// The axes of a grid: what is varied, each by one option or key. Command line, config, kit and schema walk the list.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "bench/plan/options/option_value.hpp"
#include "power/knob/knob.hpp"

namespace tw::bench {

/// As a value of micro_batch: found before the trials (`--micro-batch auto`).
inline constexpr std::int64_t automatic = 0;
/// As a value of ranks: 1, half and all of the job's, each once (`--ranks scaling`).
inline constexpr int one_half_all = 0;

/// Axes as a user gives them; a list of several values makes an axis. Empty lists take the network's defaults.
struct Axes {
  std::vector<std::string> model;
  std::vector<int> layers;
  std::vector<std::int64_t> table_rows_at_most;
  std::vector<std::string> precision;
  std::vector<std::int64_t> micro_batch, accumulate, global_batch, seq_len;
  std::vector<int> ranks;  ///< of the job's; the others sleep meanwhile
  std::map<power::KnobKind, std::vector<std::string>> setting;  ///< set points as written
  /// Shares ("50%") of the clock range of what trains (bench/plan/shares.hpp); left out where no device has a range.
  std::vector<std::string> clock;
  std::string device_class;      ///< of a suite's grid: the devices that it is for ("cpu", "gpu"); empty: all
  std::string place;             ///< in a config file: "/grids/1"; empty: at its top
  std::set<std::string> shared;  ///< top-level keys of a config, which apply to every grid
};

struct Axis {
  using Values = std::variant<std::vector<std::string> Axes::*, std::vector<int> Axes::*,
                              std::vector<std::int64_t> Axes::*, power::KnobKind>;
  const char* key;    ///< "micro_batch"
  const char* group;  ///< of --help; null: no option of the command line
  std::string help;
  ValueType type;  ///< of one value
  Values values;
};

/// In the order of --help.
const std::vector<Axis>& axes_list();
/// Null: no axis has this key.
const Axis* find_axis(const std::string& key);

/// Calls `use` with the axis' values: a vector of strings, int or std::int64_t.
template <class OfAxes, class Use>
decltype(auto) with_values(const Axis& axis, OfAxes& axes, Use&& use) {
  static const std::vector<std::string> none;
  return std::visit(
      [&](const auto& values) -> decltype(auto) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(values)>, power::KnobKind>)
          return use(axes.*values);
        else if constexpr (!std::is_const_v<OfAxes>)
          return use(axes.setting[values]);
        else if (const auto found = axes.setting.find(values); found != axes.setting.end())
          return use(found->second);
        else
          return use(none);
      },
      axis.values);
}

/// How many values were given.
std::size_t count_values(const Axis& axis, const Axes& axes);
/// Any set point.
bool has_settings(const Axes& axes);
/// Throws UsageError for a value that the axis does not have.
void check_axes(const Axes& axes);

/// Under which --help lists what turns knobs.
inline constexpr const char* settings_group = "Settings (restored at the end)";

/// A line of axes() that turns a knob.
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
