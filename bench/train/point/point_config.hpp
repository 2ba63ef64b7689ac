// What a point asks of a device and a node: its trainer's configuration, and why it cannot run there.
#pragma once

#include <string>

#include "bench/plan/forecast.hpp"
#include "bench/plan/plan.hpp"
#include "comm/job.hpp"
#include "models/compute/device.hpp"
#include "models/compute/registry.hpp"
#include "models/trainer.hpp"

namespace tw::bench {

/// Throws UsageError for a name that is none (make_plan has refused it before).
models::Precision precision_of(const std::string& name);
/// In which the ranks sum gradients.
models::DType reduce_type(const RunPlan& plan);
/// How a plan's device is made. On the CPU a plan that asks for the same bits has fixed implementations.
models::DeviceOptions device_options(const RunPlan& plan, int index, int threads);
/// The trainer's configuration of a point on this rank.
models::TrainerConfig trainer_config(const Point& point, const RunPlan& plan, int rank);
/// Why this point cannot run on this device ("" = it can): precision, operators.
std::string why_unsupported(const Point& point, const models::Device& device);
/// "needs 12.30 GiB: 8.10 activations, 2.90 weights and gradients, …": what a rank asks of its device, or of the node's
/// memory where the device is the CPU.
std::string memory_needed(const models::TrainerConfig& config, const models::Device& device);
/// The memory that a rank needs: all of it on the node; on its GPU a lower bound, the parts that are known exactly.
RankMemory memory_of_rank(const Point& point, const RunPlan& plan, const models::Device& device);
/// Why it does not fit ("" = it does): bytes needed by the job's ranks on this node against bytes there, or by each on
/// its GPU. Nothing is allocated.
std::string why_too_large(const Point& point, const RunPlan& plan, const comm::Job& job, const models::Device& device);
/// What a launch ends with for a planned point that is too large (collective): usage where whoever runs it has chosen
/// the sizes and a node or GPU has less memory in all; environment where other processes use the memory, or where a
/// suite or kit has chosen the sizes. A micro-batch declared for a kit counts as chosen by whoever runs it.
int exit_code_of_too_large(const Point& point, const RunPlan& plan, comm::Job& job, const models::Device& device);
/// Why the products' own operands do not fit, so that there is no ceiling ("" = they do).
std::string why_no_ceiling(const Point& point, const comm::Job& job, const models::Device& device);

}  // namespace tw::bench
