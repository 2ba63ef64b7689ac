#include "power/knob/in_force.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tw::power {
namespace {

namespace fs = std::filesystem;

/// Whether somebody has the folder's lock: a run in another PID namespace is not found by its number. nullopt if it
/// may not be looked at.
std::optional<bool> is_locked(const fs::path& folder) {
  const Descriptor file(open((folder / "lock").c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return errno == EACCES ? std::nullopt : std::optional(false);
  return flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

bool is_this_users(const fs::path& folder) {
  struct stat status {};
  return lstat(folder.c_str(), &status) == 0 && status.st_uid == geteuid();
}

struct Warning {
  fs::path folder;
  std::string text;
};

std::vector<Warning> warnings_by_folder(const std::string& host, bool with_ours) {
  std::vector<Warning> warnings;
  for (const SettingsInForce& one : settings_in_force()) {
    const bool is_left = one.life == Life::dead;
    if (one.journal.owner == this_process() || (one.ours && (is_left || !with_ours))) continue;
    const char* what = !one.unreadable.empty() ? "perhaps under settings of another user: "
                       : one.earlier_boot      ? "perhaps under a power cap from before a kexec: "
                       : is_left               ? "under settings left by a dead run: "
                                               : "under settings of another run: ";
    const char* wait = is_left ? "" : ": to measure without them, wait until it ends";
    warnings.push_back({one.folder, what + host + ": " + describe(one) + remedy(one) + wait});
  }
  return warnings;
}

}  // namespace

std::vector<SettingsInForce> settings_in_force() {
  std::vector<SettingsInForce> all;
  const std::string boot = boot_id();
  const auto add = [&](const fs::path& folder, Glance seen, bool ours) {
    if (!seen.journal && seen.unreadable.empty()) return;
    SettingsInForce one;
    one.folder = folder, one.ours = ours, one.unreadable = std::move(seen.unreadable);
    if (!seen.journal) return all.push_back(std::move(one));
    one.journal = std::move(*seen.journal);
    one.earlier_boot = one.journal.boot_id != boot;
    if (one.earlier_boot)
      std::erase_if(one.journal.entries,
                    [](const JournalEntry& entry) { return entry.kind != KnobKind::cpu_power_limit; });
    if (one.earlier_boot && one.journal.entries.empty()) return;
    if (!one.earlier_boot) one.life = life_of(one.journal.owner);
    if (one.life == Life::unknown)
      if (const auto locked = is_locked(folder)) one.life = *locked ? Life::living : Life::dead;
    all.push_back(std::move(one));
  };
  for (const fs::path& folder : journal_folders()) add(folder, glance_at_journal(folder), is_this_users(folder));
  const OtherFolders others = other_journal_folders();
  for (const OtherFolders::Folder& folder : others.folders) add(folder.path, glance_at_journal(folder), false);
  if (others.left_out > 0)
    add("/tmp", {{}, std::to_string(others.left_out) + " more trainwatt folders were not checked"}, false);
  return all;
}

std::string describe(const SettingsInForce& settings) {
  const Owner& owner = settings.journal.owner;
  std::string text = settings.folder.string() + ": ";
  if (!settings.unreadable.empty())
    text += "journal unreadable: " + settings.unreadable;
  else if (settings.earlier_boot)
    text +=
        values_of(settings.journal) + ", set before this boot by " + describe(owner) + ": a kexec leaves it in force";
  else
    text += values_of(settings.journal) + (settings.life == Life::dead ? ", left by " : ", held by ") +
            describe(owner) +
            (settings.life == Life::dead     ? ", which is dead"
             : settings.life == Life::living ? ", which still runs"
                                             : ", which may still run: its process cannot be seen from here");
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';  // another user's words, on a terminal
  return text;
}

std::string remedy(const SettingsInForce& settings) {
  if (settings.life != Life::dead || (settings.ours && !settings.unreadable.empty())) return "";
  if (!settings.unreadable.empty()) return ": its settings are unknown";
  return settings.ours ? ": the next run, or `trainwatt restore`, restores them"
                       : ": `trainwatt restore` of that user, in that environment, restores them";
}

std::vector<std::string> warnings_in_force(const std::string& host, bool with_ours) {
  std::vector<std::string> lines;
  for (Warning& warning : warnings_by_folder(host, with_ours)) lines.push_back(std::move(warning.text));
  return lines;
}

std::string restored_line(const std::string& host, const RestoreReport& report, const RestoredSetting& setting) {
  using Outcome = RestoredSetting::Outcome;
  const bool kept = setting.outcome == Outcome::failed || setting.outcome == Outcome::absent;
  std::string text = std::string(kept ? "not restored: " : "restored: ") + host + ": " + to_string(setting.kind) +
                     " of " + setting.domain + ", left by " + describe(report.owner) + ": " +
                     to_string(setting.outcome);
  if (!setting.detail.empty()) text += " (" + setting.detail + ")";
  if (!setting.unread.empty()) text += " (it was killed while it set this, and left " + setting.unread + ")";
  if (kept) text += "; its journal stays in " + report.folder.string() + ": `trainwatt restore` tries again";
  return text;
}

std::vector<std::string> settle_before_measuring(const std::string& host) {
  std::vector<std::string> lines;
  const RestoreSummary summary = restore_journals();
  for (const RestoreReport& report : summary.reports)
    for (const RestoredSetting& setting : report.settings) lines.push_back(restored_line(host, report, setting));
  std::vector<Warning> warnings = warnings_by_folder(host, true);
  // Of a run at work these speak, unless it has ended since.
  const auto is_told = [&](const std::string& problem) {
    return std::ranges::find(summary.held, problem) != summary.held.end() &&
           std::ranges::any_of(warnings,
                               [&](const Warning& one) { return problem.starts_with(one.folder.string() + ": "); });
  };
  for (const std::string& problem : summary.problems)
    if (!is_told(problem)) lines.push_back("not restored: " + host + ": " + problem);
  for (Warning& warning : warnings) lines.push_back(std::move(warning.text));
  return lines;
}

}  // namespace tw::power
