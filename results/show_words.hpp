// The wording of show.cpp: lists, counts, what is absent, and what a picture is drawn of.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/record.hpp"
#include "results/text.hpp"

namespace tw::show {

inline std::string join(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts)
    if (!part.empty()) text += (text.empty() ? "" : separator) + part;
  return text;
}
inline std::string count(std::int64_t n, const std::string& noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}
template <class T, class F>
std::string figure_or_absent(const std::optional<T>& value, F print) {
  return value ? print(*value) : std::string("absent");
}
inline std::string time_or_absent(const std::optional<double>& value) {
  return figure_or_absent(value, [](double v) { return text::duration(v); });
}
inline std::string percent(double share) { return text::significant(100 * share, share < 0.01 ? 2 : 3) + " %"; }

/// "0-3,8"
inline std::string ranges(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]) + (j > i ? "-" + std::to_string(numbers[j]) : "");
    i = j + 1;
  }
  return text;
}

inline std::vector<double> joined(const Record& r, std::vector<double> Trial::*member) {
  std::vector<double> all;
  for (const Trial& t : r.trials) all.insert(all.end(), (t.*member).begin(), (t.*member).end());
  return all;
}

/// How many of the finite values fall into each of `buckets` equal parts of their range; empty where that has no width.
inline std::vector<double> histogram(std::vector<double> values, std::size_t buckets) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return {};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double range = *high - *low;
  if (!(range > 0) || !std::isfinite(range)) return {};
  std::vector<double> counts(buckets, 0);
  for (double v : values)
    ++counts[std::min(buckets - 1, static_cast<std::size_t>((v - *low) / range * static_cast<double>(buckets)))];
  return counts;
}

}  // namespace tw::show
