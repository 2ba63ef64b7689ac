#include "results/analysis/flag_notes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "results/analysis/run_rules.hpp"

namespace tw::results {
namespace {

std::string with_thresholds(const char* text) {
  return fmt::format(fmt::runtime(text), fmt::arg("window", published_window_s),
                     fmt::arg("periods", published_window_periods), fmt::arg("least_trials", least_trials),
                     fmt::arg("trials", least_replicates));
}

/// "too_short: rapl:package-0": of meters that were there and had no joules for a window, each once.
std::vector<std::string> silent_meters(const Record& record) {
  constexpr Reason of_window[] = {Reason::too_short, Reason::not_updated, Reason::lost,  Reason::gap,
                                  Reason::wrapped,   Reason::not_covered, Reason::reset, Reason::stalled};
  std::vector<std::string> all;
  for (const Trial& trial : record.trials)
    for (const EnergyRow& row : trial.energy) {
      if (row.energy_j || row.method == Method::none || std::ranges::find(of_window, row.why()) == std::end(of_window))
        continue;
      if (std::string one = row.reason + ": " + row.domain; std::ranges::find(all, one) == all.end())
        all.push_back(std::move(one));
    }
  return all;
}

}  // namespace

std::string note_of(const FlagName& flag, const std::vector<Record>& records) {
  std::vector<const Record*> flagged;
  for (const Record& record : records)
    if (has_flag(record, flag)) flagged.push_back(&record);
  if (flag == Flag::no_energy_meter && !flagged.empty()) {
    std::string meters;
    std::size_t with_meters = 0;
    for (const Record* record : flagged) {
      const std::vector<std::string> silent = silent_meters(*record);
      with_meters += !silent.empty();
      for (const std::string& one : silent)
        if (meters.find(one) == std::string::npos) meters += (meters.empty() ? "" : ", ") + one;
    }
    if (with_meters > 0)
      return (with_meters == flagged.size() ? "an energy meter answered" : "no energy meter answered, or one did") +
             (" but had no joules for a window (" + meters) +
             "): its joules are absent; the speed is not affected. `trainwatt show` says more with each trial.";
  }
  const bool of_commands =
      !flagged.empty() && std::ranges::all_of(flagged, [](const Record* one) { return is_command(*one); });
  if (of_commands && flag.known())
    if (const char* text = facts_of(*flag.known()).of_command) return with_thresholds(text);
  return note_of(flag);
}

std::string note_of(const FlagName& flag) {
  return flag.known() ? with_thresholds(facts_of(*flag.known()).text)
                      : "set by the program; this version has no explanation for it.";
}

std::vector<FlagName> flags_of(const std::vector<Record>& records) {
  std::vector<FlagName> flags;
  for (const Record& record : records)
    for (const FlagName& flag : record.verdict.flags)
      if (std::ranges::find(flags, flag) == flags.end()) flags.push_back(flag);
  return flags;
}

}  // namespace tw::results
