// A whole run: the points of a plan one after the other, and the report over them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "bench/train/job/options.hpp"
#include "bench/train/sweep/folders.hpp"
#include "bench/train/sweep/resume.hpp"
#include "comm/job.hpp"
#include "models/compute/device.hpp"
#include "power/knob/guardian.hpp"

namespace tw::bench {

struct Sweep {
  comm::Job& job;
  models::Device& device;
  const RunPlan& plan;
  const Options& options;
  int threads_requested = 0;  ///< of a rank; 0: no number was requested
  std::string note = {};      ///< about the choice of the device, for the report; may be empty
  std::vector<std::string> argv = {};
  RunFolder& folder;
  std::vector<std::string> command =
      {};                   ///< the arguments that made the plan; those of an earlier launch if it is resumed
  std::string config = {};  ///< the text of the config among them
  std::vector<LaunchDifference> differences = {};  ///< of its options to the earlier launch's
};

/// Measures the points that the folder's earlier launches have not, and writes each finished one to DIR/records.jsonl,
/// and in the end DIR/report.json and a table (collective). Settings are put back, whatever ends the run. Lets the
/// guardian go where it would hold nothing. Returns the exit code; throws Stop if nothing can be
/// measured at all, or where the earlier launch was not the same run.
int run_sweep(const Sweep& sweep, std::optional<power::Guardian>& guardian);

// ---- complete.cpp: runs that have measured all their points ----
/// The error, with its code, if set points kept every point from being measured; empty otherwise.
std::string why_refused(const results::Report& report);
/// What the points of a finished run come to.
int exit_code_of(const results::Report& report);
/// The exit code of a run whose points are all measured and reported, and says so; nullopt if there is something to
/// do (collective).
std::optional<int> code_of_complete(const Sweep& sweep);

}  // namespace tw::bench
