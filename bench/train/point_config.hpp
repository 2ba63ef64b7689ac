// What a point asks of a device and a node: its trainer's configuration, and why it cannot run there.
#pragma once

#include <string>

#include "bench/plan/plan.hpp"
#include "comm/job.hpp"
#include "models/compute/device.hpp"
#include "models/trainer.hpp"

namespace tw {

DType dtype_of(const std::string& precision);
/// The trainer's configuration of a point on this rank.
TrainerConfig trainer_config(const Point& point, const RunPlan& plan, int rank);
/// Why this point cannot run on this device ("" = it can): precision, operators.
std::string why_unsupported(const Point& point, const Device& device);
/// Why it does not fit ("" = it does): bytes needed by the job's ranks on this node against bytes there. Nothing is
/// allocated.
std::string why_too_large(const Point& point, const RunPlan& plan, const Job& job, int threads);
/// Why the products' own operands do not fit, so that there is no ceiling ("" = they do).
std::string why_no_ceiling(const Point& point, const Job& job, int threads);

}  // namespace tw
