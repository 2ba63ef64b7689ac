// Numbers in what people read.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <locale>
#include <sstream>
#include <string>

namespace tw::power {

/// Six significant digits at most, and no zeros behind them: "0.25", "61.2345", "100".
inline std::string number_text(double value) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << value;
  return text.str();
}

/// As printf writes it; of a long text the first 319 bytes.
[[gnu::format(printf, 1, 2)]] inline std::string formatted(const char* format, ...) {
  char line[320];
  va_list values;
  va_start(values, format);
  std::vsnprintf(line, sizeof line, format, values);
  va_end(values);
  return line;
}

}  // namespace tw::power
