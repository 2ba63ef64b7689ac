// Whether runs to a target began from the same seeds. Internal to the comparison.
#pragma once

#include <vector>

#include "results/compare/comparison.hpp"

namespace tw::results {

/// The seeds of both sides' runs to a target in one workload, where they differ: which of them are drawn decides how
/// many steps a target takes, so who may choose them chooses the figure. It blocks the figures to the target and no
/// other. Sides are alike if each run of both has the same set of seeds, or both have the same sets equally often.
/// `system` and `workloads` are filled in by the caller. Nothing of records without a target.
std::vector<Difference> seed_differences(const std::vector<const Record*>& reference,
                                         const std::vector<const Record*>& system);

}  // namespace tw::results
