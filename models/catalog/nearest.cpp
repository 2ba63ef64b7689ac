#include "models/catalog/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace tw::models {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Optimal string alignment distance (Levenshtein with swaps of neighbours).
std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string typed = lower(word);
  if (typed.empty()) return {};
  const std::string* best = nullptr;
  std::size_t fewest = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t allowed = std::max<std::size_t>(1, std::max(typed.size(), candidate.size()) / 3);
    // It takes an edit for each letter that one has more, and the table of edits of a long word is large.
    if (std::max(typed.size(), candidate.size()) - std::min(typed.size(), candidate.size()) > allowed) continue;
    const std::size_t distance = edits(typed, lower(candidate));
    // A word of which every letter was changed is another word ("a" for "b").
    if (distance > allowed || distance >= std::max(typed.size(), candidate.size())) continue;
    if (best == nullptr || distance < fewest) best = &candidate, fewest = distance;
  }
  if (best != nullptr) return *best;
  if (typed.size() < 3) return {};
  for (const std::string& candidate : candidates) {
    if (lower(candidate).starts_with(typed)) return candidate;
  }
  return {};
}

std::string cut_word(const std::string& word) {
  std::size_t most = std::min<std::size_t>(word.size(), 64);
  if (most < word.size())
    while (most > 0 && (static_cast<unsigned char>(word[most]) & 0xc0) == 0x80) --most;  // not inside a character
  std::string shown;
  for (const char c : word.substr(0, most))
    shown += c == '\x1e' ? std::string("\\x1e") : c == '\0' ? std::string("\\x00") : std::string(1, c);
  return most < word.size() ? shown + "…" : shown;
}

}  // namespace tw::models
