// What the terminal that tables are printed on can show.
#pragma once

#include <optional>

#include "results/terminal/tables.hpp"

namespace tw::bench::tool {

/// Colours on a terminal unless NO_COLOR is set; blocks where its character set has them and `ascii` is false; `width`,
/// else the terminal's from 40 to 200, else 100.
results::TableStyle terminal_style(std::optional<int> width, bool ascii);

}  // namespace tw::bench::tool
