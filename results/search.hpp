// What a search over settings looks for, and what it has found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/record.hpp"

namespace tw {

/// All are the less the better, of one sample: its joules; joules × seconds (energy-delay product, Gonzalez and Horowitz
/// 1996); currency, for the time of all nodes and for the joules.
enum class SearchMerit { energy, edp, cost };
const char* to_string(SearchMerit merit);
/// Nullopt for an unknown name.
std::optional<SearchMerit> merit_from_string(const std::string& name);
const std::vector<std::string>& merit_names();

struct SearchGoal {
  SearchMerit merit = SearchMerit::energy;
  double max_slowdown = 0.05;             ///< share of the samples/s at the found settings that may be lost
  double hour_price = 0, kwh_price = 0;   ///< of the whole job, and of its energy; for SearchMerit::cost
};

/// Nullopt where the record is not valid or has no joules of that scope. The interval is that of speed and joules in
/// quadrature.
std::optional<Estimate> merit_of(const Record& record, const SearchGoal& goal, const std::string& scope);

/// The widest scope of which a record has joules: node, device, package; empty where it has none.
std::string widest_scope(const Record& record);

/// Fills the ratios from the records that the outcome names, or the reason why there are none.
void conclude(SearchOutcome& outcome, const std::vector<Record>& records);

/// What a report's outcomes claim and its records do not bear out, one line each with a JSON pointer: that a setting is the
/// best of those measured and fast enough, how many these were, by how much it is better.
std::vector<std::string> search_faults(const Report& report, const SearchGoal& goal);

/// What is appended to a point's id when the search measures it once more at its end.
inline constexpr const char* again_suffix = "/again";

}  // namespace tw
