// `--micro-batch auto`: the size of a point is found before its trials.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/train/point/measure_point.hpp"

namespace tw::bench {

/// Times a few whole steps at 1, 2, 4, … samples until doubling gains less than 2 % (results/selection/search.hpp),
/// does not fit, or does not divide the global batch (collective over the ranks that train). The chosen size, its half
/// and its double are then timed again in turn, and each size counts by its fastest step: a disturbance while one size
/// was timed does not make the choice. What was declared is taken without a trial. All ranks come to the same. Throws
/// Stop on all ranks where not even one sample fits, or a signal asked for the end.
results::MicroBatchSearch find_micro_batch(RunContext& context, const Point& point);

/// By size_key(): what the points of these records have found.
std::map<std::string, results::MicroBatchSearch> recalled_micro_batches(const RunPlan& plan,
                                                                        const std::vector<results::Record>& records);

}  // namespace tw::bench
