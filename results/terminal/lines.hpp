// Text beside its label, on terminals of any width. Internal to results/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "results/record/text.hpp"

namespace tw::results::text {

/// `text` wrapped behind a label that ends at column `indent`; where less than a third of the width would be left for it, or
/// a word of it would not fit, on lines of its own under the label, behind four spaces.
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

}  // namespace tw::results::text
