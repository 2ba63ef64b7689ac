// Rules for regression checks: what a new report may differ from a baseline by, as data. There is no code in them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/compare/comparison.hpp"

namespace tw::results {

enum class RuleKind {
  variance,  ///< a figure ÷ the baseline's, less 1, lies between -most_below and most_above, with its whole 95 %
             ///< interval over runs
  value,    ///< a figure lies between at_least and at_most in each run, whatever the baseline has
  failure,  ///< no more than at_most points are missing, failed, invalid, or carry one of the flags, in any run
};
template <>
inline constexpr std::array name_list<RuleKind> = {"variance", "value", "failure"};
struct BaselineRule {
  std::string name;
  RuleKind kind = RuleKind::variance;
  std::string figure;                            ///< a name of rule_figures()
  Scope scope = Scope::none;                     ///< of a value of joules
  std::vector<std::string> points;               ///< texts of which a point's id holds one; empty: all points
  std::optional<double> most_below, most_above;  ///< shares: 0.05
  std::optional<double> at_least, at_most;
  std::vector<Flag> flags;
  /// Of a variance; says what holds for each of them, that only intervals decide. Read so that older rules files are.
  bool surely = false;
};
struct BaselineRules {
  std::string note;
  std::vector<BaselineRule> rules;
};
/// What a rule may be about: compared_figures() without costs, the other figures of merit, and some that have no
/// interval.
std::vector<std::string> rule_figures();
/// Reads a rules file (JSON, comments allowed; results/schema/baseline.schema.json). Throws std::runtime_error with the
/// place.
BaselineRules baseline_from_json(const std::string& text);
/// The figure of a comparison that decides a variance rule about this one: itself, of FLOP/s the throughput, which has
/// the same ratio. Empty if it has no interval.
std::string compared_figure_of(const std::string& figure);
/// Each rule on each system but the reference, which is the baseline. `comparison` is of these systems and has the
/// figures of the variance rules. A variance rule is kept or violated if the whole interval is inside or outside, else
/// undecided; figures without an interval are compared as they are, and are undecided if one of the two systems was run
/// once. Not checked: every rule on a system with faults, and points without the figure, except points that the
/// baseline's device does not support, to which no rule applies.
std::vector<RuleCheck> check_baseline(const BaselineRules& rules, const std::vector<SystemInput>& systems,
                                      const Comparison& comparison);

}  // namespace tw::results
