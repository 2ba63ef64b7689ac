#include "bench/tool/terminal.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "bench/terminal/error_line.hpp"
#include "bench/terminal/terminal.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

/// Whether the terminal's character set holds the blocks of bars and sparklines.
bool has_unicode() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"})  // the first that is set decides
    if (is_set(variable)) {
      std::string value = std::getenv(variable);
      std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
      return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
    }
  return false;
}

}  // namespace

void say_error(std::string_view text) {
  std::fflush(stdout);  // keeps the order of output and error in one pipe or log file
  say_on_stderr(error_line("trainwatt", text));
}
void say_warning(std::string_view text) {
  std::fflush(stdout);
  say_on_stderr(warning_line("trainwatt", text));
}

std::string share_of(double part, double whole) {
  constexpr double least_percent = 0.001;
  const double percent = 100 * part / whole;
  if (percent > 0 && percent < least_percent) return fmt::format("< {} %", least_percent);
  return results::text::significant(percent) + " %";
}

void print_table(const std::vector<std::vector<std::string>>& rows, std::size_t text_columns) {
  using results::text::pad_left, results::text::pad_right;
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], results::text::columns(row[i]));
  }
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += "  " + (i < text_columns ? pad_right(row[i], widths[i]) : pad_left(row[i], widths[i]));
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

results::TableStyle terminal_style(std::optional<int> width, bool ascii) {
  results::TableStyle style;
  const bool terminal = isatty(STDOUT_FILENO);
  style.color = terminal && !is_set("NO_COLOR");
  style.unicode = !ascii && has_unicode();
  if (!width) width = terminal_width(STDOUT_FILENO);
  if (width) style.width = *width;
  return style;
}

}  // namespace tw::bench::tool
