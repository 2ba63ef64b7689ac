// Which trials of a record count, what each gives, and where the time of their steps goes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// A window of positive, finite length.
bool has_window(const Trial& trial);
/// One step at least, each of positive, finite time.
bool has_steps(const Trial& trial);
bool has_finite_losses(const Trial& trial);
/// Whether this counter of the trial says that heat or a power brake held its device back for more than 1 % of the
/// window.
bool holds_back(const Trial& trial, const CounterRow& counter);
/// Whether a set point of the plan read otherwise along the trial or after it.
bool lost_a_set_point(const Trial& trial);

/// All of the above are as they should be. Any other trial has failed or is invalid, and makes its record so: it enters
/// no mean and no quantile.
bool is_valid(const Trial& trial);
/// Those of the record, in order; none where the point is unsupported or failed. They live as long as the record.
std::vector<const Trial*> valid_trials(const Record& record);

/// What the trial has trained; not a number where a command did not say.
double samples_of(const Record& record, const Trial& trial);
/// Those ÷ the seconds in which it trained: of a command those that it names, of a run to a target the window less its
/// evaluations. Not a number where no time is left.
double throughput_of(const Record& record, const Trial& trial);
/// Joules of a scope's counted meters; not a number where any is absent.
double joules_of(const Trial& trial, Scope scope);
/// Half width, 95 %, of those: the meters' own, added up, since one clock's error is in all of them.
double uncertainty_of(const Trial& trial, Scope scope);

/// Seconds of each phase of a step, mean over all steps of valid trials and over ranks, in the order of the step; then
/// "rest": what the mean step of the slowest rank takes beyond them. Empty if no phase was timed, or no trial is
/// valid.
std::vector<std::pair<std::string, double>> mean_phases(const Record& record);

}  // namespace tw::results
