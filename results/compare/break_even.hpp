// Where the cheaper of two systems changes, and how sure that is. Internal to the comparison.
#pragma once

#include <string>
#include <vector>

#include "results/compare/comparison.hpp"
#include "results/cost/cost.hpp"

namespace tw::results {

struct CostRun {
  const Record* record = nullptr;
  int nodes = 1;
};
struct CostSubject {
  std::string name;
  std::vector<CostRun> runs;  ///< of one workload, one at least
  const PriceRow* price = nullptr;
  std::string machine{};                        ///< results/compare/run_variance.hpp
  std::vector<std::vector<CostRun>> earlier{};  ///< groups of earlier runs of that machine, of the same workload
};
struct BreakEvens {
  std::vector<BreakEven> inputs;
  std::string reason;  ///< why there are none; empty if nothing is to be said at all
};

/// Of the cost of a million samples, or of a model. Whoever is named as cheaper at a price is so by the verdict that
/// the comparison would have at it: its 95 % interval leaves 1 out there. Prices are looked at from 0 to 10 times the
/// one that is given (where none is, the one that alone is what the more expensive one costs), utilisations from 1 %.
/// None where a cost is a lower bound (what it leaves out may turn the order round anywhere), where the comparison has
/// no verdict, as of single runs, where one has no cost, or where they rest on different joules.
BreakEvens break_evens(const CostSubject& a, const CostSubject& b, Replicates replicates, const std::string& currency);

}  // namespace tw::results
