// What a run does beside its axes: how long, how often, to what end. The same for a request and for its plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/options/recompute.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

/// How each point is measured.
struct Measurement {
  double window_seconds = results::published_window_s;  ///< of one trial
  int trials = results::least_trials;
  int warmup_steps = 3;  ///< at least; before a window until the step time is flat (bench/train/steady.hpp)
  std::optional<std::int64_t> steps;  ///< steps of a trial instead of a window: flag `steps_given`
  double ceiling_seconds = 4;         ///< for timing the products alone, before and after together
};

/// What --seeds N means where it is left out.
inline constexpr int default_seed_count = 5;

/// Training until each network's task reaches its target, once for each seed, instead of for a time.
struct TargetRequest {
  std::optional<double> value;  ///< nullopt: the task's own
  int seed_count = default_seed_count;
  std::vector<std::uint64_t> seeds;  ///< one for each run of the plan; empty: from the request's seed on
};

/// Looking for the best setting with few of the grid's points, instead of measuring them all.
struct SearchRequest {
  std::string merit;                     ///< "energy", "edp", "cost" (results/selection/search.hpp)
  double max_slowdown = 0.05;            ///< share of the speed at the found settings
  double hour_price = 0, kwh_price = 0;  ///< for "cost"
};

/// One field for each option of bench/plan/options/run_options.cpp, which says how it is written and where it counts.
struct RunSettings {
  Measurement measurement;
  std::optional<TargetRequest> target;       ///< of the measurement nothing else counts then
  std::optional<SearchRequest> search;       ///< few of the points are measured, and each workload's found settings
  std::optional<results::JobPrices> prices;  ///< of what is measured they change nothing
  std::uint64_t seed = 1;
  /// The network of --model custom: the path of a file of layers until it is read (layers_file.hpp), then its content,
  /// JSON with sorted keys and without spaces.
  std::string layers_path, layers;
  Recompute recompute;
  bool eager = false;                 ///< no graphs, also where the device has them
  std::string comm;                   ///< of communicator_names(); empty: the first that serves
  std::string reduce_precision;       ///< in which ranks sum gradients: "bf16"; empty: float32
  std::optional<bool> deterministic;  ///< as asked; absent: as is usual on the device (RunPlan::is_deterministic)
  std::string device_class;           ///< "cpu", "gpu": the devices that the plan is for; empty: any
  std::optional<int> repeat;          ///< runs of the plan, each launched anew; a single run is of the same plan
};

}  // namespace tw::bench
