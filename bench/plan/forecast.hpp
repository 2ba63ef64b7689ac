// What a plan will take, before anything runs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/pace.hpp"
#include "bench/plan/plan.hpp"

namespace tw::bench {

/// How long one optimizer step of a point takes, in seconds; nullopt if unknown.
using StepSeconds = std::function<std::optional<double>(const Point&)>;

/// What a rank takes of the node's memory, or of its GPU's.
struct RankMemory {
  double bytes = 0;
  bool is_least = true;  ///< a lower bound
};
using MemoryOfRank = std::function<std::optional<RankMemory>(const Point&)>;

struct PointForecast {
  std::string id;
  std::string obstacle;           ///< why it cannot run here; empty: no obstacle is known
  std::optional<double> seconds;  ///< of one that runs; nullopt: it ends at a step or a target, whose pace is not known
  bool is_most = false;           ///< the seconds are those of a run that misses its target
  std::optional<double> likely_seconds;  ///< if it reaches the target as the reference curves do; nullopt: no curve
  std::optional<double> most_steps, likely_steps;  ///< of the optimizer, of all seeds or trials; likewise
  bool is_least = false;             ///< the time of a step is not known, and a window waits for its last one
  bool is_estimated = false;         ///< the time of a step is that of a DevicePace
  int sizes = 0;                     ///< that may be tried to find the micro-batch, before the first point that has it
  double search_seconds = 0;         ///< of these, included: a set-up each, and the timing of its steps
  std::optional<RankMemory> memory;  ///< also of one that cannot run; nullopt: not known
};

struct Forecast {
  std::vector<PointForecast> points;  ///< in the order of the plan
  int nodes = 1;
  std::string pace;                         ///< by what the times of steps were estimated; empty: none was
  std::string time_reason;                  ///< why whoever made it does not know the time of a step, and what tells it
  std::optional<double> node_memory_bytes;  ///< nullopt: not known, or the memory of GPUs counts
  std::map<std::string, double> maximum_power_w;     ///< of one node's counted meters, by scope; empty: no meter
  std::map<std::string, std::string> power_unknown;  ///< of these scopes a meter, here named, states no greatest power
  std::string power_reason;                          ///< why there is none
  std::optional<std::size_t> likely_looks;           ///< points that a search is likely to measure, of all workloads
  std::string search_obstacle;                       ///< why the search cannot run; empty: no obstacle is known

  int runs() const;        ///< points without an obstacle
  int unknown() const;     ///< of these those whose time is not known
  double seconds() const;  ///< of those whose time is known; of a search of the likely looks
  /// The same if runs reach their targets as the reference curves do; nullopt without such a curve or a target.
  std::optional<double> likely_seconds() const;
  bool is_most() const;       ///< some of them are upper bounds
  bool is_least() const;      ///< some of them are lower bounds
  bool is_estimated() const;  ///< some of them are by a pace
};

/// Time of one point that is measured in windows: set-up, the products timed alone, warm-up, trials, each of whole
/// steps of `step_seconds`. nullopt if steps or a target end it.
std::optional<double> window_seconds_of(const Measurement& measurement, double step_seconds = 0);

/// `why_not`: an obstacle of a point, or nothing. Points with a micro-batch that was declared have it; the time of a
/// step is not asked for where the micro-batch is found at run time. `pace` estimates what `step_seconds` does not know
/// of points that are measured in windows, and the search for a micro-batch: as if each size were tried that fits.
Forecast forecast(const RunPlan& plan, int nodes, const std::function<std::string(const Point&)>& why_not,
                  const StepSeconds& step_seconds, const MemoryOfRank& memory = nullptr,
                  const DevicePace* pace = nullptr);

/// Why a plan's search cannot run where these meters answer; empty if it can, and without a search.
std::string search_obstacle(const RunPlan& plan, const Forecast& forecast);

/// The points as a table, those with the same obstacle together, then the totals; `width` columns.
std::string forecast_text(const RunPlan& plan, const Forecast& forecast, std::size_t width);
std::string forecast_json(const RunPlan& plan, const Forecast& forecast);

}  // namespace tw::bench
