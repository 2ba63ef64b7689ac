// What a run will do: points in order, how long each is measured. The report has it, with its SHA-256.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/options/request.hpp"
#include "models/catalog/description.hpp"
#include "models/catalog/tasks.hpp"
#include "power/knob/knob.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

/// One point, fully determined.
struct Point {
  std::string id;
  models::NetworkDescription network;
  std::optional<int> layers;                       ///< as given by --layers
  std::optional<std::int64_t> table_rows_at_most;  ///< as given by --table-rows-at-most
  std::string precision;
  /// Of an automatic point that has no size yet: 1, and the accumulation that goes with it.
  std::int64_t micro_batch = 0, accumulate = 0, seq_len = 0;
  bool is_automatic = false;                 ///< the micro-batch is found before the trials, or declared
  std::optional<std::int64_t> fixed_global;  ///< of an automatic point: the accumulation follows from the size found
  int ranks = 1;
  int recomputed_layers = 0;
  std::map<power::KnobKind, double> setting;    ///< what is not in it stays as found
  std::optional<models::TaskDescription> task;  ///< trained to its target, once with each of the seeds
  std::vector<std::uint64_t> seeds;             ///< those of this point alone
  std::int64_t global_batch() const { return micro_batch * accumulate * ranks; }
};

struct RunPlan : RunSettings {
  std::string suite;
  std::vector<Point> points;                         ///< for a search: the whole grid; few are measured
  std::string device;                                ///< resolved: "cpu"
  std::vector<std::string> left_out;                 ///< combinations whose batch the ranks cannot share out, and why
  std::optional<results::KitInfo> kit;               ///< its SHA-256 enters the plan's
  bool has_own_sizes = false;                        ///< whoever runs it has chosen them: no suite, no kit
  std::optional<std::int64_t> declared_micro_batch;  ///< of the automatic points; not in the plan's hash
  /// Whether two runs are to have the same bits as far as the device can promise. Not asked for: on the CPU no, since
  /// fixed implementations cost speed there; elsewhere yes.
  bool is_deterministic() const;
  int runs() const { return repeat.value_or(1); }
  /// "kit Tender 7", "plan from the command line", or the suite.
  std::string title() const;
  /// The plan as JSON with sorted keys: what its hash is taken of.
  std::string canonical_json() const;
};

/// Determines every point for `ranks` ranks, or as many of them as the axes say, on `device`, in the order in which
/// they are run: settings outermost, those first that take longest to change, with values as written; under one setting
/// an order drawn from the seed. Throws UsageError, for a config with its keys: over 100,000 combinations, unknown
/// network or precision, over-determined batch, a sequence longer than the network's. Combinations whose batch the
/// ranks cannot divide are left out; if no other is left, that is thrown.
RunPlan make_plan(const Request& request, int ranks, const std::string& device);

/// The automatic point at a size: its id stays. Why it cannot have that size is in `why`, and then nullopt.
std::optional<Point> with_micro_batch(const Point& point, std::int64_t micro_batch, std::string& why);
/// Equal for automatic points that have one size: all but the setting.
std::string size_key(const Point& point);

/// Indices into `plan.points`, in the order of run `run` (from 1) of the plan. Run 1 has the plan's own order, and so
/// has every run of a search, which chooses its points itself. Settings stay outermost and in their order. Under one
/// setting the runs are the rows of a Williams square: over as many runs as there are points each point has each place
/// once, and, where their number is even, follows each other point once. After that the rows begin again. So what
/// drifts along a run, or lingers from one point to the next, does not favour a point in the mean over the runs.
/// Source: E. J. Williams, Experimental designs balanced for the estimation of residual effects of treatments,
/// Australian Journal of Scientific Research A 2 (1949) 149.
std::vector<std::size_t> run_order(const RunPlan& plan, int run);

}  // namespace tw::bench
