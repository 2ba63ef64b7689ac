// Training until a target is reached: evaluation shared by all ranks.
#pragma once

#include "bench/plan/reference_steps.hpp"
#include "bench/train/point/measure_point.hpp"
#include "comm/job.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

/// Loss and error over the task's held-out samples, each rank its micro-batches of them, equal on all ranks
/// (collective); `time_s` is left at 0. Throws Stop{exit_interrupted} on all ranks when a signal asked for the end.
results::Evaluation evaluate_held_out(comm::Job& job, StepSource& steps, const Point& point);

}  // namespace tw::bench
