// One node's joules, time series and counters along a window, as the rows of a record. Knows nothing of
// ranks: one process of a node holds it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "power/knob/knob_watch.hpp"
#include "power/meter/energy_meter.hpp"
#include "power/meter/ledger.hpp"
#include "power/telemetry/telemetry.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

/// Which GPUs ("nvml:GPU-…", "amdgpu:0000:c1:00.0") a process reads for its node.
struct GpuChoice {
  /// The job's. Others are read, but not counted, and have no telemetry: their heat and their errors are not the job's.
  std::optional<std::set<std::string>> visible;
  std::optional<std::set<std::string>> only;  ///< nothing but these is read: the rest is another process's
  /// What the job may use and no process reads: each leaves a hole in the device scope, so that its joules are absent.
  struct Unread {
    std::string domain, reason, detail;
  };
  std::vector<Unread> unread = {};
};

/// What of the findings is read; of what is read and not counted, `reason` becomes "not_visible". Cray's counters of
/// accelerators have no names that ranks know: they are the job's where all GPUs of the node are.
std::vector<power::MeterFinding> choose(std::vector<power::MeterFinding> findings, const GpuChoice& gpus);
std::vector<power::TelemetryFinding> choose(std::vector<power::TelemetryFinding> findings, const GpuChoice& gpus);
/// The former for find_meters().
power::ChooseMeters choosing(GpuChoice gpus);
/// What a run of one process that is started here would choose.
GpuChoice choice_here();

/// A sensor's window as a record has it.
results::EnergyRow energy_row(const power::LedgerRow& from, const std::string& host);

class NodePower {
 public:
  /// Looks for meters and telemetry; takes up to two seconds a source. `host` goes into each row.
  explicit NodePower(std::string host, const power::MeterOptions& options = {}, const GpuChoice& gpus = {});
  ~NodePower();
  /// The same meters, opened once, for fewer of the node's GPUs; not in a window at the same time. Null if what is
  /// counted would have to be decided anew: where another process reads some of the GPUs, or Cray's counters of
  /// accelerators count.
  std::unique_ptr<NodePower> share(std::string host, const GpuChoice& gpus) const;

  /// What was found, with reasons for what was not; of a counted meter that others' joules may be in: "shared".
  std::vector<results::MeterEntry> entries() const;
  /// Whether any meter is counted.
  bool has_meter() const;

  /// What is to stay as it is along the windows from now on; null: nothing. It must outlive them.
  void watch(power::KnobWatch* knobs);
  void begin();
  void end();
  /// After end(), for collect(): reads what is watched once more. That may run a site's command, so CPU times of the
  /// window are read before it.
  void end_watch();
  /// Reads the meters along a warm-up: how long a counter may go without an update is then known better. Not between
  /// begin() and end().
  void begin_warm_up();
  void end_warm_up();
  /// Fills energy, series, counters, setting_changes, clock_skew_s and sampler_cpu_share of the last window; appends to
  /// what is there.
  /// What was measured ran from `first_step` to `last_step`, between begin()'s return and end()'s call. clock_skew_s is
  /// how far that lies from the readings' outer edges (before the first reading of begin(), after the last of end()),
  /// both distances added, in whole nanoseconds and rounded up. So no meter's window differs from the measured one by
  /// more. It is part of each uncertainty.
  void collect(results::Trial& trial, std::chrono::steady_clock::time_point first_step,
               std::chrono::steady_clock::time_point last_step) const;
  /// The highest temperature that a sensor shows now, of CPUs and of GPUs that are the job's; nullopt if none
  /// answers. Not between begin() and end().
  std::optional<double> hottest_c() const;
  /// How long idle power is to be measured: a second; two update periods where a counted meter is slower; ten seconds
  /// at most.
  double idle_seconds() const;
  /// Mean power of each counted meter between begin() and end(), with nothing of ours running.
  std::vector<results::IdleRow> idle(results::IdleTime when) const;

 private:
  struct Impl;
  explicit NodePower(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A line for people on each counted meter that others' joules may be in, for the flag `shared_device`.
std::vector<std::string> shared_devices(const std::vector<results::MeterEntry>& meters);

}  // namespace tw::bench
