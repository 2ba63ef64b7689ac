// What a search over settings looks for, and what it has found; and which micro-batch `--micro-batch auto` takes.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "results/record/fault.hpp"
#include "results/record/known_texts.hpp"
#include "results/record/record.hpp"

namespace tw::results {

/// Less is better; of one sample: its joules; joules × seconds (energy-delay product, Gonzalez and Horowitz 1996); or
/// its cost, for the time of all nodes and for the joules.
struct SearchGoal {
  SearchMerit merit = SearchMerit::energy;
  double max_slowdown = 0.05;             ///< share of the samples/s at the found settings that may be lost
  double hour_price = 0, kwh_price = 0;   ///< of the whole job, and of its energy; for SearchMerit::cost
};

/// Nullopt if the record is not valid or has no joules of that scope. The merit is computed for each trial, since its
/// joules and its speed share its time; the result is their mean.
std::optional<Estimate> merit_of(const Record& record, const SearchGoal& goal, Scope scope);

/// The scope for a search over these settings ("gpu_clock_mhz"), from the record at the found settings: the widest that
/// includes the training and all settings (results/analysis/scopes.hpp); none if the record has joules of none of them.
Scope search_scope(const Record& found, const std::vector<std::string>& settings);
/// Names of the settings that an outcome's records were asked for.
std::set<std::string> searched_settings(const Report& report, const SearchOutcome& outcome);

/// Fills the ratios from the records that the outcome names and judges them; `reason`: why nothing better is claimed.
void conclude(SearchOutcome& outcome, const std::vector<Record>& records);

/// What a report's outcomes claim and its records do not confirm ("search_differs"): that a setting is the
/// best of those measured and fast enough, how many these were, by how much it is better.
std::vector<Fault> search_faults(const Report& report, const SearchGoal& goal);

/// What is appended to a point's id when the search measures it once more at its end.
inline constexpr const char* again_suffix = "/again";

/// Twice the micro-batch has to be this much faster to be worth its memory.
inline constexpr double least_gain_of_doubling = 0.02;
bool gains_by_doubling(const MicroBatchTrial& half, const MicroBatchTrial& whole);
/// The smallest size whose doubling gains less, or has no speed, or was not tried. Nullopt where the first has none.
std::optional<std::int64_t> chosen_micro_batch(const std::vector<MicroBatchTrial>& trials);
/// Whether twice the last size is to be tried: there is none yet, or each gains enough over its half.
bool is_search_open(const std::vector<MicroBatchTrial>& trials);

/// Whether whoever ran the plan has given the size.
inline bool is_declared(const MicroBatchSearch& search) {
  return search.trials.empty() && declared_by_option.is(search.stopped_by);
}
/// Whether the arguments of the launches of a run ("trainwatt-train", "--micro-batch", "16", …) declare this size; also
/// where they cannot tell: there are none, or a resumed run has the options of a launch that left no record.
bool declares(const std::vector<std::vector<std::string>>& launches, std::int64_t size);

/// How `stopped_by` begins after these trials, at least one: "doubling 4 gains less than 2 %", or "micro-batch 8: "
/// with the reason why that size has no speed or was not tried.
KnownReason end_of_search(const std::vector<MicroBatchTrial>& trials);

}  // namespace tw::results
