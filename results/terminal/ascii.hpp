// What goes to a terminal or a file that shows ASCII alone. Internal to results/.
#pragma once

#include <string>

namespace tw::results::text {

/// Of printable UTF-8: our own signs by those that stand for them (µs is us, ± is +-), all else, which is in names of
/// others, as visible escapes: "\u00fc".
std::string ascii(const std::string& text);

}  // namespace tw::results::text
