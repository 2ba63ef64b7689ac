// Reports whose figures are known by hand, for comparisons and costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/compare/comparison.hpp"
#include "results/record/record.hpp"

namespace tw::testing {

/// One trial for each of `samples_per_s`, 64 samples a step, 10 steps. `watts`: of one counted meter of `scope`;
/// absent: no meter.
results::Record made_record(const std::string& id, const std::vector<double>& samples_per_s,
                            std::optional<double> watts = {}, results::Scope scope = results::Scope::node);
/// Of one host "node1" with two ranks.
results::Report made_report(std::vector<results::Record> records);
/// A run to a target for each pair of seconds and steps.
results::Record made_target_record(const std::string& id, const std::vector<double>& seconds,
                                   std::optional<double> watts = {});

results::SystemInput made_system(const std::string& name, std::vector<results::Record> records);

}  // namespace tw::testing
