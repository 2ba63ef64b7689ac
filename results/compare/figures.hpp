// What a comparison takes of each trial. Internal to the comparison.
#pragma once

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

}  // namespace tw::results
