#include "power/knob/settings.hpp"

#include <algorithm>
#include <exception>
#include <iterator>

#include "power/knob/site.hpp"

namespace tw::power {
namespace {

/// Notes what a call that threw has left: that is ours all the same, also for a guardian that comes in between.
void close_refused(Knob& knob, Attempt& attempt) {
  try {
    for (const auto& [key, value] : knob.save())
      if (attempt.has_left(key, value)) attempt.refused[key] = value;
    attempt.before.reset();
  } catch (const std::exception&) {  // what it left has not been read: as if it were under way
  }
}

/// nullopt if it cannot be read.
std::optional<KnobState> state_of(Knob& knob) {
  try {
    return knob.save();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Settings::Settings(std::vector<KnobFinding> found, SettingsOptions options)
    : found_(std::move(found)), options_(std::move(options)) {
  if (!options_.site.empty()) options_.site = std::filesystem::absolute(options_.site);
  RestoreOptions restore;
  restore.folders = folders();
  restore.find = options_.find;
  restore.wait = options_.wait;
  recovered_ = restore_journals(restore);
}

Settings::~Settings() {
  try {
    restore_all();
  } catch (...) {  // the journal names what is left
  }
}

/// The lock, and no journal of anybody else.
void Settings::acquire() {
  if (folder_) return;
  std::optional<JournalFolder> folder = JournalFolder::open(options_.folder, true);
  bool mine = folder->lock(std::chrono::milliseconds(0));
  // A run at work is not waited for; somebody who puts back what a dead one left is.
  if (!mine) mine = !is_held_by_a_run(*folder) && folder->lock(options_.wait);
  if (!mine) throw SettingsHeld(who_holds(*folder));
  if (const auto report = restore_from(*folder, options_.find)) {
    recovered_.reports.push_back(*report);
    if (const RestoredSetting* kept = report->first_kept())
      throw JournalError(options_.folder.string() + ": settings of a dead run (" + describe(report->owner) +
                         ") cannot be restored: " + to_string(kept->kind) + " of " + kept->domain + ": " +
                         kept->detail + "; run trainwatt restore");
  }
  folder_.emplace(std::move(*folder));
}

void Settings::check_journal(const std::set<KnobKind>& kinds) {
  std::vector<Knob*> knobs;
  for (const KnobFinding& one : found_)
    if (one.knob && one.reason.empty() && kinds.count(one.kind) > 0) knobs.push_back(one.knob.get());
  if (knobs.empty() || folder_) return;
  acquire();
  try {
    claim(knobs);
  } catch (...) {
    folder_.reset();
    throw;
  }
  folder_.reset();
}

std::vector<std::filesystem::path> Settings::folders() const {
  std::vector<std::filesystem::path> all = journal_folders();
  if (std::ranges::find(all, options_.folder) == all.end()) all.push_back(options_.folder);
  return all;
}

/// What other folders name of these knobs is put back where its run is dead; where it lives, SettingsHeld. Until what
/// is returned goes away, no other run can say that it will set them.
JournalFolder Settings::claim(const std::vector<Knob*>& knobs) {
  JournalFolder door = *JournalFolder::open(journal_folder(), true);
  if (!door.close_door(options_.wait))
    throw SettingsHeld(door.path().string() + ": another run has held the lock for settings for too long: `fuser " +
                       (door.path() / "door").string() + "` names it");
  const auto is_ours = [&](const JournalEntry& entry) {
    return std::ranges::any_of(knobs, [&](Knob* knob) {
      return knob->kind() == entry.kind &&
             (knob->domain() == entry.domain || knob->domain() == site::whole_node || entry.domain == site::whole_node);
    });
  };
  RestoreOptions restore;
  restore.find = options_.find;
  restore.wait = options_.wait;
  for (const std::filesystem::path& path : folders()) {
    if (path == options_.folder) continue;
    const std::optional<JournalFolder> folder = JournalFolder::open(path, false);
    const std::optional<Journal> journal = folder ? folder->read() : std::nullopt;
    if (!journal || std::ranges::none_of(journal->entries, is_ours)) continue;
    restore.folders = {path};
    RestoreSummary summary = restore_journals(restore);
    if (!summary.problems.empty()) throw SettingsHeld(summary.problems.front());
    if (!summary.complete())
      throw JournalError(path.string() + ": settings of a dead run (" + describe(journal->owner) +
                         ") cannot be restored: run trainwatt restore");
    std::move(summary.reports.begin(), summary.reports.end(), std::back_inserter(recovered_.reports));
  }
  return door;
}

void Settings::write_journal() {
  Journal journal{boot_id(), this_process(), options_.site, {}};
  for (const Held& one : held_) {
    journal.entries.push_back(one.entry);
    journal.programs.merge(one.knob->programs());
  }
  folder_->write(journal);
}

Settings::Held* Settings::held(const Knob* knob) {
  const auto one = std::ranges::find(held_, knob, &Held::knob);
  return one == held_.end() ? nullptr : &*one;
}

RestoredSetting Settings::release(std::size_t index) {
  const RestoredSetting setting = put_back(*held_[index].knob, held_[index].entry);
  if (setting.outcome != RestoredSetting::Outcome::failed)
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
  return setting;
}

std::vector<AppliedSetting> Settings::apply(const std::map<KnobKind, double>& wanted) {
  std::vector<AppliedSetting> results;
  std::vector<Turn> turns = turns_of(wanted, results);
  if (turns.empty() && held_.empty()) return results;
  acquire();
  note_before(turns, results);
  put_back_all_but(wanted, results);
  for (Turn& one : turns) turn(one, results[one.result]);
  note_after(turns, results);
  keep_journal();
  return results;
}

/// A result for each device of each kind, and a turn for each of them that has a knob.
std::vector<Settings::Turn> Settings::turns_of(const std::map<KnobKind, double>& wanted,
                                               std::vector<AppliedSetting>& results) const {
  std::vector<Turn> turns;
  for (const auto& [kind, value] : wanted) {
    const std::size_t before = results.size();
    for (const KnobFinding& finding : found_) {
      if (finding.kind != kind) continue;
      results.push_back({.kind = kind,
                         .domain = finding.domain,
                         .requested = value,
                         .reason = finding.reason,
                         .detail = finding.detail});
      if (finding.knob && finding.reason.empty())
        turns.push_back({.knob = finding.knob.get(), .result = results.size() - 1});
    }
    if (results.size() == before)
      results.push_back(
          {.kind = kind, .requested = value, .reason = "unsupported", .detail = "this build has no such knob"});
  }
  return turns;
}

/// The journal first: what was found, and what is about to be written. A knob whose state cannot be read loses its
/// turn.
void Settings::note_before(std::vector<Turn>& turns, std::vector<AppliedSetting>& results) {
  std::vector<Knob*> fresh;
  for (const Turn& one : turns)
    if (!held(one.knob)) fresh.push_back(one.knob);
  std::optional<JournalFolder> door;
  try {
    if (!fresh.empty()) door.emplace(claim(fresh));
  } catch (...) {
    if (held_.empty()) folder_.reset();
    throw;
  }
  std::erase_if(turns, [&](Turn& one) {
    AppliedSetting& result = results[one.result];
    try {
      one.before = one.knob->save();
      Held* its = held(one.knob);
      if (!its) {
        held_.push_back({one.knob, {result.kind, result.domain, one.before, {}}});
        its = &held_.back();
      } else if (its->ours) {
        result.foreign = one.knob->adopt(its->entry.found, *its->ours, one.before);
      }
      its->entry.attempts.push_back({result.requested, std::nullopt});
      return false;
    } catch (const std::exception& error) {
      result.reason = "unsupported";
      result.detail = error.what();
      return true;
    }
  });
  try {
    write_journal();
  } catch (...) {
    std::erase_if(held_, [&](const Held& one) { return std::ranges::find(fresh, one.knob) != fresh.end(); });
    for (Held& one : held_)
      if (!one.entry.attempts.empty() && !one.entry.attempts.back().accepted) one.entry.attempts.pop_back();
    if (held_.empty()) folder_.reset();
    throw;
  }
}

void Settings::put_back_all_but(const std::map<KnobKind, double>& wanted, std::vector<AppliedSetting>& results) {
  for (std::size_t i = held_.size(); i-- > 0;) {
    if (wanted.contains(held_[i].entry.kind)) continue;
    const RestoredSetting back = release(i);
    const bool failed = back.outcome == RestoredSetting::Outcome::failed;
    if (failed || !back.detail.empty())
      results.push_back({.kind = back.kind,
                         .domain = back.domain,
                         .reason = failed ? "not_restored" : "left",
                         .detail = back.detail});
  }
}

/// Sets one knob; what it refuses is put back.
void Settings::turn(Turn& one, AppliedSetting& result) {
  Held& its = *held(one.knob);
  Attempt& attempt = its.entry.attempts.back();
  // A guardian is to know whose turn it is, and each value that is in force by now.
  attempt.before = std::move(one.before);
  its.ours.reset();
  write_journal();
  const bool set_before =
      std::ranges::any_of(its.entry.attempts, [](const Attempt& earlier) { return earlier.accepted.has_value(); });
  try {
    result.accepted = one.knob->set(result.requested);
    its.entry.attempts = {{result.requested, result.accepted}};
    its.ours = state_of(*one.knob);
    return;
  } catch (const NotApplied& error) {
    result.reason = error.reason;
    result.detail = error.what();
  } catch (const std::exception& error) {
    result.reason = "unsupported";
    result.detail = error.what();
  }
  close_refused(*one.knob, attempt);
  write_journal();
  const std::ptrdiff_t index = &its - held_.data();
  const RestoredSetting back = release(static_cast<std::size_t>(index));
  if (back.outcome == RestoredSetting::Outcome::failed && result.reason == "permission" && !set_before)
    held_.erase(held_.begin() + index);  // who may not set has changed nothing, and need not be able to reset
  else if (back.outcome == RestoredSetting::Outcome::failed)
    result.detail += "; restoring it failed: " + back.detail;
  else if (back.outcome == RestoredSetting::Outcome::left)
    result.detail += "; someone else has set " + back.detail;
}

/// What was set later may have moved a value that is not itself a set point. A set point that moved is not ours.
void Settings::note_after(const std::vector<Turn>& turns, const std::vector<AppliedSetting>& results) {
  for (std::size_t i = 0; i + 1 < turns.size(); ++i) {
    Knob* const knob = turns[i].knob;
    const AppliedSetting& result = results[turns[i].result];
    if (!result.accepted) continue;
    try {
      KnobState now = knob->save();
      if (knob->is_ours(result.requested, *result.accepted)) held(knob)->ours = std::move(now);
    } catch (const std::exception&) {  // unreadable now: what was read after the call counts
    }
  }
}

/// Writes the journal, or removes it where nothing is held any more.
void Settings::keep_journal() {
  if (!held_.empty()) return write_journal();
  folder_->remove();
  folder_.reset();
}

std::vector<ObservedSetting> Settings::observe() {
  std::vector<ObservedSetting> observed;
  for (const Held& one : held_) {
    ObservedSetting setting{one.entry.kind, one.entry.domain, std::nullopt};
    try {
      setting.value = one.knob->observe();
    } catch (const std::exception&) {  // unreadable now: said by the empty value
    }
    observed.push_back(std::move(setting));
  }
  return observed;
}

std::vector<KnobWatch::Watched> Settings::to_watch() const {
  std::vector<KnobWatch::Watched> knobs;
  for (const KnobFinding& finding : found_) {
    if (!finding.knob) continue;
    const auto one = std::ranges::find(held_, finding.knob.get(), &Held::knob);
    if (one == held_.end())
      knobs.push_back({finding.knob.get()});
    else
      knobs.push_back({one->knob, one->ours, true});
  }
  return knobs;
}

std::vector<RestoredSetting> Settings::restore_all() {
  std::vector<RestoredSetting> settings;
  if (!folder_) return settings;
  for (std::size_t i = held_.size(); i-- > 0;) settings.push_back(release(i));
  keep_journal();
  return settings;
}

}  // namespace tw::power
