#include "bench/terminal/error_line.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tw {

std::string with_code(std::string_view code, std::string_view text) { return fmt::format("[{}] {}", code, text); }

std::string_view code_of(std::string_view text) {
  const std::size_t end = text.find("] ");
  if (!text.starts_with('[') || end == text.npos || end == 1) return {};
  const std::string_view code = text.substr(1, end - 1);
  const bool valid = std::ranges::all_of(
      code, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  return valid ? code : std::string_view();
}

std::string_view without_code(std::string_view text) {
  const std::string_view code = code_of(text);
  return code.empty() ? text : text.substr(code.size() + 3);
}

std::string line_of(std::string_view program, std::string_view text) {
  return code_of(text).empty() ? fmt::format("{}: {}", program, text) : error_line(program, text);
}

std::string error_line(std::string_view program, std::string_view text) {
  const std::string_view code = code_of(text);
  if (code.empty()) return fmt::format("{}: error: {}", program, text);
  return fmt::format("{}: error[{}]: {}", program, code, without_code(text));
}

}  // namespace tw
