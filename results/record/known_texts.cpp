#include "results/record/known_texts.hpp"

#include <fmt/args.h>
#include <fmt/format.h>

#include <algorithm>

namespace tw::results {
namespace {

std::string worded(std::string_view wording, const std::vector<std::string>& values) {
  fmt::dynamic_format_arg_store<fmt::format_context> arguments;
  for (const std::string& value : values) arguments.push_back(value);
  return fmt::vformat(wording, arguments);
}

template <class Matches>
bool any_wording(const KnownText& known, const std::vector<std::string>& values, Matches matches) {
  return std::ranges::any_of(
      known.wordings, [&](std::string_view wording) { return !wording.empty() && matches(worded(wording, values)); });
}

/// Removes what is before `separator`, or everything, from `text` and returns it.
std::string_view next(std::string_view& text, std::string_view separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(text.size(), part.size() + separator.size()));
  return part;
}

/// Whether `text` is `wording` with any text in the place of each "{}".
bool has_pieces(std::string_view text, std::string_view wording) {
  constexpr std::string_view value = "{}";
  const std::size_t first = wording.find(value);
  if (first == std::string_view::npos) return text == wording;
  if (!text.starts_with(wording.substr(0, first))) return false;
  text.remove_prefix(first), wording.remove_prefix(first + value.size());
  for (std::size_t size; (size = wording.find(value)) != std::string_view::npos;) {
    const std::size_t at = text.find(wording.substr(0, size));
    if (at == std::string_view::npos) return false;
    text.remove_prefix(at + size), wording.remove_prefix(size + value.size());
  }
  return text.ends_with(wording);
}

/// The codes of each clause that has one.
std::vector<std::vector<std::string_view>> codes_of(std::string_view reason) {
  std::vector<std::vector<std::string_view>> all;
  while (!reason.empty()) {
    std::vector<std::string_view> codes;
    for (std::string_view clause = next(reason, "; "); !clause.empty();) {
      const std::string_view code = next(clause, ": ");
      if (code.find(' ') != std::string_view::npos) break;
      codes.push_back(code);
    }
    if (!codes.empty()) all.push_back(std::move(codes));
  }
  return all;
}

}  // namespace

std::string KnownText::text(const std::vector<std::string>& values) const { return worded(wordings.front(), values); }

bool KnownText::is(std::string_view stored, const std::vector<std::string>& values) const {
  return any_wording(*this, values, [&](const std::string& one) { return stored == one; });
}

bool KnownText::begins(std::string_view stored, const std::vector<std::string>& values) const {
  return any_wording(*this, values, [&](const std::string& one) { return stored.starts_with(one); });
}

bool KnownText::is_with_any(std::string_view stored) const {
  return std::ranges::any_of(wordings,
                             [&](std::string_view wording) { return !wording.empty() && has_pieces(stored, wording); });
}

bool same_reason(std::string_view a, std::string_view b) {
  return a.empty() == b.empty() && codes_of(a) == codes_of(b);
}

}  // namespace tw::results
