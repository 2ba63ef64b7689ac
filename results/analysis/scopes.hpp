// Which joules show what a setting or a network costs.
#pragma once

#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// Scopes whose joules include all that training on `device` draws and that these settings ("gpu_clock_mhz") change,
/// widest first: always "node"; "package" if the CPU trains and only the CPU is set, "device" likewise for a GPU. The
/// device of a command is not known: it has both, except those that a setting rules out.
std::vector<Scope> telling_scopes(const std::string& device, const std::vector<std::string>& settings);
/// Of what the record was asked to set.
std::vector<Scope> telling_scopes(const Record& record);
/// The scopes that hold for each of the records: only joules of these scopes may be compared.
std::vector<Scope> telling_scopes(const std::vector<const Record*>& records);

}  // namespace tw::results
