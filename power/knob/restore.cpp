#include "power/knob/restore.hpp"

#include <algorithm>
#include <exception>

namespace tw::power {

const char* to_string(RestoredSetting::Outcome outcome) {
  static constexpr const char* names[] = {"restored", "as found", "reset", "left", "absent", "failed"};
  return names[static_cast<std::size_t>(outcome)];
}

RestoredSetting put_back(Knob& knob, const JournalEntry& entry) {
  using Outcome = RestoredSetting::Outcome;
  RestoredSetting setting{entry.kind, entry.domain, Outcome::as_found, {}, {}};
  try {
    std::string unread;
    const auto under_way = [](const Attempt& attempt) { return attempt.before.has_value(); };
    if (std::ranges::any_of(entry.attempts, under_way))
      for (const auto& [key, value] : knob.save())
        if (const auto old = entry.found.find(key); old == entry.found.end() || old->second != value)
          unread += (unread.empty() ? "" : ", ") + key + " = " + value;
    const PutBack done = knob.put_back(entry.found, entry.attempts);
    setting.outcome = done.changed && done.reset ? Outcome::reset
                      : done.changed             ? Outcome::put_back
                      : !done.left.empty()       ? Outcome::left
                                                 : Outcome::as_found;
    setting.detail = done.left;
    if (setting.outcome == Outcome::put_back) setting.unread = std::move(unread);
  } catch (const std::exception& error) {
    setting.outcome = Outcome::failed;
    setting.detail = error.what();
  }
  return setting;
}

namespace {

bool is_kept(const RestoredSetting& setting) {
  return setting.outcome == RestoredSetting::Outcome::absent || setting.outcome == RestoredSetting::Outcome::failed;
}

void restore_folder(const std::filesystem::path& path, const RestoreOptions& options, RestoreSummary& summary) {
  std::optional<JournalFolder> folder = JournalFolder::open(path, false);
  if (!folder) return;
  const auto deadline = std::chrono::steady_clock::now() + options.wait;
  bool alive = false;
  for (;;) {
    const std::optional<Journal> journal = folder->read();
    if (!journal || (options.only_of && !(*options.only_of == journal->owner))) return;
    alive = false;
    if (folder->lock(std::chrono::milliseconds(0))) break;
    alive = is_held_by_a_run(*folder);
    if (alive && options.even_if_held) break;
    // The guardian sees its run's end a moment before the run's lock is gone.
    if ((alive && !options.only_of) || (!folder->locked() && std::chrono::steady_clock::now() >= deadline)) {
      summary.problems.push_back(who_holds(*folder));
      if (alive) summary.held.push_back(summary.problems.back());
      summary.locked.push_back(summary.problems.back());
      return;
    }
    folder->lock(std::chrono::milliseconds(50));
  }
  if (auto report = restore_from(*folder, options.find)) {
    report->overruled = alive;
    summary.reports.push_back(std::move(*report));
  }
}

}  // namespace

bool RestoreReport::complete() const { return first_kept() == nullptr; }

const RestoredSetting* RestoreReport::first_kept() const {
  const auto kept = std::ranges::find_if(settings, is_kept);
  return kept == settings.end() ? nullptr : &*kept;
}

bool is_held_by_a_run(JournalFolder& folder) {
  constexpr int looks = 2;
  for (int look = 0; look < looks; ++look) {
    if (look > 0 && folder.lock(std::chrono::milliseconds(50))) return false;
    const std::optional<Owner> holder = folder.lock_owner();
    const std::optional<Journal> journal = folder.read();
    if (!holder || !journal || !(*holder == journal->owner) || life_of(*holder) == Life::dead) return false;
  }
  return true;
}

std::string who_holds(const JournalFolder& folder) {
  const std::optional<Owner> holder = folder.lock_owner();
  const std::optional<Journal> journal = glance_at_journal(folder.path()).journal;
  const std::string lock = (folder.path() / "lock").string(), values = journal ? " (" + values_of(*journal) + ")" : "";
  const Life life = holder ? life_of(*holder) : Life::dead;
  if (life == Life::dead)
    return folder.path().string() + ": settings" + (holder ? " of " + describe(*holder) + ", which is dead," : "") +
           " cannot be restored while another process has the lock" + values + ": `fuser " + lock + "` names it";
  return folder.path().string() + ": settings are held by " + describe(*holder) +
         (life == Life::living ? ", which still runs" : ", whose process is not visible from here but holds the lock") +
         values;
}

bool RestoreSummary::complete() const {
  return problems.empty() && std::ranges::all_of(reports, &RestoreReport::complete);
}

std::optional<RestoreReport> restore_from(const JournalFolder& folder, const KnobFinder& find) {
  std::optional<Journal> journal = folder.read();
  if (!journal) return std::nullopt;
  RestoreReport report;
  report.folder = folder.path();
  report.owner = journal->owner;
  const bool is_of_this_boot = journal->boot_id == boot_id();
  if (!is_of_this_boot) {
    // A cap in a register stays over kexec, which is another boot, too: it is put back where it is still ours.
    std::erase_if(journal->entries, [](const JournalEntry& entry) { return entry.kind != KnobKind::cpu_power_limit; });
    for (JournalEntry& entry : journal->entries)
      for (Attempt& attempt : entry.attempts) attempt.before.reset();  // what was not read back cannot be ours
  }
  if (journal->entries.empty() && !is_of_this_boot) {
    report.discarded = true;
    folder.remove();
    return report;
  }
  std::vector<KnobFinding> knobs;
  RestoredSetting::Outcome without_device = RestoredSetting::Outcome::absent;
  std::string obstacle = "the device no longer exists, or this process may not use it";
  try {
    knobs = find({journal->site, journal->programs});
  } catch (const std::exception& error) {  // the site's file: what needs no command of it is put back all the same
    without_device = RestoredSetting::Outcome::failed;
    obstacle = error.what();
    knobs = find({});
  }
  std::vector<JournalEntry> failed;
  for (auto entry = journal->entries.rbegin(); entry != journal->entries.rend(); ++entry) {
    const auto finding = std::ranges::find_if(knobs, [&](const KnobFinding& one) {
      return one.knob && one.kind == entry->kind && one.domain == entry->domain;
    });
    if (finding == knobs.end()) {
      report.settings.push_back({entry->kind, entry->domain, without_device, obstacle, {}});
    } else {
      report.settings.push_back(put_back(*finding->knob, *entry));
    }
    const bool is_gone = report.settings.back().outcome == RestoredSetting::Outcome::absent && !is_of_this_boot;
    if (is_gone)
      report.settings.pop_back();
    else if (is_kept(report.settings.back()))
      failed.push_back(*entry);
  }
  if (failed.empty()) {
    folder.remove();
  } else {
    std::ranges::reverse(failed);
    journal->entries = std::move(failed);
    folder.write(*journal);
  }
  return report;
}
RestoreSummary restore_journals(const RestoreOptions& options) {
  RestoreSummary summary;
  for (const std::filesystem::path& folder : options.folders) {
    try {
      restore_folder(folder, options, summary);
    } catch (const std::exception& error) {
      summary.problems.push_back(error.what());
    }
  }
  return summary;
}

}  // namespace tw::power
