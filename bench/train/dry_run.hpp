// --dry-run: what a run would do.
#pragma once

#include "bench/plan/plan.hpp"
#include "bench/train/job/options.hpp"
#include "comm/job.hpp"
#include "models/compute/device.hpp"

namespace tw::bench {

/// Prints the points of the plan, which of them this job's ranks, device, memory or knobs cannot do, and the time,
/// node-hours and energy of the others. A point that ends at steps or a target is built and takes a few steps, to know
/// its pace; no setting is changed and no file is written (collective).
void dry_run(comm::Job& job, models::Device& device, const RunPlan& plan, const Options& options);

}  // namespace tw::bench
