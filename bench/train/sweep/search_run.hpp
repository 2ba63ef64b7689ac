// A search over settings, measured point by point on all ranks.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "comm/job.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

/// Measures a point, or has its record from an earlier launch; what it returns counts on the root rank.
using MeasurePoint = std::function<const results::Record&(const Point&)>;

/// For each workload: the found settings, then points of its grid until the best is known, then these two again, one
/// after the other, so that drift does not look like a gain (collective). A Stop thrown by `measure` passes through.
std::vector<results::SearchOutcome> run_search(comm::Job& job, const RunPlan& plan, const MeasurePoint& measure);

/// "rapl: no_driver": each source's reason once; empty if any meter is counted.
std::string why_no_energy(const std::vector<results::MeterEntry>& meters);
/// The kinds of settings that the plan sets.
std::set<power::KnobKind> kinds_of(const RunPlan& plan);
/// Of the joules that the search goes by. Throws Stop if no meter has any that include what is searched.
results::Scope scope_to_search(const RunPlan& plan, const std::vector<results::MeterEntry>& meters);

}  // namespace tw::bench
