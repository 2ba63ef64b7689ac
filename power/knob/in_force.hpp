// Settings in force according to the journals on this node, for users who are about to measure.
//
// Looks at all folders in which runs journal what they set: this user's, and those of others as far as they may be
// read (root's is readable by all; root reads everybody's). Nothing is touched, and what others wrote is told, never
// acted upon.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "power/knob/journal.hpp"
#include "power/knob/restore.hpp"

namespace tw::power {

struct SettingsInForce {
  std::filesystem::path folder;
  Journal journal;         ///< of an earlier boot those entries alone that a kexec may have left in force: RAPL's caps
  Life life = Life::dead;  ///< of the run; dead: it has left them
  bool ours = false;       ///< in a folder of this user's, which `trainwatt restore` looks at
  bool earlier_boot = false;    ///< they may be in force, or not
  std::string unreadable = {};  ///< why nothing is known of them; then the journal is empty
};

/// One for each journal of this boot, for each of an earlier one with a power cap, and for each that tells nothing.
std::vector<SettingsInForce> settings_in_force();

/// "/run/trainwatt: gpu_clock_mhz 990 of nvml:GPU-…, held by trainwatt-train, process 4711 of user 0, which still runs"
std::string describe(const SettingsInForce& settings);
/// ": `trainwatt restore` restores them", or what else to do; empty if there is nothing.
std::string remedy(const SettingsInForce& settings);

/// Warnings of `host` about them: of runs that still work, or of other users; nothing of this process's own, and of
/// this user's living runs only where `with_ours`. What this user's dead runs have left restoring speaks of.
std::vector<std::string> warnings_in_force(const std::string& host, bool with_ours);

/// "restored: HOST: gpu_clock_mhz of nvml:GPU-…, left by …: reset", or "not restored: HOST: …" with what to do.
std::string restored_line(const std::string& host, const RestoreReport& report, const RestoredSetting& setting);

/// For a measurement that sets nothing: puts back what dead runs of this user have left, and says so, or why not, and
/// what is in force all the same.
std::vector<std::string> settle_before_measuring(const std::string& host);

}  // namespace tw::power
