// `trainwatt restore`: for an epilog, or a person who wonders.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "bench/tool/commands.hpp"
#include "power/knob/in_force.hpp"
#include "power/knob/restore.hpp"
#include "results/record/text.hpp"

namespace tw::tool {

namespace {
constexpr const char* root_folder = "/run/trainwatt";
}

int restore(bool all) {
  RestoreOptions options;
  options.even_if_held = all;
  const RestoreSummary summary = restore_journals(options);
  for (const RestoreReport& report : summary.reports) {
    const std::string whose = text::printable(describe(report.owner));
    if (report.discarded) {
      fmt::print("{}: the journal of {} is from before a reboot, which no setting survives: discarded\n",
                 text::printable(report.folder.string()), whose);
      continue;
    }
    fmt::print("{}: settings of {}{}\n", text::printable(report.folder.string()), whose,
               report.overruled ? ", which still runs: its point is not_applied from now on" : "");
    for (const RestoredSetting& setting : report.settings) {
      using Outcome = RestoredSetting::Outcome;
      std::string text = to_string(setting.outcome);
      if (setting.outcome == Outcome::reset)
        text += ": nothing tells what was found, so this is the hardware's default";
      if (setting.outcome == Outcome::left) text += ", since somebody else has changed it: " + setting.detail;
      if (setting.outcome == Outcome::put_back && !setting.detail.empty())
        text += "; left, since somebody else has changed it: " + setting.detail;
      if (setting.outcome == Outcome::failed || setting.outcome == Outcome::absent) text += ": " + setting.detail;
      if (!setting.unread.empty())
        text += "; " + setting.unread +
                " stood there, and the run was killed while it set it: what the hardware had "
                "made of it, or somebody else since";
      fmt::print("  {:20} {:24} {}\n", to_string(setting.kind), text::printable(setting.domain), text::printable(text));
    }
  }
  for (const std::string& problem : summary.problems) {
    const bool held = std::ranges::find(summary.held, problem) != summary.held.end();
    fmt::print(stderr, "trainwatt: {}{}\n", text::printable(problem),
               held ? ": it puts them back at its end. To end it now: Ctrl-C, or kill -INT of that process" : "");
  }
  if (summary.reports.empty() && summary.problems.empty()) {
    std::string looked_at;
    for (const std::filesystem::path& folder : options.folders)
      looked_at += (looked_at.empty() ? "" : ", ") + folder.string();
    fmt::print("nothing to restore in {}\n", text::printable(looked_at));
    if (std::ranges::find(options.folders, std::filesystem::path(root_folder)) == options.folders.end())
      fmt::print("not looked at: {}{}\n", root_folder,
                 geteuid() == 0 ? ": TRAINWATT_RUN_DIR names another" : ", where root's runs journal: that is root's");
  }
  for (const SettingsInForce& one : settings_in_force())
    if (!one.ours) fmt::print("not touched: {}\n", text::printable(describe(one) + remedy(one)));
  return summary.complete() ? 0 : 3;
}

}  // namespace tw::tool
