// `trainwatt restore`: for an epilog, or a person who wonders.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "bench/terminal/error_line.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/terminal.hpp"
#include "power/knob/in_force.hpp"
#include "power/knob/restore.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

constexpr const char* root_folder = "/run/trainwatt";

/// 0: nothing is left of dead runs; 3: something is, or a journal is not trusted.
int restore(bool all) {
  power::RestoreOptions options;
  options.even_if_held = all;
  const power::RestoreSummary summary = power::restore_journals(options);
  for (const power::RestoreReport& report : summary.reports) {
    const std::string whose = results::text::printable(power::describe(report.owner));
    if (report.discarded) {
      fmt::print("{}: the journal of {} is from before a reboot, which reset all settings: discarded\n",
                 results::text::printable(report.folder.string()), whose);
      continue;
    }
    fmt::print("{}: settings of {}{}\n", results::text::printable(report.folder.string()), whose,
               report.overruled ? ", which is still running: its point becomes not_applied" : "");
    for (const power::RestoredSetting& setting : report.settings) {
      using Outcome = power::RestoredSetting::Outcome;
      std::string text = power::to_string(setting.outcome);
      if (setting.outcome == Outcome::reset)
        text += ": the earlier value is not known, so the hardware's default was set";
      if (setting.outcome == Outcome::left) text += ", because someone else has changed it: " + setting.detail;
      if (setting.outcome == Outcome::put_back && !setting.detail.empty())
        text += "; left, because someone else has changed it: " + setting.detail;
      if (setting.outcome == Outcome::failed || setting.outcome == Outcome::absent) text += ": " + setting.detail;
      if (!setting.unread.empty())
        text += "; " + setting.unread +
                " was set there: the run was killed while it changed the setting, or someone else changed it "
                "afterwards";
      fmt::print("  {:20} {:24} {}\n", power::to_string(setting.kind), results::text::printable(setting.domain),
                 results::text::printable(text));
    }
  }
  for (const std::string& problem : summary.problems) {
    const bool held = std::ranges::find(summary.held, problem) != summary.held.end();
    say_error(held
                  ? with_code("settings-held", results::text::printable(problem) +
                                                   ": that run restores them when it ends; to end it now, press Ctrl-C "
                                                   "there or use kill -INT")
                  : with_code("not-restored", results::text::printable(problem)));
  }
  if (summary.reports.empty() && summary.problems.empty()) {
    const std::string looked_at = results::text::join(options.folders, ", ");
    fmt::print("nothing to restore in {}\n", results::text::printable(looked_at));
    if (std::ranges::find(options.folders, std::filesystem::path(root_folder)) == options.folders.end())
      fmt::print("not checked: {}{}\n", root_folder,
                 geteuid() == 0 ? ": TRAINWATT_RUN_DIR names another folder"
                                : ": only root can read the journals of root's runs");
  }
  for (const power::SettingsInForce& one : power::settings_in_force())
    if (!one.ours) fmt::print("not touched: {}\n", results::text::printable(power::describe(one) + power::remedy(one)));
  return summary.complete() ? 0 : 3;
}

}  // namespace

Action add_restore(CLI::App& command, const Words&) {
  const auto all = std::make_shared<bool>(false);
  command.add_flag("--all", *all, "also restore the settings of a run that is still alive (for a job's epilog)");
  return [all] { return restore(*all); };
}

}  // namespace tw::bench::tool
