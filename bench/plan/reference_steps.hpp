// What a run to a target is compared with, and how many steps it is therefore likely to take.
#pragma once

#include <optional>

#include "bench/plan/plan.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

/// Of a point with a task; its reference, or the reason why there is none, is that of `workload`.
results::Target target_of(const Point& point, const results::Workload& workload);

/// Mean steps of the reference curves of the point's task to its target (results/analysis/convergence.hpp); nullopt
/// where no curve is of its batch and target.
std::optional<double> reference_steps(const Point& point);

}  // namespace tw::bench
