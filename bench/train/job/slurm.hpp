// What a user has asked Slurm to set for the job: the state that a run finds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "power/knob/knob.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

/// Who asked for the state of a kind, and the values in the kind's unit; absent for a word ("medium"), which the node
/// resolves. Only an observation shows whether the site allowed it.
struct FoundSetting {
  std::string by;  ///< "slurm --cpu-freq=1500000-2400000:performance"
  std::optional<double> minimum, maximum;
  std::vector<results::SettingRow> devices;  ///< of a state that shows in no series: what each node has
};

/// `cpu_freq`: SLURM_CPU_FREQ_REQ, as --cpu-freq takes it: kHz, a word or a range of these, then ":" and a governor; or
/// a governor alone. `gpu_freq`: SLURM_GPU_FREQ, as --gpu-freq takes it: a clock in MHz or a word, "memory=" and the
/// same. Source: srun(1) and sbatch(1), ENVIRONMENT VARIABLES. Empty if not set. Unknown words have neither bound.
std::map<power::KnobKind, FoundSetting> slurm_settings(const std::string& cpu_freq, const std::string& gpu_freq);

/// Those of this process's environment, inside of a job; `hosts` have their governors. A step's own request (in
/// SLURMD_TRES_FREQ) comes before the job's.
std::map<power::KnobKind, FoundSetting> found_settings(const std::vector<results::HostInfo>& hosts);

}  // namespace tw::bench
