// The run rules (results/README.md) as one table: what each asks for, and whether a report keeps it. The page, the
// workbook, comparisons and `trainwatt validate` of reports and of offers all take them from here. What the report says
// is taken as it stands: verdicts and flags follow from the samples (results/analysis/verdict.hpp), and `trainwatt
// validate` holds them against these. The rule of comparisons is kept by results/compare/comparison.hpp.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// The thresholds of the rules. Whoever flags, waits or plans by one takes it from here.
inline constexpr double published_window_s = 60, published_window_periods = 100;  ///< periods of the meter
inline constexpr int least_trials = 3;
inline constexpr int least_replicates =
    5;  ///< trials that the suites measure, and runs that a claim is recommended to rest on
/// How much warmer than the first one another point may begin, by the hottest sensor of all nodes.
inline constexpr double start_band_c = 5;
/// How far apart a power series' entries may be: a second, or so many times their median distance.
inline constexpr double coarsest_sampling_s = 1, widest_sampling_gap = 3;

enum class RunRuleState {
  kept,
  broken,          ///< in one place at least
  not_checkable,   ///< no report can show it, or this one does not
  not_applicable,  ///< nothing in the report that it is about
};
template <>
inline constexpr std::array name_list<RunRuleState> = {"kept", "broken", "not checkable", "does not apply"};

/// One for each record that breaks a rule: the first place there, and how many there are.
struct RunRulePlace {
  const Record* record = nullptr;  ///< of the report that was checked; null: a point without one
  std::string where, what;         ///< "gpt2-tiny/bf16/acc4/np2, trial 2", "a window is short"
  std::size_t count = 1;
};
struct RunRule;
struct RunRuleCheck {
  const RunRule* rule = nullptr;
  RunRuleState state = RunRuleState::kept;
  std::string reason;                ///< what shows that it is kept, or why it cannot be checked; empty if broken
  std::vector<RunRulePlace> places;  ///< where it is broken, and how
};

struct RunRuleFlag {
  Flag flag;
  std::string means;  ///< "a window is short"
};
struct RunRule {
  std::string id, asks;            ///< "window"; without capital and full stop
  std::string broken;              ///< what is wrong where it is broken, in few words: "a window is short or …"
  std::vector<RunRuleFlag> flags;  ///< of a verdict, each of which breaks it
  /// Adds the places that no flag tells of, and sets what holds where there are none.
  void (*check)(const Report& report, RunRuleCheck& found);
};

/// `complete` first, then in the order of results/README.md.
const std::vector<RunRule>& run_rules();
/// One for each rule, in that order. They point into the report.
std::vector<RunRuleCheck> check_run_rules(const Report& report);

/// The first three places and how many more there are, or the reason; without a full stop. Not safe to print as it is:
/// it quotes what the report says.
std::string finding(const RunRuleCheck& check);
/// The same as a sentence.
std::string finding_sentence(const RunRuleCheck& check);

}  // namespace tw::results
