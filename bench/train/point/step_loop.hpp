// One point's training on this rank, step by step.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/inventory/inventory.hpp"
#include "bench/train/point/measure_point.hpp"
#include "comm/bucketer.hpp"

namespace tw::bench {

/// Of one step, by the operators' names. Shares are of the step, or of the operators' sum where that is longer because
/// they overlap on several streams.
struct OperatorTimes {
  std::map<std::string, double> seconds, shares;
};
OperatorTimes operator_times(const models::OpProfile& profile, double step_seconds);

/// What this rank saw of one window.
struct Samples {
  std::vector<double> step_seconds, loss, gradient_norm;
  models::PhaseSeconds phases;  // summed over steps
  double window_seconds = 0;
  std::optional<double> start_seconds;  // since the launch began, where the context says when that was
  // Along the window: this rank's threads, and the whole node.
  double cpu_seconds = 0;
  std::optional<CpuTimes> node_before, node_after;
};

/// The ranks of `context.job` train together: but for the first, the functions are collective over it.
class PointRun {
 public:
  PointRun(RunContext& context, const Point& point);

  /// Everything that may fail for lack of memory or support; no collectives inside.
  void set_up(std::uint64_t seed);
  /// Throws Stop on all ranks where they cannot be connected.
  void connect();
  /// Until every rank's step time is flat, or a trial's length has passed, but for as many steps as were asked for;
  /// where a trial has a number of steps, that of the warm-up is exact.
  Samples warm_up();
  bool is_steady_at_start() const { return is_steady_; }
  /// Throws Stop on all ranks when a signal asked for the end.
  Samples window(int trial);
  /// From the first step's data to the first evaluation at or under the target, inside one window; or to the last step,
  /// or to a loss that is no number any more. Throws Stop likewise.
  Samples to_target(const results::Target& target, results::TargetRun& run);
  /// The operators of one step, measured apart because timing each costs time. Where steps run ahead, another step runs
  /// in front while the host enqueues this one.
  OperatorTimes profile();
  std::uint64_t planned_bytes() const { return steps_->planned_bytes(); }
  /// How the steps so far were run, on all ranks (collective).
  results::Execution execution() const;

 private:
  using Clock = std::chrono::steady_clock;
  std::optional<std::map<std::string, std::vector<std::string>>> implementations() const;
  Samples measured(const std::function<void(Samples&, Clock::time_point start)>& work);
  /// One more step: done and in the samples when it returns, or enqueued where steps run ahead.
  void step(Samples& samples);
  /// Waits for steps that were enqueued and takes their results; nothing where each is done at once.
  void settle(Samples& samples);
  /// How far ahead the host may go: half a second of steps, agreed upon by the ranks (collective).
  void keep_pace(const std::vector<double>& step_seconds);
  double seconds_since(Clock::time_point start) const;

  RunContext& context_;
  const Point& point_;
  std::unique_ptr<models::Stream> stream_;
  std::unique_ptr<StepSource> steps_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::unique_ptr<comm::Bucketer> bucketer_;
  models::GradientSync sync_;
  bool is_steady_ = true;
  models::StepResult last_;
  double step_pace_ = 0;  // seconds of a step as the warm-up's were, the slowest rank's; 0 if steps do not run ahead
};

/// The least of the slowest rank's seconds of a few steps behind the first, which builds things (collective): another
/// program's bursts make single ones many times as long. `more`: how many steps to time besides one that took so many
/// seconds; of a long one none. `measurement` is that of the context's plan.
double fastest_step(RunContext& context, const Point& point, Measurement& measurement,
                    const std::function<int(double)>& more);

/// Loss and error over the task's held-out samples, each rank its micro-batches of them, equal on all ranks
/// (collective); `time_s` is left at 0. Throws Stop{exit_interrupted} on all ranks when a signal asked for the end.
results::Evaluation evaluate_held_out(comm::Job& job, StepSource& steps, const Point& point);

/// The ranks' samples as one trial: the slowest rank's step times, mean losses, mean phases (collective).
results::Trial merge(comm::Job& job, EnergyWindow& energy, const Samples& mine);
/// The slowest rank's step times and length; when it began is the first rank's (collective).
results::WarmUp merge_warm_up(comm::Job& job, const Samples& mine);
/// The slowest rank's times of an evaluation that all shared (collective).
results::TargetRun merge(comm::Job& job, results::TargetRun run);

}  // namespace tw::bench
