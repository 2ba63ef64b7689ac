// What a run was asked for: by options, a suite or a config file.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/plan/options/axes.hpp"
#include "bench/plan/options/run_settings.hpp"
#include "bench/plan/options/usage_error.hpp"

namespace tw::bench {

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
