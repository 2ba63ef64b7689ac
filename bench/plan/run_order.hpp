// The order in which one of several runs of a plan measures its points.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/plan/plan.hpp"

namespace tw::bench {

/// Indices into `plan.points`, in the order of run `run` (from 1) of the plan. Run 1 has the plan's own order, and so
/// has every run of a search, which chooses its points itself. Settings stay outermost and in their order. Under one
/// setting the runs are the rows of a Williams square: over as many runs as there are points each point has each place
/// once, and, where their number is even, follows each other point once. After that the rows begin again. So what
/// drifts along a run, or lingers from one point to the next, does not favour a point in the mean over the runs.
/// Source: E. J. Williams, Experimental designs balanced for the estimation of residual effects of treatments,
/// Australian Journal of Scientific Research A 2 (1949) 149.
std::vector<std::size_t> run_order(const RunPlan& plan, int run);

}  // namespace tw::bench
