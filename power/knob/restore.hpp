// Puts back what a journal says was found: by the run itself, by its guardian, by the next run, by `trainwatt restore`.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "power/knob/journal.hpp"
#include "power/knob/knob.hpp"

namespace tw::power {

using KnobFinder = std::function<std::vector<KnobFinding>(const KnobOptions&)>;

struct RestoredSetting {
  enum class Outcome {
    put_back,  ///< as found again
    as_found,  ///< was so already
    reset,     ///< has no getter: at the hardware's default now
    left,      ///< another program has changed it since
    absent,    ///< this process finds no such device: stays in the journal
    failed     ///< stays in the journal
  };
  KnobKind kind = KnobKind::gpu_clock;
  std::string domain;
  Outcome outcome = Outcome::as_found;
  std::string detail;  ///< for people: what was left, why it failed
  /// For people: what stood there where a run was killed while it set it, and nobody had read it back. Put back all the
  /// same, though somebody else may have set it since.
  std::string unread;
};
const char* to_string(RestoredSetting::Outcome outcome);

/// Never throws: what goes wrong is the outcome.
RestoredSetting put_back(Knob& knob, const JournalEntry& entry);

/// What became of one folder's journal.
struct RestoreReport {
  std::filesystem::path folder;
  Owner owner;                            ///< who had written it
  /// Written before a reboot, which nothing in it survives: no RAPL cap, which does where the reboot was a kexec.
  bool discarded = false;
  bool overruled = false;                 ///< the run that holds them still lives
  std::vector<RestoredSetting> settings;  ///< last applied first
  bool complete() const;                  ///< nothing absent or failed: the journal is gone
  const RestoredSetting* first_kept() const;  ///< the first that is absent or failed; null if none is
};

/// Whether a folder's lock is that of the run whose journal is in it, and that run is not known to be dead. Somebody
/// who puts back what a dead run left has the lock a moment before its file says so: what it says is believed when it
/// says so twice. In between the lock is tried: where this gets it, it is held, and the answer is false.
bool is_held_by_a_run(JournalFolder& folder);

/// "/run/trainwatt: settings are held by trainwatt-train, process 4711 of user 0, which still runs (gpu_clock_mhz 990
/// of …)"; of one that is dead, that another process has its lock.
std::string who_holds(const JournalFolder& folder);

/// The folder must be locked by the caller (or its owner be overruled). nullopt if it has no journal. What failed
/// stays in it. Throws as JournalFolder's functions.
std::optional<RestoreReport> restore_from(const JournalFolder& folder, const KnobFinder& find);

struct RestoreOptions {
  std::vector<std::filesystem::path> folders = journal_folders();
  KnobFinder find = find_knobs;
  std::optional<Owner> only_of;            ///< journals of this process alone
  bool even_if_held = false;               ///< also where the run that holds the settings still lives
  std::chrono::milliseconds wait{10'000};  ///< for another restorer at work; a living owner is not waited for
};

struct RestoreSummary {
  std::vector<RestoreReport> reports;  ///< one for each journal that was there
  std::vector<std::string> problems;   ///< for people: a journal that is held, or is not trusted
  std::vector<std::string> held;       ///< those of these that a run which still lives is the cause of
  std::vector<std::string> locked;     ///< those of these that go when another process lets go of its lock
  bool complete() const;
};

/// All folders, one after the other; a folder with a problem does not keep the others from theirs. Throws nothing but
/// std::bad_alloc.
RestoreSummary restore_journals(const RestoreOptions& options = {});

}  // namespace tw::power
