// Which joules show what a setting or a network costs; joules of a sample and of a run to its target.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// Scopes whose joules may include all that training draws, widest first.
inline constexpr std::array training_scopes = {Scope::node, Scope::device, Scope::package};

/// Scopes whose joules include all that training on `device` draws and that these settings ("gpu_clock_mhz") change,
/// widest first: always "node"; "package" if the CPU trains and only the CPU is set, "device" likewise for a GPU. The
/// device of a command is not known: it has both, except those that a setting rules out.
std::vector<Scope> telling_scopes(const std::string& device, const std::vector<std::string>& settings);
/// Of what the record was asked to set.
std::vector<Scope> telling_scopes(const Record& record);
/// The scopes that hold for each of the records: only joules of these scopes may be compared.
std::vector<Scope> telling_scopes(const std::vector<const Record*>& records);

/// Of what is positive the less the better made the more the better, with its interval: joules a sample, as samples/J.
Estimate inverse(const Estimate& e);
/// Joules of one sample with the interval, from samples a joule.
Estimate joules_per_sample(const Estimate& samples_per_joule);
/// Joules of a sample; of a run to its target. Nullopt if the record has none of the scope, or what no joules can
/// be.
std::optional<Estimate> sample_joules(const Record& record, Scope scope);
std::optional<Estimate> target_joules(const Record& record, Scope scope);

}  // namespace tw::results
