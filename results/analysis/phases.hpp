// Where the time of a step goes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// Seconds of each phase of a step, mean over all steps of valid trials and over ranks, in the order in which they
/// happen; then "rest": what the slowest rank's mean step takes beyond them. Empty where no phase was timed, or no trial
/// is valid.
std::vector<std::pair<std::string, double>> mean_phases(const Record& record);

}  // namespace tw::results
