// Where the time of a step goes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// Seconds of each phase of a step, mean over all steps of valid trials and over ranks, in the order of the step; then
/// "rest": what the mean step of the slowest rank takes beyond them. Empty if no phase was timed, or no trial is
/// valid.
std::vector<std::pair<std::string, double>> mean_phases(const Record& record);

}  // namespace tw::results
