// The command line of trainwatt-train, in two steps, since all ranks must come to the same plan: parse_options looks at the
// arguments alone; request_of adds a config, which the root rank reads for all.
#pragma once

#include <optional>
#include <string>

#include "bench/train/plan.hpp"

namespace tw {

struct Options {
  Axes axes;                       ///< from the options; empty with a suite or config
  std::string suite, config;       ///< at most one is given
  // How long, how: what was given explicitly, over a suite's or config's own.
  std::optional<double> window_seconds;
  std::optional<std::int64_t> steps, trials, warmup_steps, seed;
  std::string target;              ///< "default" or a number; empty: train for a time
  std::vector<std::int64_t> seeds; ///< one value: how many
  bool recompute = false;
  std::string site;                ///< file of a site's own commands for knobs; empty: none
  bool force = false;              ///< set clocks where a lock is evident; resume a run that is not the same
  std::string energy_csv;          ///< empty: none
  std::optional<double> estimate_watts;
  std::string device = "auto";
  std::string out;                 ///< empty: out/<suite or model>-<UTC time>
  std::string resume;              ///< folder of the run to go on with, or to start where there is none; empty: none
  bool resumes_alone = false;      ///< --resume without options that make a plan: the plan is the earlier launch's
  std::string export_step;         ///< folder; empty: measure
  int threads = 0;                 ///< 0: from OMP_NUM_THREADS or the affinity mask
  double bucket_mib = 25;
};

/// What parsing came to: options, or text to print and leave with.
struct ParseResult {
  std::optional<Options> options;
  int exit_code = 0;
  std::string text;                ///< help, version, or one line of error
};
ParseResult parse_options(int argc, char** argv);

/// What the options ask for. `config_text`: of the file --config names. Throws UsageError.
Request request_of(const Options& options, const std::string& config_text);

}  // namespace tw
