// What each workload weighs in an overall mean. Internal to the comparison.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "results/compare/comparison.hpp"

namespace tw::results {

/// As CompareOptions::weights has it: of the longest text that the id holds; 0 where none is, 1 where no weights are
/// given.
double weight_of(const std::string& id, const std::map<std::string, double>& weights);
/// Throws std::invalid_argument for a weight that is no number from 0 on, or is nobody's.
void check_weights(const std::map<std::string, double>& weights, const std::vector<ComparedWorkload>& workloads);

}  // namespace tw::results
