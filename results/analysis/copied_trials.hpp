// Trials that are copies of each other.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// The largest power of ten, from 1 to 1e-12, that all values are multiples of: the tick of the clock or sensor.
double tick_of(const std::vector<double>& values);

/// Trials of one record whose steps took the same to the last digit, by place, the earlier one first, where no clock
/// gives that twice: the steps that differ from all others of their trial hold 12 digits or more between them that
/// might have been others. Of one step that is the logarithm of how many of its clock's ticks lie between the quartiles
/// of the trial's steps, so that equal, rounded and few steps are never taken for copies. So are trials whose four
/// phases or more are the same shares of a step to nine digits, whatever all of it was multiplied with, and two windows
/// of one training with the same first four losses or gradient norms.
std::vector<std::pair<std::size_t, std::size_t>> copied_trials(const Record& record);

}  // namespace tw::results
