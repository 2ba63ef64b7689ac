// Clocks and power limits of a whole job: applied by one rank of each node, agreed upon by all.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bench/train/job/machines.hpp"
#include "bench/train/job/slurm.hpp"
#include "comm/job.hpp"
#include "power/knob/guardian.hpp"
#include "power/knob/knob_watch.hpp"
#include "power/knob/restore.hpp"
#include "power/knob/settings.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

struct JobSettingsOptions {
  std::string site;    ///< file of a site's own commands; empty: none
  bool force = false;  ///< set clocks also where another program's lock is evident
  std::set<power::KnobKind> kinds;  ///< that the plan sets
  bool sets = true;          ///< whether it sets any; otherwise knobs are only put back, and read along the windows
  power::KnobFinder find = power::find_knobs;
};

class JobSettings {
 public:
  /// Looks for knobs on each machine's reader, and on ranks for GPUs that only they can address; first restores what
  /// killed runs left (collective). GPUs that CUDA_VISIBLE_DEVICES hides from all ranks of a machine are not touched.
  /// Throws Stop{exit_environment} on all ranks if a clock is locked that could not be restored, unless forced.
  /// Its end restores everything.
  JobSettings(comm::Job& job, const Machines& machines, const JobSettingsOptions& options);

  /// Lines for people, from all nodes, about what has happened since the last call beside what was asked for: what dead
  /// runs had left, at the start or later; what another program has set meanwhile; what could not be put back
  /// (collective).
  std::vector<std::string> news();
  /// Notes for news() what other runs have in force beside this one (not collective).
  void look_beside();
  /// What this rank reads back along the windows of the point that begins: what was set last, and what is to stay as
  /// found. Null if it has no part. Until the next apply() or restore() (not collective).
  power::KnobWatch* watch();
  /// Notes for news(), once, where the guardian has died (not collective).
  void look_after(power::Guardian& guardian);
  /// Applies these set points on all nodes, and restores everything else (collective). By name of the kind; a device
  /// that did not accept its value has a reason instead of `accepted`. Throws Stop on all ranks if another run holds
  /// the settings, or if they cannot be journalled.
  std::map<std::string, results::Setting> apply(const std::map<power::KnobKind, double>& wanted);
  /// Fills `observed` of what is a state and shows in no series: the governors in force (collective).
  void observe(std::map<std::string, results::Setting>& settings);
  /// Everything as found (collective). False if something could not be put back on some node, so that it stays in a
  /// journal there: that, and what was left since another program has changed it, is in news().
  bool restore();

 private:
  /// What this rank's knobs made of the wanted values; notes what other programs have changed.
  std::map<std::string, results::Setting> apply_here(const std::map<power::KnobKind, double>& wanted);

  comm::Job& job_;
  std::string host_;
  std::optional<power::Settings> settings_;           // on ranks with a part
  std::vector<std::string> lines_;                    // not told yet
  std::size_t reports_told_ = 0, problems_told_ = 0;  // of settings_->recovered()
  bool sets_ = false;                                 // anything at all
  std::set<std::string> seen_beside_;
  power::KnobWatch watch_;
  bool has_lost_guardian_ = false;
};

/// Notes who had asked for the state that was found, for each kind that the plan leaves as it is.
void note_found(std::map<std::string, results::Setting>& settings,
                const std::map<power::KnobKind, FoundSetting>& found);

/// Fills `observed` of each device from what the trials saw of it: the mean clock of its series, its joules over time.
/// What a site's command without a domain has set is compared with all devices of its kind: the one farthest off, the
/// highest power.
/// Of a found setting the devices are those that the series show, of GPUs those in `gpus`.
void observe_settings(std::map<std::string, results::Setting>& settings, const std::vector<results::Trial>& trials,
                      const std::set<std::string>& gpus = {});

}  // namespace tw::bench
