// Cells of the tables for other programs: what a report says is text there, never markup and never a formula. Internal
// to results/.
#pragma once

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "results/record/text.hpp"

namespace tw::results::cells {

/// Text as GitHub shows it: what begins markup, a table's cell, HTML, mathematics or the link of an address is escaped.
/// The text has no line ends any more (text::printable).
inline std::string markdown(const std::string& text) {
  const auto is_word = [&](std::size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]));
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool inside_word = c == '_' && i > 0 && is_word(i - 1) && is_word(i + 1);
    const bool before_link = c == ':' && text.compare(i, 3, "://") == 0;
    if (c == '&')
      out += "&amp;";
    else if ((std::string_view("\\`*_[]<>|~$").find(c) != std::string_view::npos && !inside_word) || before_link)
      (out += '\\') += c;
    else
      out += c;
  }
  return out;
}

/// A row of a table in Markdown.
inline std::string line_of(const std::vector<std::string>& cells) { return "| " + text::join(cells, " | ") + " |\n"; }

/// RFC 4180: in quotes where a comma, a quote or an end of line is inside, and quotes doubled.
inline std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

/// Text from the report as a cell of CSV: on one line, and no formula.
inline std::string text(const std::string& raw) {
  const std::string text = text::printable(raw);
  return quoted(!text.empty() && std::string_view("=+-@").find(text[0]) != std::string_view::npos ? "'" + text : text);
}

/// The shortest text that reads back as the same number, without regard to the locale; empty if there is none.
inline std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : ""; }
inline std::string number(std::integral auto value) { return fmt::format("{}", value); }
template <class T>
std::string number(const std::optional<T>& value) {
  return value ? number(*value) : "";
}

}  // namespace tw::results::cells
