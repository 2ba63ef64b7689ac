// What each flag of a verdict means, for people.
#pragma once

#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// What a flag means, and what to do.
std::string note_of(const FlagName& flag);
/// The same, as it fits those of the records that have it: a metered command has no options of a run, and joules may be
/// absent though a meter was there.
std::string note_of(const FlagName& flag, const std::vector<Record>& records);
/// The flags of all records, each once, in the order of appearance.
std::vector<FlagName> flags_of(const std::vector<Record>& records);

}  // namespace tw::results
