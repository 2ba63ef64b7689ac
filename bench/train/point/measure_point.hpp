// Measures one point of a plan.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "bench/plan/plan.hpp"
#include "bench/train/job/machines.hpp"
#include "bench/train/node/energy_window.hpp"
#include "bench/train/node/job_settings.hpp"
#include "bench/train/point/progress.hpp"
#include "comm/job.hpp"
#include "models/compute/device.hpp"
#include "models/trainer.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

/// What a point does over and over: the trainer's optimizer steps, or a test's.
class StepSource {
 public:
  virtual ~StepSource() = default;
  /// Before the first step (Trainer::connect).
  virtual void connect(models::Exchange&) {}
  /// Collective by way of `sync`.
  virtual models::StepResult step(const models::GradientSync& sync) = 0;
  /// Whether steps can be enqueued, so that a window goes by without the host waiting for it; else only step() is used.
  virtual bool runs_ahead() const { return false; }
  virtual void enqueue(const models::GradientSync& sync);
  /// Waits for what was enqueued; its results since the last call. Their `seconds` are the steps' times.
  virtual std::vector<models::StepResult> collect();
  /// Steps that may be in flight.
  virtual void set_ahead(int) {}
  /// A held-out micro-batch (Trainer::evaluate), for runs to a target.
  virtual models::EvaluationResult evaluate(std::uint64_t batch_index);
  virtual std::uint64_t planned_bytes() const = 0;
  /// What computes each product (Trainer::implementations).
  virtual std::map<std::string, std::vector<std::string>> implementations() const { return {}; }
  /// Whether what repeats is recorded once and launched as graphs.
  virtual bool uses_graphs() const { return false; }
  /// The clock that steps and windows are timed by; a test's may go on by exactly what its steps take.
  virtual std::chrono::steady_clock::time_point now() const { return std::chrono::steady_clock::now(); }
};
/// Allocates all that a point's steps need; no collectives.
using StepSourceFactory = std::function<std::unique_ptr<StepSource>(models::Device&, const models::TrainerConfig&)>;
std::unique_ptr<StepSource> trainer_steps(models::Device& device, const models::TrainerConfig& config);

// ---- points that take fewer than all ranks ----
/// A job of these ranks, with their machines and meters: joules of nodes without a training rank are not counted.
struct Team {
  /// `all`: of the whole job, and `whole` its meters.
  Team(std::unique_ptr<comm::Job> its_job, const Machines& all, const power::MeterOptions& meters,
       const EnergyWindow& whole);
  std::unique_ptr<comm::Job> job;
  std::set<std::string> hosts;
  Machines machines;
  EnergyWindow energy;
};

class Teams {
 public:
  Teams(comm::Job& job, const Machines& machines, power::MeterOptions meters, const EnergyWindow& whole)
      : job_(job), machines_(machines), meters_(std::move(meters)), whole_(whole) {}
  /// The first `ranks` ranks; null on the others (collective over the job). They share the meters of the whole job,
  /// which are opened again only if NodePower::share requires it.
  Team* first(int ranks);

 private:
  comm::Job& job_;
  const Machines& machines_;
  power::MeterOptions meters_;
  const EnergyWindow& whole_;
  std::map<int, std::unique_ptr<Team>> teams_;
};

struct RunContext {
  comm::Job& job;
  models::Device& device;
  const RunPlan& plan;
  EnergyWindow& energy;
  Progress& progress;
  double bucket_mib = 25;
  std::string energy_reason = {};               ///< why there are no joules; empty if a meter answers
  std::vector<results::FlagName> flags = {};      ///< of the whole run: narrow_affinity, oversubscribed, …
  JobSettings* settings = nullptr;              ///< null: the plan has none
  std::map<power::KnobKind, FoundSetting> found = {};  ///< who had asked for the state that the run found
  std::set<std::string> gpus = {};              ///< that the job may use
  StepSourceFactory steps = trainer_steps;
  Teams* teams = nullptr;  ///< null: every point takes all ranks
  JobSettings* looks_after = nullptr;  ///< what is to stay as found where the plan has no settings; null: nothing
  /// When the launch began (Context::started_at); absent: trials do not say when they began.
  std::optional<std::chrono::steady_clock::time_point> started = {};
  /// By size_key(): what was found for automatic points before, by the first rank, also in earlier launches of the run.
  std::map<std::string, results::MicroBatchSearch>* micro_batches = nullptr;
  /// The same for the first ranks of the job.
  RunContext of(Team& team) const;
};

/// Runs the point on all ranks, or on as many of the first as it says, while the others sleep (collective). Unsupported
/// and failed points come back as such. Throws Stop{exit_interrupted} on all ranks when a signal asked for the end;
/// other exceptions mean that this rank failed inside a step, where the others cannot be told: the caller aborts the
/// job.
results::Record run_point(RunContext& context, const Point& point);
/// Why the device answers nothing any more, as a GPU after an error that stays with the process; empty if it does.
std::string why_lost(models::Device& device);
/// The record of a point that is not begun, and why; of no collectives.
results::Record failed_point(const RunContext& context, const Point& point, const std::string& why);

}  // namespace tw::bench
