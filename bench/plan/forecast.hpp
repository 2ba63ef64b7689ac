// What a plan will take, before anything runs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"

namespace tw::bench {

/// How long one optimizer step of a point takes, in seconds; nullopt where nobody knows.
using StepSeconds = std::function<std::optional<double>(const Point&)>;

struct PointForecast {
  std::string id;
  std::string obstacle;           ///< why it cannot run here; empty: nothing is known that speaks against it
  std::optional<double> seconds;  ///< of one that runs; nullopt: it ends at a step or a target, whose pace nobody knows
  bool is_most = false;           ///< the seconds are those of a run that misses its target
  std::optional<double> likely_seconds;  ///< of one that reaches it where the reference curves do; nullopt: none is of it
  std::optional<double> most_steps, likely_steps;  ///< of the optimizer, of all seeds or trials; likewise
  bool is_least = false;          ///< nobody knows how long a step takes, which a window waits for
};

struct Forecast {
  std::vector<PointForecast> points;  ///< in the order of the plan
  int nodes = 1;
  std::map<std::string, double> maximum_power_w;     ///< of one node's counted meters, by scope; empty: no meter
  std::map<std::string, std::string> power_unknown;  ///< of these scopes a meter, here named, states no greatest power
  std::string power_reason;                          ///< why there is none
  std::optional<std::size_t> likely_looks;           ///< points that a search is likely to measure, of all workloads
  std::string search_obstacle;  ///< why the search cannot run; empty: nothing is known that speaks against it

  int runs() const;        ///< points without an obstacle
  int unknown() const;     ///< of these those whose time is not known
  double seconds() const;  ///< of those whose time is known; of a search of the likely looks
  /// The same where runs reach their targets as the reference curves do; nullopt where there is no such curve, or no target.
  std::optional<double> likely_seconds() const;
  bool is_most() const;    ///< some of them are upper bounds
  bool is_least() const;   ///< some of them are lower bounds
};

/// Time of one point that is measured in windows: set-up, the products timed alone, warm-up, trials, each of whole
/// steps of `step_seconds`. nullopt where steps or a target end it.
std::optional<double> window_seconds_of(const Measurement& measurement, double step_seconds = 0);

/// `why_not`: an obstacle of a point, or nothing.
Forecast forecast(const RunPlan& plan, int nodes, const std::function<std::string(const Point&)>& why_not,
                  const StepSeconds& step_seconds);

/// Why a plan's search cannot run where these meters answer; empty where it can, and without a search.
std::string search_obstacle(const RunPlan& plan, const Forecast& forecast);

/// The points as a table, those that are refused for one reason together, then what they take together; `width` columns.
std::string forecast_text(const RunPlan& plan, const Forecast& forecast, std::size_t width);
std::string forecast_json(const RunPlan& plan, const Forecast& forecast);

}  // namespace tw::bench
