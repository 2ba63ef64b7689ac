// What a report says about which setting to choose, as text.
#pragma once

#include <string>

#include "results/record/record.hpp"
#include "results/terminal/tables.hpp"

namespace tw::results {

/// The fronts of speed against energy with their knees; empty if no two points can be compared with each other.
std::string front_text(const Report& report, const TableStyle& style);
/// "node energy per sample": what a search made the least of.
std::string merit_words(const SearchOutcome& outcome);
/// What each search came to; empty without one.
std::string search_text(const Report& report, const TableStyle& style);

}  // namespace tw::results
