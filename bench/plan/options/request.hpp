// What a run was asked for, by options, a suite or a config file, and what of it its plan has, too: how long it
// measures, how often, to what end.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/plan/options/axes.hpp"
#include "bench/plan/options/recompute.hpp"
#include "bench/plan/options/usage_error.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

/// How each point is measured.
struct Measurement {
  double window_seconds = results::published_window_s;  ///< of one trial
  int trials = results::least_trials;
  int warmup_steps = 3;  ///< at least; before a window until the step time is flat (bench/train/point/step_loop.hpp)
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
  results::SearchMerit merit = results::SearchMerit::energy;
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

/// Everything asked for, before the number of ranks is known.
struct Request : RunSettings {
  std::string suite = "command-line";
  std::vector<Axes> axes;               ///< each entry is a grid; the plan has the points of all
  std::optional<results::KitInfo> kit;  ///< of a frozen plan
  std::string config;                   ///< the file that the axes are of; empty: options or a suite
  /// The option asks for the same bits over a plan that says nothing: a change where the device gives none by itself.
  bool adds_deterministic = false;
  std::set<std::string> given;  ///< keys of options that go over a config or suite
  /// A size that whoever runs a plan has given where the plan leaves it to the run ("auto"). The plan stays the same.
  std::optional<std::int64_t> declared_micro_batch;
};

/// Whether a grid leaves the micro-batch to the run.
bool leaves_micro_batch(const Request& request);

/// "gpu" of cuda, "cpu" of all others.
std::string class_of(const std::string& device);
/// Whether a suite's sizes depend on the class of device.
bool has_sizes_by_class(const Request& request);
/// Keeps the grids of the request's class, which is that of `device` where nobody has chosen one. make_plan does so.
void choose_class(Request& request, const std::string& device);
/// Throws UsageError where the request is for another class than the device's.
void check_class(const Request& request, const std::string& device);

/// Whether the device gives the same bits each time without being asked to.
bool is_deterministic_by_default(const std::string& device);

/// Bounds that keep a slip of the finger from costing a night.
inline constexpr std::int64_t most_trials = 1000, most_steps = 1'000'000'000, largest_seed = INT64_MAX;
inline constexpr int most_runs = 1000;
inline constexpr double longest_window_seconds = 7 * 24 * 3600.0;
/// With what was changed and a closing bracket appended to the name of a suite whose measurement, seed, settings, ranks
/// or way of running steps was changed, as "quick (changed: window, trials)": it is no longer that suite.
inline constexpr const char* changed_suite = " (changed: ";

/// The names of --precision; which of them a device does is the device's to say.
const std::vector<std::string>& precision_names();

/// The names of --comm but "auto": those of comm/communicators.def, which not every program links.
const std::vector<std::string>& communicator_names();

/// The names of --suite.
const std::vector<std::string>& suite_names();
/// Throws UsageError with the nearest name.
Request suite_request(const std::string& name);
/// Reads a config's text (keys as the long options, with underscores; "grids" is a list of objects with axes, and axes
/// beside it are the defaults of each). Throws UsageError with file, place and key, and the nearest known key.
Request read_config(const std::string& path, const std::string& text);
/// The text of the file or pipe that --config names; a file of layers that it names by path is put in its place.
/// Throws UsageError as read_input().
std::string read_config_text(const std::string& path);

}  // namespace tw::bench
