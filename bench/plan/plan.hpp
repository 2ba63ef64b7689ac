// What a run will do: points in order, how long each is measured. Made from options, a suite or a config file, and
// written into the report with its SHA-256.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/plan/recompute.hpp"
#include "models/catalog/description.hpp"
#include "models/catalog/tasks.hpp"
#include "power/knob/knob.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/record/record.hpp"

namespace tw {

/// Axes as a user gives them; a list of several values makes an axis. Empty lists take the network's defaults.
struct Axes {
  std::vector<std::string> model;
  std::vector<int> layers;
  std::vector<std::string> precision;
  std::vector<std::int64_t> micro_batch, accumulate, global_batch, seq_len;
  std::vector<int> ranks;                                ///< of the job's; the others sleep meanwhile
  std::map<KnobKind, std::vector<std::string>> setting;  ///< set points as written (bench/plan/set_points.hpp)
  /// Shares ("50%") of the range of the clock of what trains, GPU or CPU (bench/plan/shares.hpp); points that no device
  /// has a range for are left out.
  std::vector<std::string> clock;
  std::string place;              ///< in a config file: "/grids/1"; empty: at its top
  std::set<std::string> shared;   ///< keys of a config that stand beside its grids, for this one too
};

/// How each point is measured.
struct Measurement {
  double window_seconds = published_window_s;  ///< of one trial
  int trials = least_trials;
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

/// Everything asked for, before the number of ranks is known.
struct Request {
  std::string suite = "command-line";
  std::vector<Axes> axes;  ///< each entry is a grid; the plan has the points of all
  Measurement measurement;
  std::optional<TargetRequest> target;  ///< of the measurement nothing else counts then
  std::optional<SearchRequest> search;
  std::optional<JobPrices> prices;  ///< of what is measured they change nothing
  std::uint64_t seed = 1;
  Recompute recompute;
  bool eager = false;  ///< no graphs, also where the device has them
  std::string comm;    ///< of communicator_names(); empty: the first that serves
  std::optional<bool> deterministic;        ///< as asked; absent: as is usual on the device (RunPlan::is_deterministic)
  std::optional<KitInfo> kit;               ///< of a frozen plan
  std::optional<int> repeat;                ///< runs of the plan, each launched anew; of one run it changes nothing
  std::string config;                       ///< the file that the axes are of; empty: options or a suite
  /// The option asks for the same bits over a config or suite that says nothing: a change where the device does not
  /// give them anyway.
  bool adds_deterministic = false;
  std::set<std::string> given;              ///< options that go over a config or suite: "--seeds"
};

/// One point, fully determined.
struct Point {
  std::string id;
  NetworkDescription network;
  std::optional<int> layers;  ///< as given by --layers
  std::string precision;
  std::int64_t micro_batch = 0, accumulate = 0, seq_len = 0;
  int ranks = 1;
  int recomputed_layers = 0;
  std::map<KnobKind, double> setting;   ///< what is not in it stays as found
  std::optional<TaskDescription> task;  ///< trained to its target, once with each of the seeds
  std::vector<std::uint64_t> seeds;     ///< those of this point alone
  std::int64_t global_batch() const { return micro_batch * accumulate * ranks; }
};

/// Whether the device gives the same bits each time without being asked to.
bool is_deterministic_by_default(const std::string& device);

struct RunPlan {
  std::string suite;
  std::vector<Point> points;
  Measurement measurement;
  std::uint64_t seed = 1;
  Recompute recompute;
  bool eager = false;
  std::string comm;
  std::optional<bool> deterministic;  ///< as asked
  std::string device;  ///< resolved: "cpu"
  std::optional<SearchRequest>
      search;  ///< the points are then a grid of which few are measured, and each workload's found settings
  std::optional<JobPrices> prices;
  std::vector<std::string> left_out;  ///< combinations whose batch the ranks cannot share out, and why
  std::optional<KitInfo> kit;  ///< its SHA-256 enters the plan's
  /// Whether two runs are to have the same bits as far as the device can promise. Not asked for: on the CPU no, since
  /// fixed implementations cost speed there; elsewhere yes.
  bool is_deterministic() const;
  int repeat = 1;  ///< runs that are asked for; not in the hash: a single run is of the same plan
  /// The plan as JSON with sorted keys: what its hash is taken of.
  std::string canonical_json() const;
};

/// A fault of the user's: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Bounds that keep a slip of the finger from costing a night.
inline constexpr std::int64_t most_trials = 1000, most_steps = 1'000'000'000, largest_seed = INT64_MAX;
inline constexpr int most_runs = 1000;
inline constexpr double longest_window_seconds = 7 * 24 * 3600.0;
/// With what was changed and a closing bracket appended to the name of a suite whose measurement, seed, settings, ranks
/// or way of running steps was changed, as "quick (changed: window, trials)": it is no longer that suite.
inline constexpr const char* changed_suite = " (changed: ";

/// `value`, or a UsageError that names `what` and the bounds.
std::int64_t check_range(const std::string& what, std::int64_t value, std::int64_t least, std::int64_t most);

/// The names of --precision; which of them a device does is the device's to say.
const std::vector<std::string>& precision_names();

/// The names of --comm but "auto": those of comm/communicators.def, which not every program links.
const std::vector<std::string>& communicator_names();
/// Throws UsageError with the nearest name where `name`, an option or key, holds no communicator's and not "auto".
void check_communicator(const std::string& name, const std::string& text);

/// The names of --suite.
const std::vector<std::string>& suite_names();
/// Throws UsageError with the nearest name.
Request suite_request(const std::string& name);
/// "default" (nullopt: the task's own) or a number above 0. Throws UsageError that names `name`.
std::optional<double> parse_target(const std::string& name, const std::string& text);
/// A count, or a list of seeds that differ, in place of what was there. Throws UsageError that names `name`.
void set_seeds(TargetRequest& target, const std::string& name, const std::vector<std::int64_t>& values, bool is_list);
/// Understands a config file's text (keys as the long options, with underscores; "grids" is a list of objects with
/// axes, and axes beside it are the defaults of each grid). Throws UsageError that names file, place and key, and
/// suggests the nearest known key.
Request read_config(const std::string& path, const std::string& text);
/// The text of a file or pipe that an option names, of 1 MiB at most. Throws UsageError.
std::string read_config_text(const std::string& path, const std::string& option = "--config");

/// Determines every point for `ranks` ranks, or as many of them as the axes say, on `device`, in the order in which
/// they are run: settings outermost, those first that take longest to change, with values as written; under one setting
/// an order drawn from the seed. Throws UsageError, of a config in its words: over 100,000 combinations, unknown network
/// or precision, over-determined batch, a sequence longer than the network's. Combinations whose batch the ranks cannot
/// share out are left out; where nothing else is left, that is thrown.
RunPlan make_plan(const Request& request, int ranks, const std::string& device);

}  // namespace tw
