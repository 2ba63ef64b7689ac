// Which joules tell what a setting or a network costs.
#pragma once

#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// Scopes whose joules hold all that training on `device` draws and that these settings ("gpu_clock_mhz") change, the widest
/// first: always "node"; "package" where the CPU trains and nothing but it is set, "device" where a GPU does. What a command
/// trains on is not known: it has both, less those that a setting leaves out.
std::vector<Scope> telling_scopes(const std::string& device, const std::vector<std::string>& settings);
/// Of what the record was asked to set.
std::vector<Scope> telling_scopes(const Record& record);
/// Those that tell of each of the records: only of these may their joules be held against each other.
std::vector<Scope> telling_scopes(const std::vector<const Record*>& records);

}  // namespace tw::results
