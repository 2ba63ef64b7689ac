// The command line of trainwatt-train, in two steps, since all ranks must get the same plan: parse_options reads the
// arguments alone; request_of adds a config, which the root rank reads for all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/plan/options/plan_options.hpp"

namespace tw::bench {

struct Options : PlanOptions {
  std::string site;                ///< file of a site's own commands for knobs; empty: none
  bool force = false;              ///< set clocks where a lock is evident
  bool force_resume = false;       ///< go on with a run that is not the same
  std::string energy_csv;          ///< empty: none
  std::optional<double> estimate_watts;
  std::string device = "auto";
  std::string out;                 ///< empty: out/<suite or model>-<UTC time>
  std::string resume;              ///< folder of the run to go on with, or to start where there is none; empty: none
  bool resumes_alone = false;      ///< --resume without options that make a plan: the plan is the earlier launch's
  std::string export_step;         ///< folder; empty: measure
  std::optional<std::int64_t> run_index;  ///< which of several runs of the plan, from 1; nullopt: it is the only one
  bool dry_run = false;            ///< say what would be done, and what it takes
  int threads = 0;                 ///< 0: from OMP_NUM_THREADS or the affinity mask
  double bucket_mib = 25;
};

/// The most threads that a rank may be given: far beyond what helps, and well below what brings a node down.
std::int64_t most_threads();

/// An option of a launch, which is no part of the plan. The command line, the check that all ranks were given the same,
/// and --resume walk this list.
struct LaunchOption {
  const char* name;  ///< "--bucket-mib"
  const char* group;
  const char* help;
  std::variant<std::string Options::*, bool Options::*, int Options::*, double Options::*,
               std::optional<double> Options::*, std::optional<std::int64_t> Options::*>
      field;
  bool is_resumed = false;      ///< --resume compares it with the earlier launch's
  bool may_resume_alone = false;  ///< allowed beside a --resume without a plan
};
/// In the order of --help.
const std::vector<LaunchOption>& launch_options();
/// Empty if nothing was given.
std::string text_of(const LaunchOption& option, const Options& options);

/// All that two ranks must have been given alike, as text: everything but what is in the plan.
std::string fingerprint(const Options& options);

/// What parsing came to: options, or text to print and leave with.
struct ParseResult {
  std::optional<Options> options;
  int exit_code = 0;
  std::string text;                ///< help, version, or one line of error
};
/// Throws nothing for a wrong command line: the result has exit code and text.
ParseResult parse_options(int argc, char** argv);

}  // namespace tw::bench
