// The reference curves of results/reference/convergence, compiled in: how the tasks converge in an independent
// framework, in float32 (scripts/oracle/converge.py makes them).
#pragma once

#include <string>

#include "results/record.hpp"

namespace tw {

/// A run is as it should be where the mean number of steps over its seeds lies within the reference's mean plus or
/// minus the larger of these: three standard deviations of the reference's seeds, or a fifth of its mean. The first
/// covers what seeds do, the second what a framework's choices do that no recipe fixes.
inline constexpr double band_deviations = 3, band_share = 0.2;

/// Fills target.reference from the curve of the same task, model, batch and evaluation, at target.value; or
/// target.reference_reason where there is none. Networks with batch norm have a curve for each micro-batch.
void find_reference(Target& target, const Workload& workload);

/// The file of a task as text; empty: there is none.
std::string convergence_json(const std::string& task);

}  // namespace tw
