// Set points of one node, applied point by point of a sweep and put back at the end.
//
//   Guardian guardian;                                             // first thing in main
//   …                                                              // on one rank of a node:
//   Settings settings(find_knobs({site}), {.site = site});         // puts back what a killed run left
//   for (const Point& point : points) {
//     const auto applied = settings.apply({{KnobKind::gpu_clock, 1200}, {KnobKind::cpu_power_limit, 150}});
//     // any `reason` in it: the point is not_applied. Under load: settings.observe().
//   }
//   settings.apply({});                                            // everything as found
//
// Nothing is written before the journal is on disk, and a run that sets nothing keeps no journal and no lock. Signals:
// the program's handler sets a flag and nothing else; the settings are put back when the stack unwinds. What does not
// unwind (SIGKILL, abort, MPI_Abort) is the guardian's.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "power/knob/journal.hpp"
#include "power/knob/knob.hpp"
#include "power/knob/knob_watch.hpp"
#include "power/knob/restore.hpp"

namespace tw::power {

/// What became of one wanted value on one device.
struct AppliedSetting {
  KnobKind kind = KnobKind::gpu_clock;
  std::string domain = {};
  double requested = 0;
  std::optional<double> accepted = {};   ///< as it read back; absent: not applied, and put back as found
  std::string reason = {}, detail = {};  ///< then why: NotApplied's and KnobFinding's reasons, and a line for people
  /// What somebody else had set since the point before, for people: it is what will be put back.
  std::string foreign = {};
};

struct ObservedSetting {
  KnobKind kind = KnobKind::gpu_clock;
  std::string domain;
  std::optional<double> value;
};

struct SettingsOptions {
  std::filesystem::path site;                       ///< as given to find_knobs; a guardian and `restore` need it, too
  std::filesystem::path folder = journal_folder();  ///< of the journal
  KnobFinder find = find_knobs;                     ///< for what earlier runs have left
  std::chrono::milliseconds wait{10'000};           ///< for another's restoring to end
};

class Settings {
 public:
  /// First puts back what runs that are dead have left; recovered() has the result. Throws nothing for it: a
  /// run that sets nothing may go on.
  explicit Settings(std::vector<KnobFinding> found, SettingsOptions options = {});
  ~Settings();  ///< restore_all(); what failed stays in the journal, for `trainwatt restore`

  const std::vector<KnobFinding>& findings() const { return found_; }
  const RestoreSummary& recovered() const { return recovered_; }

  /// Before anything is measured: where a knob of these kinds can be turned, throws what apply() would throw for the
  /// folder, for what is in it, and for who holds it. Changes nothing but what a dead run has left.
  void check_journal(const std::set<KnobKind>& kinds);

  /// Brings all devices of each kind to its value, and what an earlier call has set and this one does not name back to
  /// what was found. One entry for each device, or for each finding that says why there is none; and one for each that
  /// is not named and is not as it was found again: "not_restored", or "left", since another program has changed it.
  /// Throws SettingsHeld if another run holds settings in this folder, or one of these devices in another,
  /// JournalError or std::system_error where the journal cannot be kept: before anything new was written to the
  /// hardware, or later, and then restore_all() puts back what was.
  std::vector<AppliedSetting> apply(const std::map<KnobKind, double>& wanted);

  /// What the hardware does now, for each setting in force; under load. Up to 0.1 s for each power cap.
  std::vector<ObservedSetting> observe();

  /// What must not change along a window: each setting in force as its set point left it, and each other knob that can
  /// be read as it is found then. Holds until the next apply() or restore_all().
  std::vector<KnobWatch::Watched> to_watch() const;

  /// Puts everything back; then the journal is gone and others may set. Does not throw for a knob that fails: see the
  /// outcome. Last applied first.
  std::vector<RestoredSetting> restore_all();

 private:
  struct Held {
    Knob* knob = nullptr;
    JournalEntry entry;
    std::optional<KnobState> ours = {};  ///< as the last set point left it
  };
  /// A knob that apply() sets.
  struct Turn {
    Knob* knob = nullptr;
    std::size_t result = 0;  ///< the place of its result
    KnobState before = {};   ///< as it was found by this apply()
  };
  std::vector<Turn> turns_of(const std::map<KnobKind, double>& wanted, std::vector<AppliedSetting>& results) const;
  void note_before(std::vector<Turn>& turns, std::vector<AppliedSetting>& results);
  void put_back_all_but(const std::map<KnobKind, double>& wanted, std::vector<AppliedSetting>& results);
  void turn(Turn& one, AppliedSetting& result);
  void note_after(const std::vector<Turn>& turns, const std::vector<AppliedSetting>& results);
  void keep_journal();
  void acquire();
  std::vector<std::filesystem::path> folders() const;
  JournalFolder claim(const std::vector<Knob*>& knobs);
  void write_journal();
  Held* held(const Knob* knob);
  /// Puts one back; it leaves held_ unless that failed.
  RestoredSetting release(std::size_t index);

  std::vector<KnobFinding> found_;
  SettingsOptions options_;
  RestoreSummary recovered_;
  std::optional<JournalFolder> folder_;  ///< locked while settings are in force
  std::vector<Held> held_;
};

}  // namespace tw::power
