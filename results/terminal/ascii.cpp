#include "results/terminal/lines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace tw::results::text {
namespace {

constexpr std::pair<std::string_view, std::string_view> signs[] = {
    {"µ", "u"},  {"÷", "/"},  {"×", "x"},  {"±", "+-"}, {"°", ""},    {"─", "-"}, {"–", "-"}, {"…", ".."},
    {"→", "->"}, {"≤", "<="}, {"≥", ">="}, {"₂", "2"},  {"€", "EUR"}, {"’", "'"}, {"·", "*"}};

}  // namespace

std::string ascii(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) {
      out += text[at++];
      continue;
    }
    const std::size_t length = std::min<std::size_t>(lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2, text.size() - at);
    const std::string_view sign = std::string_view(text).substr(at, length);
    if (const auto ours = std::ranges::find(signs, sign, &std::pair<std::string_view, std::string_view>::first);
        ours != std::end(signs)) {
      out += ours->second;
    } else {
      unsigned code = lead & (0xffu >> (length + 1));
      for (const char c : sign.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3fu);
      out += fmt::format("\\u{:04x}", code);
    }
    at += length;
  }
  return out;
}

}  // namespace tw::results::text
