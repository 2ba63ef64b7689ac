// Values that reports store by name: each enumeration has one list of names, in the order of its enumerators. Writer,
// reader and all comparisons use the enumeration.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace tw::results {

template <class E>
inline constexpr std::array<const char*, 0> name_list{};
template <class E>
concept Named = std::is_enum_v<E> && !name_list<E>.empty();

template <Named E>
constexpr const char* to_string(E value) {
  return name_list<E>[static_cast<std::size_t>(value)];
}
/// The value of that name; nullopt of others.
template <Named E>
constexpr std::optional<E> named(std::string_view name) {
  const auto at = std::ranges::find(name_list<E>, name, [](const char* one) { return std::string_view(one); });
  if (at == name_list<E>.end()) return std::nullopt;
  return static_cast<E>(at - name_list<E>.begin());
}

/// What a point is worth.
enum class Status {
  valid,        ///< counts
  invalid,      ///< was measured, does not count
  unsupported,  ///< did not run: the device cannot do it
  failed,       ///< did not run to its end
};
template <>
inline constexpr std::array name_list<Status> = {"valid", "invalid", "unsupported", "failed"};

/// Which part of a machine joules cover. In the order of their names, in which reports have them.
enum class Scope {
  none,    ///< of no sensor
  device,  ///< GPUs
  dram,
  facility,  ///< with cooling and distribution
  node,
  package,  ///< CPUs
};
template <>
inline constexpr std::array name_list<Scope> = {"", "device", "dram", "facility", "node", "package"};

/// How joules were obtained.
enum class Method { none, counter, integrated_power, estimate };
template <>
inline constexpr std::array name_list<Method> = {"", "counter", "integrated_power", "estimate"};

/// What logic asks of the reason of a reading or a meter (EnergyRow, MeterEntry); reports have other reasons, too.
enum class Reason {
  contained,    ///< another row covers the same joules as a part of its own
  duplicate,    ///< another row covers the same joules
  not_visible,  ///< of a GPU that no rank of the job may use
  shared,       ///< counted, but may include the joules of other jobs
  permission,   ///< this user may not read it
  implausible,  ///< above 1.5 x the maximum power of its part
  wrapped,      ///< may have wrapped undetected
  reset,        ///< the counter was set to another value
  stalled,      ///< the counter was not updated
  too_short,    ///< the window was shorter than an update period
  not_updated,  ///< the sensor showed no joule in the window
  lost,         ///< the sensor did not answer for the whole window
  gap,          ///< likewise its series
  not_covered,  ///< likewise
};
template <>
inline constexpr std::array name_list<Reason> = {"contained",   "duplicate", "not_visible", "shared",     "permission",
                                                 "implausible", "wrapped",   "reset",       "stalled",    "too_short",
                                                 "not_updated", "lost",      "gap",         "not_covered"};

/// What trained. Reports may name other kinds.
enum class DeviceKind {
  reference,
  cpu,
  cuda,
  command,  ///< nothing of ours: a metered command
};
template <>
inline constexpr std::array name_list<DeviceKind> = {"reference", "cpu", "cuda", "command"};

/// The quantities of series and counters (SeriesRow, CounterRow) that logic asks for; there are others.
enum class Quantity { power, thermal_events, power_cap_seconds, ecc_errors, xid_errors };
template <>
inline constexpr std::array name_list<Quantity> = {"power_w", "throttle_thermal_events", "throttle_power_cap_s",
                                                   "ecc_errors", "xid_errors"};

/// How the trials of a figure were combined.
enum class Statistic {
  none,
  single,  ///< one trial
  mean,
  olympic_mean,  ///< without the best and the worst: of older reports
  median,
  derived,  ///< from other figures
};
template <>
inline constexpr std::array name_list<Statistic> = {"", "single", "mean", "olympic_mean", "median", "derived"};

/// What runs to a target are measured by.
enum class TargetMetric {
  excess_loss,  ///< held-out loss less the target's floor, nats a token; of series squared error
  error,        ///< share of held-out samples that are misclassified
};
template <>
inline constexpr std::array name_list<TargetMetric> = {"excess_loss", "error"};

/// What a search makes least: joules a sample, joules x seconds a sample, or what a sample costs.
enum class SearchMerit { energy, edp, cost };
template <>
inline constexpr std::array name_list<SearchMerit> = {"energy", "edp", "cost"};

/// How a step is started.
enum class StepMode {
  eager,  ///< call by call
  graph,  ///< recorded once, launched as a whole
};
template <>
inline constexpr std::array name_list<StepMode> = {"eager", "graph"};

/// When idle power was measured: before or after all points.
enum class IdleTime { before, after };
template <>
inline constexpr std::array name_list<IdleTime> = {"before", "after"};

/// Names as parts of sentences.
template <Named E>
std::string operator+(std::string text, E value) {
  return std::move(text) + to_string(value);
}
template <Named E>
std::string operator+(E value, const std::string& text) {
  return to_string(value) + text;
}

}  // namespace tw::results
