// Joules of a sample and of a run to its target, with their intervals.
#pragma once

#include <optional>

#include "results/record/record.hpp"

namespace tw::results {

/// Of what is positive the less the better made the more the better, with its interval: joules a sample, as samples/J.
Estimate inverse(const Estimate& e);
/// Joules of one sample with the interval, from samples a joule.
Estimate joules_per_sample(const Estimate& samples_per_joule);
/// Joules of a sample; of a run to its target. Nullopt if the record has none of the scope, or what no joules can
/// be.
std::optional<Estimate> sample_joules(const Record& record, Scope scope);
std::optional<Estimate> target_joules(const Record& record, Scope scope);

}  // namespace tw::results
