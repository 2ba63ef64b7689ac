// What a comparison takes of each trial, and what each workload weighs in an overall mean. Internal to the comparison.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/compare/comparison.hpp"

namespace tw::results {

/// One figure of one record, of each of its valid trials.
struct FigureValues {
  std::vector<double> values;  ///< positive and finite; empty with a reason
  double common = 0;           ///< half width, 95 %, that all of them have in common, as a share
  std::string reason;
  std::optional<Estimate> estimate{};  ///< of figures that are no mean of `values`
};
/// `price` is needed for costs alone.
FigureValues values_of(const Record& record, FigureKind figure, Scope scope, const PriceRow* price, int nodes);

/// The figure with its interval, as the record's summary has it.
Estimate estimate_of(const FigureValues& values);

/// As CompareOptions::weights has it: of the longest text that the id holds; 0 if none is, 1 where no weights are
/// given.
double weight_of(const std::string& id, const std::map<std::string, double>& weights);
/// Throws OptionError for a weight that is not a number from 0 on, or that fits no workload.
void check_weights(const std::map<std::string, double>& weights, const std::vector<ComparedWorkload>& workloads);

}  // namespace tw::results
