// What a plan's refusals call its axes where these stand in a config file.
#pragma once

#include <string>

#include "bench/plan/plan.hpp"

namespace tw {

/// A refusal in the words of who wrote the request. Of a config the file stands before it, and `--micro-batch` becomes
/// the JSON pointer of that key: in the grid `at`, or beside the grids where it stands there; where no key is named,
/// the grid's pointer stands before the text. Options that go over the config keep their names, and so do all without a
/// config. `at` null: the refusal is of no one grid.
std::string in_words_of(const Request& request, const Axes* at, const std::string& text);

/// Of a top-level key's value that was checked as that of an option.
std::string in_config_words(const std::string& path, const std::string& text);

}  // namespace tw
