// What the terminal that tables are printed on can show.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/terminal/tables.hpp"

namespace tw::bench::tool {

/// Colours on a terminal unless NO_COLOR is set; blocks where its character set has them and `ascii` is false; `width`,
/// else the terminal's from 40 to 200, else 100.
results::TableStyle terminal_style(std::optional<int> width = {}, bool ascii = false);
/// "trainwatt: error[CODE]: TEXT" on standard error, of a text made by with_code().
void say_error(std::string_view text);
void say_warning(std::string_view text);

/// "12.5 %" of the whole, "< 0.001 %" of less than that.
std::string share_of(double part, double whole);

/// Left-justified up to `text_columns`, right-justified after.
void print_table(const std::vector<std::vector<std::string>>& rows, std::size_t text_columns);

}  // namespace tw::bench::tool
