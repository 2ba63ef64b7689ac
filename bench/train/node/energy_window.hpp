// What a window used on all nodes: one reader for each machine, gathered from everywhere.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "bench/node_power/node_power.hpp"
#include "bench/train/job/machines.hpp"
#include "comm/job.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

/// Opens a machine's meters on its reader, and GPUs that only another rank can address on that. Every other rank holds
/// an empty one. All of it is collective.
class EnergyWindow {
 public:
  /// `whole`: the window of a job that includes this job's ranks; its meters are shared instead of opened again.
  EnergyWindow(comm::Job& job, const Machines& machines, const power::MeterOptions& options = {},
               const EnergyWindow* whole = nullptr);
  const Machines& machines() const { return machines_; }
  /// Meters found on all nodes, with reasons.
  std::vector<results::MeterEntry> entries();
  /// What this rank looks after along the windows from now on (power/knob/knob_watch.hpp); null: nothing.
  void watch(power::KnobWatch* knobs);
  using Time = std::chrono::steady_clock::time_point;
  using ReadClock = std::function<Time()>;
  /// Returns on no rank before all meters are read: what `step_clock` shows then, with nothing but a clock's reading
  /// between that and the window's own stamp.
  Time begin(const ReadClock& step_clock = std::chrono::steady_clock::now);
  /// What `step_clock` shows at the call. Then reads the meters when all ranks have come here, and returns on no rank
  /// before that. Whoever keeps other books of a window does so before begin() and after end().
  Time end(const ReadClock& step_clock = std::chrono::steady_clock::now);
  /// While it lives the meters are read along a warm-up (NodePower::begin_warm_up). Not collective.
  class WarmUp {
   public:
    explicit WarmUp(EnergyWindow& energy);
    ~WarmUp();
    WarmUp(const WarmUp&) = delete;
    WarmUp& operator=(const WarmUp&) = delete;

   private:
    EnergyWindow& energy_;
  };
  /// Fills the trial's energy, series, counters, setting_changes, clock_skew_s and sampler_cpu_share from all nodes, on
  /// every rank. Reads back what watch() named, which may run a site's command: every rank must have read the window's
  /// CPU times before, and have met since.
  void collect(results::Trial& trial);
  /// The hottest sensor of all nodes, of the job's GPUs and the CPUs; nullopt if none answers. Between windows.
  std::optional<double> hottest_c();
  /// Power of the counted meters while all ranks sleep, for NodePower's idle_seconds(); no time is taken where no meter
  /// answers.
  std::vector<results::IdleRow> idle(results::IdleTime when);

 private:
  comm::Job& job_;
  const Machines& machines_;
  std::unique_ptr<NodePower> power_;  // of ranks with a part
  Time begin_, end_;                  // of this rank's steps
};

}  // namespace tw::bench
