// Numbers in what people read.
#pragma once

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

}  // namespace tw::power
