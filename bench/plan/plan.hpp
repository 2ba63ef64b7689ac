// What a run will do: points in order, how long each is measured. Made from options, a suite or a config file, and
// written into the report with its SHA-256.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/plan/options/axes.hpp"
#include "bench/plan/options/run_settings.hpp"
#include "bench/plan/options/usage_error.hpp"
#include "models/catalog/description.hpp"
#include "models/catalog/tasks.hpp"
#include "power/knob/knob.hpp"
#include "results/record/record.hpp"

namespace tw {

/// Everything asked for, before the number of ranks is known.
struct Request : RunSettings {
  std::string suite = "command-line";
  std::vector<Axes> axes;      ///< each entry is a grid; the plan has the points of all
  std::optional<KitInfo> kit;  ///< of a frozen plan
  std::string config;          ///< the file that the axes are of; empty: options or a suite
  /// The option asks for the same bits over a config or suite that says nothing: a change where the device does not
  /// give them anyway.
  bool adds_deterministic = false;
  std::set<std::string> given;  ///< keys of options that go over a config or suite
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

struct RunPlan : RunSettings {
  std::string suite;
  std::vector<Point> points;          ///< of a search the grid, of which few are measured
  std::string device;                 ///< resolved: "cpu"
  std::vector<std::string> left_out;  ///< combinations whose batch the ranks cannot share out, and why
  std::optional<KitInfo> kit;         ///< its SHA-256 enters the plan's
  /// Whether two runs are to have the same bits as far as the device can promise. Not asked for: on the CPU no, since
  /// fixed implementations cost speed there; elsewhere yes.
  bool is_deterministic() const;
  int runs() const { return repeat.value_or(1); }
  /// The plan as JSON with sorted keys: what its hash is taken of.
  std::string canonical_json() const;
};

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
