// Text on terminals: beside its label, whatever their width, in colour, or in ASCII alone. Internal to results/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "results/record/names.hpp"
#include "results/record/text.hpp"

namespace tw::results::text {

/// `text` wrapped behind a label that ends at column `indent`; where less than a third of the width would be left for
/// it, or a word of it would not fit, on lines of its own under the label, behind four spaces.
inline std::string beside(const std::string& text, std::size_t width, std::size_t indent) {
  constexpr std::size_t own_indent = 4;
  std::size_t longest = 0;
  for (std::size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find(' ', at), text.size());
    longest = std::max(longest, columns(text.substr(at, end - at)));
  }
  if (indent <= own_indent || indent + std::max(width / 3, longest) <= width || indent + columns(text) <= width)
    return wrap(text, width, indent);
  return "\n" + std::string(own_indent, ' ') + wrap(text, width, own_indent);
}

/// Of printable UTF-8: our own signs by their replacements (µs is us, ± is +-), all else, which is in names of
/// others, as visible escapes: "\u00fc".
std::string ascii(const std::string& text);

/// Wraps text in SGR escape sequences, or leaves it alone. Pad before painting: escapes have no width.
class Paint {
 public:
  explicit Paint(bool on) : on_(on) {}
  std::string bold(const std::string& text) const { return wrap("1", text); }
  std::string dim(const std::string& text) const { return wrap("2", text); }
  std::string red(const std::string& text) const { return wrap("31", text); }
  std::string green(const std::string& text) const { return wrap("32", text); }
  std::string yellow(const std::string& text) const { return wrap("33", text); }
  std::string cyan(const std::string& text) const { return wrap("36", text); }
  std::string status(Status status, const std::string& text) const {
    return status == Status::valid ? green(text) : status == Status::unsupported ? dim(text) : red(text);
  }

 private:
  std::string wrap(const char* code, const std::string& text) const {
    return on_ && !text.empty() ? std::string("\033[") + code + "m" + text + "\033[0m" : text;
  }
  bool on_;
};

}  // namespace tw::results::text
