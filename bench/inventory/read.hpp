// Small readers of /proc and /sys, shared inside this folder.
#pragma once

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tw::bench::inventory {

inline std::string trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\n\r\0");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\n\r\0") - begin + 1));
}

/// Whole file; nullopt if it cannot be opened or read: sysfs answers EINVAL for some attributes, and /proc ESRCH for
/// a process that has ended meanwhile.
inline std::optional<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::string text, block(4096, '\0');
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())),
         file.gcount() > 0)  // iterators would throw
    text.append(block, 0, static_cast<std::size_t>(file.gcount()));
  if (file.bad()) return std::nullopt;
  return text;
}

/// Content without surrounding space; nullopt if unreadable or empty.
inline std::optional<std::string> read_word(const std::filesystem::path& path) {
  auto text = read_text(path);
  if (!text) return std::nullopt;
  std::string word = trimmed(*text);
  if (word.empty()) return std::nullopt;
  return word;
}

template <class Number>
std::optional<Number> to_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

template <class Number>
std::optional<Number> read_number(const std::filesystem::path& path) {
  const auto word = read_word(path);
  return word ? to_number<Number>(*word) : std::nullopt;
}

/// "0-2,8" → 0, 1, 2, 8; what is no such list ends it.
inline std::vector<int> number_list(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t dash = part.find('-');
    const auto first = to_number<int>(part),
               last = dash == std::string::npos ? first : to_number<int>(part.substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= (1 << 20)) break;
    for (int number = *first; number <= *last; ++number) numbers.push_back(number);
  }
  return numbers;
}

/// Value of a "key: value" or "key value" line; nullopt if there is none.
inline std::optional<std::string> find_field(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const auto rest = std::string_view(line).substr(key.size());
    const auto after = rest.find_first_not_of(" \t");
    const bool separated = after != std::string_view::npos && (after > 0 || rest[0] == ':' || rest[0] == '=');
    if (!separated) continue;
    return trimmed(rest.substr(rest[after] == ':' || rest[after] == '=' ? after + 1 : after));
  }
  return std::nullopt;
}

inline bool file_exists(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace tw::bench::inventory
