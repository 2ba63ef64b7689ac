// Spelling help for names that a person typed: networks and layers, and in bench options and configuration keys. It is
// here because models looks names up too and must not include bench.
#pragma once

#include <string>
#include <vector>

namespace tw::models {

/// The candidate that `word` was probably meant to be: fewest edits (insertion, deletion, substitution, swap of
/// neighbours; case is ignored), at most a third of the longer word's length and at least one; otherwise the first
/// candidate that begins with `word` (three letters or more). "" where nothing is close.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

/// What a message shows of a word that a person, or a program, wrote: 64 bytes of UTF-8 at most, then "…". The mark of
/// keys in messages (bench/plan/options/usage_error.cpp) and NUL, which would end what(), are escaped.
std::string cut_word(const std::string& word);

}  // namespace tw::models
