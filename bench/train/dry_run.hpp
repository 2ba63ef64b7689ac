// What a run would do, said before it does anything.
#pragma once

#include "bench/plan/plan.hpp"
#include "bench/train/job/options.hpp"
#include "comm/job.hpp"
#include "models/compute/device.hpp"

namespace tw::bench {

/// Prints the points of the plan, those that this job's ranks, device, memory and knobs cannot do, and the time, node-hours
/// and energy of the others. Where steps or a target end a point, it is built and takes a few steps, to know its pace; nothing
/// is set, nothing is written (collective).
void dry_run(comm::Job& job, models::Device& device, const RunPlan& plan, const Options& options);

}  // namespace tw::bench
