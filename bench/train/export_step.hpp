// --export-step: one step of one point as files for other frameworks.
#pragma once

#include <filesystem>

#include "bench/plan/plan.hpp"
#include "comm/job.hpp"
#include "models/compute/device.hpp"

namespace tw::bench {

/// Writes weights, batch, loss, gradients and updated weights of one step of the plan's only point into a new folder,
/// which gets its name once it is whole (collective). Returns what was left out and why, for people; empty if
/// nothing was. Throws Stop.
std::string export_one_step(comm::Job& job, models::Device& device, const RunPlan& plan, const std::string& comm,
                            const std::filesystem::path& folder);

}  // namespace tw::bench
