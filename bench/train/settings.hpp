// Clocks and power limits of a whole job: applied by one rank of each node, agreed upon by all.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/job.hpp"
#include "power/knob.hpp"
#include "results/record.hpp"

namespace tw {

struct JobSettingsOptions {
  std::string site;    ///< file of a site's own commands; empty: none
  bool force = false;  ///< set clocks also where somebody else's lock is evident
  std::set<KnobKind> kinds;  ///< that the plan sets
};

class JobSettings {
 public:
  /// Looks for knobs on the node leaders and first puts back what killed runs left (collective). Where the node has GPUs
  /// that CUDA_VISIBLE_DEVICES hides from the job, their knobs are not touched. Throws Stop{exit_environment} on all ranks
  /// where a clock lock is evident that could not be put back, unless forced.
  JobSettings(Job& job, const JobSettingsOptions& options);
  ~JobSettings();  ///< everything as found

  /// Lines about what was put back at the start, from all nodes (collective).
  std::vector<std::string> recovered();
  /// Brings all nodes to these set points, and everything else back to what was found (collective). By name of the kind;
  /// a device that did not take its value has no `accepted` but a reason. Throws Stop on all ranks where settings are held by
  /// another run or cannot be journalled.
  std::map<std::string, Setting> apply(const std::map<KnobKind, double>& wanted);
  /// Everything as found; lines about what could not be put back (collective).
  std::vector<std::string> restore();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Fills `observed` of each device from what the trials saw of it: the mean clock of its series, its joules over time.
void observe_settings(std::map<std::string, Setting>& settings, const std::vector<Trial>& trials);

}  // namespace tw
