// Measures one point of a plan.
#pragma once

#include "bench/train/energy_window.hpp"
#include "bench/train/plan.hpp"
#include "bench/train/progress.hpp"
#include "comm/job.hpp"
#include "models/compute/device.hpp"
#include "models/trainer.hpp"
#include "results/record.hpp"

namespace tw {

struct RunContext {
  Job& job;
  Device& device;
  const RunPlan& plan;
  EnergyWindow& energy;
  Progress& progress;
  double bucket_mib = 25;
  std::string energy_reason;        ///< why there are no joules; empty where a meter answers
  std::vector<std::string> flags;   ///< of the whole run: narrow_affinity, oversubscribed, …
};

/// The trainer's configuration of a point on this rank.
TrainerConfig trainer_config(const Point& point, const RunPlan& plan, int rank);
/// Why this point cannot run on this device ("" = it can): precision, operators.
std::string why_unsupported(const Point& point, const Device& device);
/// Why it does not fit ("" = it does): bytes needed on this node against bytes there. Nothing is allocated.
std::string why_too_large(const Point& point, const RunPlan& plan, const Job& job, int threads);

/// Runs the point on all ranks (collective). Unsupported and failed points come back as such. Throws Stop{exit_interrupted}
/// on all ranks when a signal asked for the end; other exceptions mean that this rank failed inside a step, where the
/// others cannot be told: the caller aborts the job.
Record run_point(RunContext& context, const Point& point);

/// Set by the signal handler (SIGINT, SIGTERM, SIGUSR1); looked at between steps.
bool interruption_requested();
void install_signal_handlers();

}  // namespace tw
